// Three ways to write a batch of leaves and to recompute the nodes above them. The result is the
// same bits: every changed node is combined from its final descendants, and leaves are written in
// the order of the batch, so the last of duplicates wins. For the layout see kept_levels.hpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kept_levels.hpp"
#include "node.hpp"
#include "update_algorithm.hpp"

namespace rpa {

// Elements of a batch that `touched` takes at a time: their lines fit in the nearest cache.
inline constexpr std::int64_t touched_block = 64;

// To the second cache: the first has too few lines in flight.
template <class Node>
void prefetch(const Node* node) {
  __builtin_prefetch(node, 0, 2);
}

// The lines that a few elements need from the levels that stay in no cache are asked for at once.
template <class Node>
void update_per_element(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                        const double* values, std::int64_t n) {
  constexpr std::int64_t few = 8;
  constexpr std::int64_t cached_nodes = 1 << 14;
  for (std::int64_t j = 0; n <= few && j < n; ++j) {
    for (std::int64_t i = padded + indices[j]; i >= cached_nodes; i >>= 2) prefetch(nodes + i);
  }
  for (std::int64_t j = 0; j < n; ++j) {
    nodes[padded + indices[j]] = make_leaf<Node>(values[j]);
  }
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = (padded + indices[j]) >> 2; i >= 1; i >>= 2) combine_four(nodes, i);
  }
  combine_levels(nodes, padded, 0);
}

// Recomputes the ancestors of at most touched_block leaves in the levels of more than `swept`
// nodes. Each ancestor is prefetched as soon as it is known, one kept level ahead. Neighbours in
// the batch that share an ancestor leave one entry: a run of consecutive leaves, as intake writes,
// shrinks fourfold at each level. The store is unconditional to avoid a branch.
template <class Node>
void update_block(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                  const double* values, std::int64_t n, std::int64_t swept) {
  std::int64_t touched[touched_block];
  std::int64_t count = 0;
  std::int64_t previous = 0;
  const auto touch = [&](std::int64_t ancestor) {
    prefetch(nodes + ancestor);
    touched[count] = ancestor;
    count += ancestor != previous;
    previous = ancestor;
  };
  for (std::int64_t j = 0; j < n; ++j) prefetch(nodes + padded + indices[j]);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t leaf = padded + indices[j];
    nodes[leaf] = make_leaf<Node>(values[j]);
    touch(leaf >> 2);
  }
  for (std::int64_t width = padded / 4; width > swept; width /= 4) {
    const std::int64_t level_count = count;
    count = 0;
    previous = 0;
    for (std::int64_t j = 0; j < level_count; ++j) {
      const std::int64_t i = touched[j];
      combine_four(nodes, i);
      touch(i >> 2);
    }
  }
}

// Levels of at most `swept` nodes are swept whole, once for the batch.
template <class Node>
void update_touched(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                    const double* values, std::int64_t n, std::int64_t swept) {
  for (std::int64_t j = 0; j < n; j += touched_block) {
    update_block(nodes, padded, indices + j, values + j, std::min(touched_block, n - j), swept);
  }
  std::int64_t width = padded / 4;
  while (width > swept) width /= 4;
  combine_levels(nodes, padded, width);
}

template <class Node>
void update_rebuild(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                    const double* values, std::int64_t n) {
  constexpr std::int64_t ahead = 32;
  for (std::int64_t j = 0; j < n; ++j) {
    if (j + ahead < n) prefetch(nodes + padded + indices[j + ahead]);
    nodes[padded + indices[j]] = make_leaf<Node>(values[j]);
  }
  combine_all(nodes, padded);
}

}  // namespace rpa
