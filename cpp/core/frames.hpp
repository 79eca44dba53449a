// Stacked frames: items whose last axis is the frame, put together from frames that are kept apart.
#pragma once

#include <cstdint>

namespace rpa {

// out[p * depth + j] = frames[j][p] for p < size, with Depth known to the compiler: it makes
// vectors of this.
template <class T, int Depth>
void interleave_fixed(const T* const* frames, std::int64_t size, T* __restrict out) {
  const T* source[Depth];
  for (int j = 0; j < Depth; ++j) source[j] = frames[j];
  for (std::int64_t p = 0; p < size; ++p) {
    for (int j = 0; j < Depth; ++j) out[p * Depth + j] = source[j][p];
  }
}

template <class T>
void interleave(const T* const* frames, std::int64_t depth, std::int64_t size, T* out) {
  if (depth == 2) return interleave_fixed<T, 2>(frames, size, out);
  if (depth == 3) return interleave_fixed<T, 3>(frames, size, out);
  if (depth == 4) return interleave_fixed<T, 4>(frames, size, out);
  for (std::int64_t j = 0; j < depth; ++j) {
    for (std::int64_t p = 0; p < size; ++p) out[p * depth + j] = frames[j][p];
  }
}

}  // namespace rpa
