// Checks of a batch before anything is changed. Each returns the position of the first offender,
// or -1. The first pass has no early exit, so that the compiler can vectorize it.
#pragma once

#include <cstdint>
#include <limits>

namespace rpa {

inline std::int64_t first_bad_index(const std::int64_t* indices, std::int64_t n,
                                    std::int64_t capacity) {
  const auto bad = [capacity](std::int64_t i) {
    return static_cast<std::uint64_t>(i) >= static_cast<std::uint64_t>(capacity);
  };
  bool any = false;
  for (std::int64_t j = 0; j < n; ++j) any |= bad(indices[j]);
  for (std::int64_t j = 0; any && j < n; ++j) {
    if (bad(indices[j])) return j;
  }
  return -1;
}

// Finds a value that is NaN, negative or above `limit`.
inline std::int64_t first_bad_mass(const double* masses, std::int64_t n, double limit) {
  const auto good = [limit](double mass) { return (mass >= 0.0) & (mass <= limit); };
  bool all = true;
  for (std::int64_t j = 0; j < n; ++j) all &= good(masses[j]);
  for (std::int64_t j = 0; !all && j < n; ++j) {
    if (!good(masses[j])) return j;
  }
  return -1;
}

// The largest mass a leaf may have so that the sum of `padded` leaves stays finite. `padded` is a
// power of two, so the quotient and every partial bound are exact.
inline double mass_limit(std::int64_t padded) {
  return std::numeric_limits<double>::max() / static_cast<double>(padded);
}

}  // namespace rpa
