// Random batches for a tree, made to hurt: duplicates, runs, empty leaves, 18 orders of magnitude,
// and now and then the smallest and the largest mass there is.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "oracle.hpp"
#include "validate.hpp"

namespace rpa {

struct RandomBatch {
  std::vector<std::int64_t> indices;
  std::vector<double> masses;

  RandomBatch(std::int64_t n, std::int64_t capacity, std::mt19937_64& random)
      : indices(n), masses(n) {
    const std::uint64_t kind = random() % 4;
    for (std::int64_t j = 0; j < n; ++j) {
      auto index = static_cast<std::int64_t>(random() % capacity);
      if (j > 0 && kind == 1 && random() % 10 != 0) index = indices[random() % j];
      if (j > 0 && kind == 2) index = (indices[j - 1] + 1) % capacity;
      if (j > 0 && kind == 3) index = indices[0];
      indices[j] = index;
      masses[j] = oracle::random_mass(random);
      if (random() % 64 == 0) masses[j] = 5e-324;
      if (random() % 1024 == 0) masses[j] = mass_limit(oracle::pad(capacity));
    }
  }

  std::int64_t size() const { return static_cast<std::int64_t>(indices.size()); }
};

}  // namespace rpa
