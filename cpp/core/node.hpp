// What one node of a tree holds, and how a parent is made of its two children.
//
// These are free functions marked `acc routine` because OpenACC compilers accept neither member
// functions nor un-inlined helpers inside a region; `-O0` must build too.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace rpa {

// Sum and min side by side: both children of a node share one 32-byte sector. `min_key` is the
// minimum over the present leaves in a coding for which 0 is "none", so that fresh zero pages are
// a valid empty tree; see min_key() below.
struct PairNode {
  double sum;
  double min_key;
};

struct SumNode {
  double sum;
};

struct MinNode {
  double min;
};

// Whether descents by prefix sum are possible.
template <class Node>
inline constexpr bool has_sum = !std::is_same_v<Node, MinNode>;

// Whether all-zero bytes are an empty tree.
template <class Node>
inline constexpr bool zero_is_empty = !std::is_same_v<Node, MinNode>;

inline constexpr std::int64_t infinity_bits = 0x7FF0000000000000;

// Codes a mass so that absent (0) is 0 and a smaller mass has a larger key. For doubles >= 0 the
// bit pattern grows with the value, so `bits(inf) - bits(mass)` reverses the order; read as a
// double again it is >= 0 and never NaN, and min over masses becomes max over keys, exactly.
#pragma acc routine seq
inline double min_key(double mass) {
  const std::int64_t key = infinity_bits - __builtin_bit_cast(std::int64_t, mass);
  return mass == 0.0 ? 0.0 : __builtin_bit_cast(double, key);
}

// The inverse of min_key(); +inf for "none".
#pragma acc routine seq
inline double min_of_key(double key) {
  return __builtin_bit_cast(double, infinity_bits - __builtin_bit_cast(std::int64_t, key));
}

// Makes `leaf` hold `value`. Inside a kernel nodes go by reference: at -O0 GCC 12 compiles a struct
// of two doubles returned by value to a conversion that ptxas rejects (cvt.u64.f64).
#pragma acc routine seq
template <class Node>
inline void set_leaf(Node& leaf, double value) {
  if constexpr (std::is_same_v<Node, PairNode>) {
    leaf.sum = value;
    leaf.min_key = min_key(value);
  } else if constexpr (std::is_same_v<Node, SumNode>) {
    leaf.sum = value;
  } else {
    leaf.min = value;
  }
}

// The leaf that holds `value`.
template <class Node>
inline Node make_leaf(double value) {
  Node leaf;
  set_leaf(leaf, value);
  return leaf;
}

// The value of a leaf.
#pragma acc routine seq
template <class Node>
inline double leaf_value(const Node& leaf) {
  if constexpr (std::is_same_v<Node, MinNode>) {
    return leaf.min;
  } else {
    return leaf.sum;
  }
}

// An empty leaf.
template <class Node>
inline Node identity() {
  if constexpr (std::is_same_v<Node, MinNode>) {
    return Node{std::numeric_limits<double>::infinity()};
  } else {
    return Node{};
  }
}

// Makes `parent` the combination of two children. The order of the operands, and `left` on ties
// and NaN in the min, are those of Python's `left + right` and `min(left, right)`: the bits are
// RLlib's.
#pragma acc routine seq
template <class Node>
inline void set_parent(Node& parent, const Node& left, const Node& right) {
  if constexpr (std::is_same_v<Node, PairNode>) {
    parent.sum = left.sum + right.sum;
    parent.min_key = left.min_key < right.min_key ? right.min_key : left.min_key;
  } else if constexpr (std::is_same_v<Node, SumNode>) {
    parent.sum = left.sum + right.sum;
  } else {
    parent.min = right.min < left.min ? right.min : left.min;
  }
}

// The parent of two children.
template <class Node>
inline Node combine(const Node& left, const Node& right) {
  Node parent;
  set_parent(parent, left, right);
  return parent;
}

}  // namespace rpa
