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

template <class V>
void prefetch_four(const double* sums, typename V::Indices node) {
  alignas(64) std::int64_t nodes[V::width];
  V::store(nodes, node, 0);
  for (std::int64_t i : nodes) __builtin_prefetch(sums + 8 * i, 0, 2);
}

// V is a vector of V::width descents: V::Reals, V::Indices and V::Mask, with the operations below.
template <class V, int Groups>
bool descend_block(const double* sums, int levels, const double* masses, std::int64_t* indices) {
  constexpr int cached_levels = 10;
  typename V::Reals mass[Groups];
  typename V::Indices node[Groups];
  const typename V::Reals total = V::broadcast(sums[2]);
  for (int g = 0; g < Groups; ++g) {
    const typename V::Reals given = V::load(masses + g * V::width);
    mass[g] = V::select(V::not_above(total, given), V::broadcast(__builtin_inf()), given);
    node[g] = V::root();
  }
  const auto step = [&](int g, typename V::Reals left) {
    const typename V::Mask right = V::not_above(left, mass[g]);
    mass[g] = V::subtract_where(right, mass[g], left);
    node[g] = V::child(node[g], right);
    return right;
  };
  // The sum of node i is sums[2 * i].
  for (int g = 0; levels % 2 == 1 && g < Groups; ++g) step(g, V::broadcast(sums[4]));
  for (int level = levels % 2; level < levels; level += 2) {
    for (int g = 0; g < Groups; ++g) {
      const typename V::Indices start = node[g];
      const typename V::Reals first = V::template gather<8>(sums, start);
      const typename V::Reals second = V::template gather<8>(sums + 2, start);
      const typename V::Reals third = V::template gather<8>(sums + 4, start);
      const typename V::Mask right = step(g, V::add(first, second));
      step(g, V::select(right, third, first));
      // The nearest cache has too few lines in flight; the next one is asked before it is.
      if (level >= cached_levels && level + 2 < levels) prefetch_four<V>(sums, node[g]);
    }
  }
  bool found_empty = false;
  for (int g = 0; g < Groups; ++g) {
    found_empty |= V::any_zero(V::template gather<2>(sums, node[g]));
    V::store(indices + g * V::width, node[g], std::int64_t{1} << levels);
  }
  return found_empty;
}

// Descends n >= V::width masses. Returns whether some index is that of an empty leaf.
template <class V>
bool descend_blocks(const double* sums, int levels, const double* masses, std::int64_t* indices,
                    std::int64_t n) {
  bool found_empty = false;
  const auto run = [&]<int Groups>(std::int64_t j) {
    found_empty |= descend_block<V, Groups>(sums, levels, masses + j, indices + j);
  };
  std::int64_t j = 0;
  for (; n - j >= 8 * V::width; j += 8 * V::width) run.template operator()<8>(j);
  // The rest goes at once too, if need be with some that are done already.
  while (j < n) {
    const std::int64_t rest = n - j;
    const auto start = [&](int groups) {
      const std::int64_t size = groups * V::width;
      const std::int64_t at = rest < size ? n - size : j;
      j = at + size;
      return at;
    };
    if (rest > 4 * V::width && n >= 8 * V::width) {
      run.template operator()<8>(start(8));
    } else if (rest > 2 * V::width && n >= 4 * V::width) {
      run.template operator()<4>(start(4));
    } else if (rest > V::width && n >= 2 * V::width) {
      run.template operator()<2>(start(2));
    } else {
      run.template operator()<1>(start(1));
    }
  }
  return found_empty;
}

}  // namespace
