// One write of a batch on its way to a device.
#pragma once

#include <cstdint>

namespace rpa {

// Index and mass side by side travel in one transfer.
struct Item {
  std::int64_t index;
  double mass;
};

}  // namespace rpa
