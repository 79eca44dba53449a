// Which update algorithm to use for a batch.
#pragma once

#include <cstdint>

#include "update.hpp"

namespace rpa {

inline UpdateAlgorithm choose_update(std::int64_t n, std::int64_t padded) {
  if (n < 4) return UpdateAlgorithm::per_element;
  return n < padded / 4 ? UpdateAlgorithm::touched : UpdateAlgorithm::rebuild;
}

}  // namespace rpa
