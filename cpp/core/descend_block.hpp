// Descents of PairNode trees, many in flight, on vectors: the same leaves as descend.hpp gives.
//
// A step takes two levels, see kept_levels.hpp. The test `right > 0` is left out: going right on
// `mass >= left` alone either takes the same steps or enters an empty subtree, and then ends at an
// empty leaf, which the caller is told of.
//
// To be included by one file per instruction set, compiled with its flags. Nothing here may have
// external linkage or call an inline function of another header, or the linker could take this
// file's copy of it for a machine that lacks the instructions.
#pragma once

#include <cstdint>

#include "node.hpp"

namespace {

// Asks for the line of each node's grandchildren.
template <class V>
void prefetch_four(const double* sums, typename V::Indices node) {
  alignas(64) std::int64_t nodes[V::width];
  V::store(nodes, node, 0);
  for (std::int64_t i : nodes) __builtin_prefetch(sums + 8 * i, 0, 2);
}

// Asks for the lines of the grandchildren of each node's grandchildren, one of which is needed.
template <class V>
void prefetch_sixteen(const double* sums, typename V::Indices node) {
  alignas(64) std::int64_t nodes[V::width];
  V::store(nodes, node, 0);
  for (std::int64_t i : nodes) {
    for (int line = 0; line < 4; ++line) __builtin_prefetch(sums + 32 * i + 8 * line, 0, 2);
  }
}

// V is a vector of V::width descents: V::Reals, V::Indices and V::Mask, with the operations below.
// Up to V::groups vectors are in flight.
template <class V, int Groups>
bool descend_block(const double* sums, int levels, const double* masses, std::int64_t* indices) {
  constexpr int cached_levels = 10;
  // So few wait for memory with nothing to do: they ask for more than they need, a step earlier.
  constexpr bool few = Groups * V::width <= 8;
  typename V::Reals mass[Groups];
  typename V::Indices node[Groups];
  const typename V::Reals total = V::broadcast(sums[2]);
  for (int g = 0; g < Groups; ++g) {
    // Not -0.0, whose sign would count.
    const typename V::Reals given = V::add(V::load(masses + g * V::width), V::broadcast(0.0));
    mass[g] = V::unless_past(total, given);
    node[g] = V::root();
  }
  // The sum of node i is sums[2 * i].
  for (int g = 0; levels % 2 == 1 && g < Groups; ++g) {
    V::step(V::broadcast(sums[4]), mass[g], node[g]);
  }
  for (int level = levels % 2; level < levels; level += 2) {
    for (int g = 0; g < Groups; ++g) {
      const typename V::Indices start = node[g];
      if (few && level + 2 >= cached_levels && level + 2 < levels) {
        prefetch_sixteen<V>(sums, start);
      }
      const typename V::Reals first = V::template gather<8>(sums, start);
      const typename V::Reals second = V::template gather<8>(sums + 2, start);
      const typename V::Mask right = V::step(V::add(first, second), mass[g], node[g]);
      V::step(V::left_below(sums, start, right, first), mass[g], node[g]);
      // The nearest cache has too few lines in flight; the next one is asked before it is.
      if (!few && level >= cached_levels && level + 2 < levels) prefetch_four<V>(sums, node[g]);
    }
  }
  bool found_empty = false;
  for (int g = 0; g < Groups; ++g) {
    found_empty |= V::any_zero(V::template gather<2>(sums, node[g]));
    V::store(indices + g * V::width, node[g], std::int64_t{1} << levels);
  }
  return found_empty;
}

// Descends masses j ... n - 1, where n >= V::width. What does not fill a block of Groups vectors
// goes at once too, if need be with some masses before j again. Returns whether some index is that
// of an empty leaf.
template <class V, int Groups = V::groups>
bool descend_blocks(const double* sums, int levels, const double* masses, std::int64_t* indices,
                    std::int64_t n, std::int64_t j = 0) {
  constexpr std::int64_t size = Groups * V::width;
  const auto smaller = [&] {
    return descend_blocks<V, (Groups > 1 ? Groups / 2 : 1)>(sums, levels, masses, indices, n, j);
  };
  const auto block = [&](std::int64_t at) {
    return descend_block<V, Groups>(sums, levels, masses + at, indices + at);
  };
  if (n < size) return smaller();
  bool found_empty = false;
  for (; n - j >= size; j += size) found_empty |= block(j);
  if (j == n) return found_empty;
  if (Groups > 1 && 2 * (n - j) <= size) return found_empty | smaller();
  return found_empty | block(n - size);
}

}  // namespace
