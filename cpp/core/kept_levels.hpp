// Which nodes of a tree are in memory.
//
// Nodes are numbered as in a heap: the root is 1, the children of i are 2i and 2i + 1, and the
// leaves are padded ... 2 * padded - 1, where padded is a power of two. Of the levels only every
// second one is kept, counted from the leaves, and always the root. The level between is a sum and
// a minimum of neighbours away, with the same bits as if it were kept; the four grandchildren of a
// node are one 64-byte line of PairNodes. So updates and descents wait for half the lines.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "node.hpp"

namespace rpa {

// The number of levels above the leaves.
inline int levels_above(std::int64_t padded) {
  return std::countr_zero(static_cast<std::uint64_t>(padded));
}

// Whether the root lies between kept levels, so that it is made of its children.
inline bool root_has_two(std::int64_t padded) { return levels_above(padded) % 2 == 1; }

// The width of the smallest kept level of nodes that are made of their grandchildren.
inline std::int64_t first_width(std::int64_t padded) { return root_has_two(padded) ? 2 : 1; }

// The value of any node.
template <class Node>
Node node_at(const Node* nodes, std::int64_t padded, std::int64_t i) {
  const int depth = std::bit_width(static_cast<std::uint64_t>(i)) - 1;
  const bool kept = i <= 1 || (levels_above(padded) - depth) % 2 == 0;
  return kept ? nodes[i] : combine(nodes[2 * i], nodes[2 * i + 1]);
}

// Recomputes a kept node from its grandchildren.
template <class Node>
inline void combine_four(Node* nodes, std::int64_t i) {
  const Node* four = nodes + 4 * i;
  nodes[i] = combine(combine(four[0], four[1]), combine(four[2], four[3]));
}

#ifdef __SSE2__
// The same bits as combine(), both members at once. Keys are >= 0 and not NaN, so which of two
// equal ones is taken is the same; the sum of keys and the maximum of sums are thrown away.
inline __m128d combine_packed(__m128d left, __m128d right) {
  return _mm_move_sd(_mm_max_pd(left, right), _mm_add_pd(left, right));
}

inline void combine_four(PairNode* nodes, std::int64_t i) {
  const double* four = &nodes[4 * i].sum;
  const __m128d left = combine_packed(_mm_loadu_pd(four), _mm_loadu_pd(four + 2));
  const __m128d right = combine_packed(_mm_loadu_pd(four + 4), _mm_loadu_pd(four + 6));
  _mm_storeu_pd(&nodes[i].sum, combine_packed(left, right));
}
#endif

// Recomputes the kept levels of `width` nodes, a kept width, and above, whole. The levels are
// sequential, since each reads the one below; the nodes of a level are independent.
template <class Node>
void combine_levels(Node* nodes, std::int64_t padded, std::int64_t width) {
  for (; width >= 1; width /= 4) {
    for (std::int64_t i = width; i < 2 * width; ++i) combine_four(nodes, i);
  }
  if (root_has_two(padded)) nodes[1] = combine(nodes[2], nodes[3]);
}

// Recomputes everything above the leaves.
template <class Node>
void combine_all(Node* nodes, std::int64_t padded) {
  combine_levels(nodes, padded, padded / 4);
}

}  // namespace rpa
