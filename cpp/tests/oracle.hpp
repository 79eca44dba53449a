// A tree written as plainly as possible, by a recursion over the definition, and the values and
// masses that hurt. The tests compare bits with it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace oracle {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline std::int64_t pad(std::int64_t capacity) {
  std::int64_t padded = 1;
  while (padded < capacity) padded *= 2;
  return padded;
}

// Sum of leaves [first, first + width), added pairwise.
inline double sum(const std::vector<double>& leaves, std::size_t first, std::size_t width) {
  if (first >= leaves.size()) return 0.0;
  if (width == 1) return leaves[first];
  return sum(leaves, first, width / 2) + sum(leaves, first + width / 2, width / 2);
}

inline double min_present(const std::vector<double>& leaves) {
  double least = infinity;
  for (double leaf : leaves) {
    if (leaf != 0.0 && leaf < least) least = leaf;
  }
  return least;
}

// The leaf a mass falls on, or the last one with mass.
inline std::int64_t find(const std::vector<double>& leaves, double mass) {
  std::size_t width = static_cast<std::size_t>(pad(static_cast<std::int64_t>(leaves.size())));
  std::size_t first = 0;
  if (mass >= sum(leaves, 0, width)) {
    std::int64_t last = -1;
    for (std::size_t j = 0; j < leaves.size(); ++j) {
      if (leaves[j] > 0.0) last = static_cast<std::int64_t>(j);
    }
    return last;
  }
  while (width > 1) {
    width /= 2;
    const double left = sum(leaves, first, width);
    if (mass >= left && sum(leaves, first + width, width) > 0.0) {
      mass -= left;
      first += width;
    }
  }
  return static_cast<std::int64_t>(first);
}

// A third of the masses 0, the rest over 18 orders of magnitude.
inline double random_mass(std::mt19937_64& random) {
  if (random() % 3 == 0) return 0.0;
  return std::pow(10.0, std::uniform_real_distribution<double>(-12.0, 6.0)(random));
}

// Uniform masses and, since those show no rounding, targeted ones at and just below the total.
inline std::vector<double> lookups(double total, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::vector<double> masses = {0.0, total, std::nextafter(total, 0.0),
                                std::nextafter(total, infinity), 2.0 * total};
  for (int k = 1; k <= 53; ++k) {
    masses.push_back(total * (1.0 - uniform(random) * std::ldexp(1.0, -k)));
    masses.push_back(total * uniform(random));
  }
  return masses;
}

}  // namespace oracle
