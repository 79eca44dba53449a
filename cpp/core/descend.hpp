// Descents by prefix sum: from the root to the leaf in whose share of the total a mass falls.
//
// The rule is RLlib's, "left if left > mass", made safe: right only if the right child's sum is
// not 0. A node with a sum other than 0 has such a child, so no empty subtree is ever entered,
// whatever rounding does. A mass at or past the total becomes infinite and so goes to the last
// leaf that holds mass.
#pragma once

#include <cstdint>
#include <limits>

#include "kept_levels.hpp"
#include "node.hpp"

namespace rpa {

// One step for one descent. Without branches: which way to go is a coin toss, and mispredictions
// cost more than the memory. Clearing the bits of `left` is an exact `left * went_right` that
// holds for an infinite `left` too.
#pragma acc routine seq
inline std::int64_t descend_step(double left, double right, std::int64_t node, double& mass) {
  const auto go_right = static_cast<std::int64_t>(!(left > mass) & (right != 0.0));
  mass -= __builtin_bit_cast(double, __builtin_bit_cast(std::int64_t, left) & -go_right);
  return 2 * node + go_right;
}

// `Lanes` descents in flight hide each other's latencies. Each step takes two levels, of which the
// upper one is not kept; see kept_levels.hpp.
template <int Lanes, class Node>
inline void descend_lanes(const Node* nodes, std::int64_t padded, const double* masses,
                          std::int64_t* indices) {
  std::int64_t node[Lanes];
  double mass[Lanes];
  const double total = nodes[1].sum;
  for (int lane = 0; lane < Lanes; ++lane) {
    node[lane] = 1;
    mass[lane] = masses[lane] >= total ? std::numeric_limits<double>::infinity() : masses[lane];
    if (root_has_two(padded)) node[lane] = descend_step(nodes[2].sum, nodes[3].sum, 1, mass[lane]);
  }
  for (std::int64_t width = first_width(padded); width < padded; width *= 4) {
    for (int lane = 0; lane < Lanes; ++lane) {
      const Node* four = nodes + 4 * node[lane];
      const double left = four[0].sum + four[1].sum;
      const double right = four[2].sum + four[3].sum;
      const std::int64_t child = descend_step(left, right, node[lane], mass[lane]);
      const Node* pair = nodes + 2 * child;
      node[lane] = descend_step(pair[0].sum, pair[1].sum, child, mass[lane]);
    }
  }
  for (int lane = 0; lane < Lanes; ++lane) indices[lane] = node[lane] - padded;
}

template <class Node>
void descend(const Node* nodes, std::int64_t padded, const double* masses, std::int64_t* indices,
             std::int64_t n) {
  std::int64_t j = 0;
  for (; j + 16 <= n; j += 16) descend_lanes<16>(nodes, padded, masses + j, indices + j);
  for (; j + 4 <= n; j += 4) descend_lanes<4>(nodes, padded, masses + j, indices + j);
  for (; j < n; ++j) descend_lanes<1>(nodes, padded, masses + j, indices + j);
}

}  // namespace rpa
