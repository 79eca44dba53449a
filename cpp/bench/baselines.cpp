// The tree in C as people write it first, to compare with: a sum tree and a min tree in two arrays
// of 2 * cap doubles in heap order, cap a power of two. A plain C interface for Python's ctypes.
#include <cstdint>

extern "C" {

// Leaf to root, one element after the other, both trees in one loop.
void baseline_update(double* sums, double* mins, std::int64_t cap, const std::int64_t* indices,
                     const double* values, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    std::int64_t i = indices[j] + cap;
    sums[i] = values[j];
    mins[i] = values[j];
    for (i /= 2; i >= 1; i /= 2) {
      sums[i] = sums[2 * i] + sums[2 * i + 1];
      mins[i] = mins[2 * i + 1] < mins[2 * i] ? mins[2 * i + 1] : mins[2 * i];
    }
  }
}

// All leaves, then every internal node, level by level.
void baseline_rebuild(double* sums, double* mins, std::int64_t cap, const std::int64_t* indices,
                      const double* values, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    sums[indices[j] + cap] = values[j];
    mins[indices[j] + cap] = values[j];
  }
  for (std::int64_t level = cap / 2; level >= 1; level /= 2) {
    for (std::int64_t i = level; i < 2 * level; ++i) {
      sums[i] = sums[2 * i] + sums[2 * i + 1];
    }
    for (std::int64_t i = level; i < 2 * level; ++i) {
      mins[i] = mins[2 * i + 1] < mins[2 * i] ? mins[2 * i + 1] : mins[2 * i];
    }
  }
}

std::int64_t baseline_find(const double* sums, std::int64_t cap, double mass) {
  std::int64_t i = 1;
  while (i < cap) {
    if (sums[2 * i] > mass) {
      i = 2 * i;
    } else {
      mass -= sums[2 * i];
      i = 2 * i + 1;
    }
  }
  return i - cap;
}

void baseline_find_batch(const double* sums, std::int64_t cap, const double* masses,
                         std::int64_t* indices, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) indices[j] = baseline_find(sums, cap, masses[j]);
}

}  // extern "C"
