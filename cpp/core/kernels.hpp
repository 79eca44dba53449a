// The parallel kernels of a tree. Every loop marked RPA_FOR has independent iterations and is one
// launch on a device; the levels of a tree depend on each other and are always sequential.
//
// Nodes are numbered as in a heap: the root is 1, the children of i are 2i and 2i + 1, and the
// leaves are padded ... 2 * padded - 1, where padded is a power of two. All arrays are present on
// the device. Kernels are queued in order on one queue; wait() before the host reads.
#pragma once

#include <cstdint>

#include "descend.hpp"
#include "item.hpp"
#include "node.hpp"
#include "parallel.hpp"

namespace rpa::RPA_BACKEND {

// Levels of at most this many nodes are combined by one launch of a single gang: a level of them
// costs less than a launch. (The tests make both limits small, to have all kinds in small trees.)
#ifndef RPA_FUSED_WIDTH
#define RPA_FUSED_WIDTH 4096
#endif
inline constexpr std::int64_t fused_width = RPA_FUSED_WIDTH;

// Batches of at most this many items are one launch.
#ifndef RPA_SMALL_BATCH
#define RPA_SMALL_BATCH 4096
#endif
inline constexpr std::int64_t small_batch = RPA_SMALL_BATCH;

inline void wait() {
#pragma acc wait(1)
}

// All nodes empty, no leaf claimed.
template <class Node>
void clear(Node* nodes, std::int64_t* claims, std::int64_t count) {
  static_assert(zero_is_empty<Node>);
#pragma acc parallel loop present(nodes[0 : count], claims[0 : count]) async(1)
  RPA_FOR(i, 0, count) {
    nodes[i] = Node{};
    claims[i] = 0;
  };
}

// Item j claims its leaf with the stamp round + j. The highest stamp stays, so the last of
// duplicates holds the leaf, and stamps of earlier rounds, which are all lower, need no clean-up.
// An exchange that displaces a higher stamp puts that back, and so on; the highest one is always
// either in its slot or about to be put there. (OpenACC has no atomic maximum.)
#pragma acc routine seq
inline void claim_leaf(std::int64_t* claims, std::int64_t padded, const Item* items, std::int64_t j,
                       std::int64_t round) {
  std::int64_t* slot = claims + padded + items[j].index;
  std::int64_t mine = round + j;
  std::int64_t before = RPA_EXCHANGE(slot, mine);
  while (before > mine) {
    mine = before;
    before = RPA_EXCHANGE(slot, mine);
  }
}

// Item j writes its leaf if it holds it. touched[j] is that leaf, or 0 for an item that lost.
#pragma acc routine seq
template <class Node>
inline void write_claimed(Node* nodes, const std::int64_t* claims, std::int64_t padded,
                          const Item* items, std::int64_t j, std::int64_t round,
                          std::int64_t* touched) {
  const std::int64_t leaf = padded + items[j].index;
  touched[j] = 0;
  if (claims[leaf] == round + j) {
    set_leaf(nodes[leaf], items[j].mass);
    touched[j] = leaf;
  }
}

// Combines the parent of touched node j and makes it the touched one. All of these are of one
// level. Of two touched siblings the left one goes on, so each parent is written once.
#pragma acc routine seq
template <class Node>
inline void combine_touched(Node* nodes, std::int64_t* claims, std::int64_t j, std::int64_t round,
                            std::int64_t* touched) {
  const std::int64_t child = touched[j];
  if (child == 0) return;
  if (child % 2 == 1 && claims[child - 1] >= round) {
    touched[j] = 0;
    return;
  }
  const std::int64_t parent = child / 2;
  set_parent(nodes[parent], nodes[2 * parent], nodes[2 * parent + 1]);
  claims[parent] = round;
  touched[j] = parent;
}

inline void claim_leaves(std::int64_t* claims, std::int64_t padded, const Item* items,
                         std::int64_t n, std::int64_t round) {
#pragma acc parallel loop present(claims[0 : 2 * padded], items[0 : n]) async(1)
  RPA_FOR(j, 0, n) { claim_leaf(claims, padded, items, j, round); };
}

template <class Node>
void write_leaves(Node* nodes, const std::int64_t* claims, std::int64_t padded, const Item* items,
                  std::int64_t n, std::int64_t round, std::int64_t* touched) {
#pragma acc parallel loop present(nodes[0 : 2 * padded], claims[0 : 2 * padded], items[0 : n], \
                                  touched[0 : n]) async(1)
  RPA_FOR(j, 0, n) { write_claimed(nodes, claims, padded, items, j, round, touched); };
}

template <class Node>
void combine_touched_level(Node* nodes, std::int64_t* claims, [[maybe_unused]] std::int64_t padded,
                           std::int64_t n, std::int64_t round, std::int64_t* touched) {
#pragma acc parallel loop present(nodes[0 : 2 * padded], claims[0 : 2 * padded], touched[0 : n]) \
    async(1)
  RPA_FOR(j, 0, n) { combine_touched(nodes, claims, j, round, touched); };
}

// Combines the whole level of `width` nodes.
template <class Node>
void combine_level(Node* nodes, std::int64_t width) {
#pragma acc parallel loop present(nodes[0 : 4 * width]) async(1)
  RPA_FOR(i, width, 2 * width) { set_parent(nodes[i], nodes[2 * i], nodes[2 * i + 1]); };
}

// Combines the levels of 2^(levels - 1), ..., 2, 1 nodes in one launch. A single gang, whose
// vector lanes wait for each other between the levels.
template <class Node>
void combine_top(Node* nodes, std::int64_t levels) {
#pragma acc parallel num_gangs(1) num_workers(1) vector_length(1024) \
    present(nodes[0 : std::int64_t{2} << levels]) async(1)
  {
#pragma acc loop seq
    RPA_LEVELS(level, 0, levels) {
      const std::int64_t width = std::int64_t{1} << (levels - 1 - level);
#pragma acc loop vector
      RPA_FOR(i, width, 2 * width) { set_parent(nodes[i], nodes[2 * i], nodes[2 * i + 1]); };
    };
  }
}

// A whole update in one launch: `touched_levels` levels of touched nodes, then `top_levels` whole
// ones. For batches so small that a launch per level would cost more than the lanes of one gang.
template <class Node>
void update_in_one_launch(Node* nodes, std::int64_t* claims, std::int64_t padded, const Item* items,
                          std::int64_t n, std::int64_t round, std::int64_t* touched,
                          std::int64_t touched_levels, std::int64_t top_levels) {
#pragma acc parallel num_gangs(1) num_workers(1) vector_length(1024) \
    present(nodes[0 : 2 * padded], claims[0 : 2 * padded], items[0 : n], touched[0 : n]) async(1)
  {
#pragma acc loop vector
    RPA_FOR(j, 0, n) { claim_leaf(claims, padded, items, j, round); };
#pragma acc loop vector
    RPA_FOR(j, 0, n) { write_claimed(nodes, claims, padded, items, j, round, touched); };
#pragma acc loop seq
    RPA_LEVELS(level, 0, touched_levels) {
#pragma acc loop vector
      RPA_FOR(j, 0, n) { combine_touched(nodes, claims, j, round, touched); };
    };
#pragma acc loop seq
    RPA_LEVELS(level, 0, top_levels) {
      const std::int64_t width = std::int64_t{1} << (top_levels - 1 - level);
#pragma acc loop vector
      RPA_FOR(i, width, 2 * width) { set_parent(nodes[i], nodes[2 * i], nodes[2 * i + 1]); };
    };
  }
}

// Leaves [first, first + n) = values.
template <class Node>
void write_range(Node* nodes, std::int64_t padded, std::int64_t first, const double* values,
                 std::int64_t n) {
#pragma acc parallel loop present(nodes[0 : 2 * padded], values[0 : n]) async(1)
  RPA_FOR(j, 0, n) { set_leaf(nodes[padded + first + j], values[j]); };
}

// Empties leaves [first, last).
template <class Node>
void empty_range(Node* nodes, std::int64_t padded, std::int64_t first, std::int64_t last) {
#pragma acc parallel loop present(nodes[0 : 2 * padded]) async(1)
  RPA_FOR(j, first, last) { nodes[padded + j] = Node{}; };
}

// values[j] = leaf indices[j].
template <class Node>
void read_leaves(const Node* nodes, std::int64_t padded, const std::int64_t* indices,
                 double* values, std::int64_t n) {
#pragma acc parallel loop present(nodes[0 : 2 * padded], indices[0 : n], values[0 : n]) async(1)
  RPA_FOR(j, 0, n) { values[j] = leaf_value(nodes[padded + indices[j]]); };
}

// values[j] = leaf first + j.
template <class Node>
void read_range(const Node* nodes, std::int64_t padded, std::int64_t first, double* values,
                std::int64_t n) {
#pragma acc parallel loop present(nodes[0 : 2 * padded], values[0 : n]) async(1)
  RPA_FOR(j, 0, n) { values[j] = leaf_value(nodes[padded + first + j]); };
}

// One descent from root to leaf; see descend.hpp for the rule.
#pragma acc routine seq
template <class Node>
inline std::int64_t descend_one(const Node* nodes, std::int64_t padded, double mass) {
  if (mass >= nodes[1].sum) mass = __builtin_inf();
  std::int64_t node = 1;
  while (node < padded) {
    node = descend_step(nodes[2 * node].sum, nodes[2 * node + 1].sum, node, mass);
  }
  return node - padded;
}

// The leaf on which each mass falls.
template <class Node>
void descend_all(const Node* nodes, std::int64_t padded, const double* masses,
                 std::int64_t* indices, std::int64_t n) {
#pragma acc parallel loop present(nodes[0 : 2 * padded], masses[0 : n], indices[0 : n]) async(1)
  RPA_FOR(j, 0, n) { indices[j] = descend_one(nodes, padded, masses[j]); };
}

}  // namespace rpa::RPA_BACKEND
