// Three ways to write a batch of leaves and to recompute the nodes above them. The result is the
// same bits: every changed node is combined from its final children, and leaves are written in
// the order of the batch, so the last of duplicates wins.
//
// Nodes are numbered as in a heap: the root is 1, the children of i are 2i and 2i + 1, and the
// leaves are padded ... 2 * padded - 1, where padded is a power of two.
#pragma once

#include <cstdint>

#include "kernels.hpp"
#include "node.hpp"
#include "update_algorithm.hpp"

namespace rpa {

template <class Node>
void write_leaves(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                  const double* values, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    nodes[padded + indices[j]] = make_leaf<Node>(values[j]);
  }
}

// Recomputes the whole levels of `width` nodes and above. The levels are sequential, since each
// reads the one below; the nodes of a level are independent.
template <class Node>
void combine_levels(Node* nodes, std::int64_t width) {
  for (; width >= 1; width /= 2) serial::combine_level(nodes, width);
}

template <class Node>
void update_per_element(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                        const double* values, std::int64_t n) {
  write_leaves(nodes, padded, indices, values, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = (padded + indices[j]) / 2; i >= 1; i /= 2) {
      nodes[i] = combine(nodes[2 * i], nodes[2 * i + 1]);
    }
  }
}

// `touched` is scratch for n node numbers. A level with no more nodes than the batch is swept
// whole, with all levels above it: that is cheaper than to follow a list.
template <class Node>
void update_touched(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                    const double* values, std::int64_t n, std::int64_t* touched) {
  std::int64_t width = padded / 2;
  std::int64_t count = 0;
  std::int64_t previous = 0;
  // Neighbours in the batch that share a parent leave one entry: a run of consecutive leaves, as
  // intake writes, halves at each level. The store is unconditional to avoid a branch.
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t leaf = padded + indices[j];
    nodes[leaf] = make_leaf<Node>(values[j]);
    touched[count] = leaf / 2;
    count += leaf / 2 != previous;
    previous = leaf / 2;
  }
  for (; width > count; width /= 2) {
    const std::int64_t level_count = count;
    count = 0;
    previous = 0;
    for (std::int64_t j = 0; j < level_count; ++j) {
      const std::int64_t i = touched[j];
      nodes[i] = combine(nodes[2 * i], nodes[2 * i + 1]);
      touched[count] = i / 2;
      count += i / 2 != previous;
      previous = i / 2;
    }
  }
  combine_levels(nodes, width);
}

template <class Node>
void update_rebuild(Node* nodes, std::int64_t padded, const std::int64_t* indices,
                    const double* values, std::int64_t n) {
  write_leaves(nodes, padded, indices, values, n);
  combine_levels(nodes, padded / 2);
}

}  // namespace rpa
