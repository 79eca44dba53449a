// Three ways to write a batch of leaves and to recompute the nodes above them. The result is the
// same bits: every changed node is combined from its final children, and leaves are written in
// the order of the batch, so the last of duplicates wins.
//
// Nodes are numbered as in a heap: the root is 1, the children of i are 2i and 2i + 1, and the
// leaves are padded ... 2 * padded - 1, where padded is a power of two.
#pragma once

#include <algorithm>
#include <cstdint>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "node.hpp"
#include "update_algorithm.hpp"

namespace rpa {

// Elements of a batch that `touched` takes at a time: their lines fit in the nearest cache.
inline constexpr std::int64_t touched_block = 64;

template <class Node>
void prefetch(const Node* node) {
  __builtin_prefetch(node, 1);
}

// Recomputes node i from its children.
template <class Node>
inline void combine_at(Node* nodes, std::int64_t i) {
  nodes[i] = combine(nodes[2 * i], nodes[2 * i + 1]);
}

#ifdef __SSE2__
// The same bits as combine(), with one load, addition, maximum and store for both members: an
// eighth off a whole update. Keys are >= 0 and not NaN, so which of two equal ones is taken is the
// same; the sum of keys and the maximum of sums are thrown away.
inline void combine_at(PairNode* nodes, std::int64_t i) {
  const __m128d left = _mm_loadu_pd(&nodes[2 * i].sum);
  const __m128d right = _mm_loadu_pd(&nodes[2 * i + 1].sum);
  _mm_storeu_pd(&nodes[i].sum, _mm_move_sd(_mm_max_pd(left, right), _mm_add_pd(left, right)));
}
#endif

// Recomputes the whole levels of `width` nodes and above. The levels are sequential, since each
// reads the one below; the nodes of a level are independent.
template <class Node>
void combine_levels(Node* nodes, std::int64_t width) {
  for (; width >= 1; width /= 2) {
    for (std::int64_t i = width; i < 2 * width; ++i) {
      combine_at(nodes, i);
    }
  }
}

// The lines that a few elements need from the levels that stay in no cache are asked for at once.
template <class Node>
void update_per_element(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                        const double* values, std::int64_t n) {
  constexpr std::int64_t few = 8;
  constexpr std::int64_t cached_nodes = 1 << 14;
  for (std::int64_t j = 0; n <= few && j < n; ++j) {
    for (std::int64_t i = padded + indices[j]; i >= cached_nodes; i >>= 1) prefetch(nodes + i);
  }
  for (std::int64_t j = 0; j < n; ++j) {
    nodes[padded + indices[j]] = make_leaf<Node>(values[j]);
  }
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = (padded + indices[j]) >> 1; i >= 1; i >>= 1) {
      combine_at(nodes, i);
    }
  }
}

// Recomputes the ancestors of at most touched_block leaves in the levels of more than `swept`
// nodes. Each parent is prefetched as soon as it is known, one level ahead. Neighbours in the
// batch that share a parent leave one entry: a run of consecutive leaves, as intake writes, halves
// at each level. The store is unconditional to avoid a branch.
template <class Node>
void update_block(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                  const double* values, std::int64_t n, std::int64_t swept) {
  std::int64_t touched[touched_block];
  std::int64_t count = 0;
  std::int64_t previous = 0;
  const auto touch = [&](std::int64_t parent) {
    prefetch(nodes + parent);
    touched[count] = parent;
    count += parent != previous;
    previous = parent;
  };
  for (std::int64_t j = 0; j < n; ++j) prefetch(nodes + padded + indices[j]);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t leaf = padded + indices[j];
    nodes[leaf] = make_leaf<Node>(values[j]);
    touch(leaf >> 1);
  }
  for (std::int64_t width = padded / 2; width > swept; width /= 2) {
    const std::int64_t level_count = count;
    count = 0;
    previous = 0;
    for (std::int64_t j = 0; j < level_count; ++j) {
      const std::int64_t i = touched[j];
      combine_at(nodes, i);
      touch(i >> 1);
    }
  }
}

// Levels of at most `swept` nodes, a power of two or 0, are swept whole, once for the batch.
template <class Node>
void update_touched(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                    const double* values, std::int64_t n, std::int64_t swept) {
  for (std::int64_t j = 0; j < n; j += touched_block) {
    update_block(nodes, padded, indices + j, values + j, std::min(touched_block, n - j), swept);
  }
  combine_levels(nodes, std::min(swept, padded / 2));
}

template <class Node>
void update_rebuild(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                    const double* values, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    nodes[padded + indices[j]] = make_leaf<Node>(values[j]);
  }
  combine_levels(nodes, padded / 2);
}

}  // namespace rpa
