// Which update algorithm to use for a batch, by what each is estimated to cost.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kept_levels.hpp"
#include "update.hpp"

namespace rpa {

// Times of the parts of an update, in any one unit.
struct UpdateCosts {
  double element_node;   // a node on one element's path, per element
  double touched_node;   // a node in a list of touched ones
  double touched_level;  // a list of touched nodes, beside its nodes
  double swept_node;     // a node of a level that is combined whole
};

// How to run one update; `swept` is the `touched` algorithm's.
struct UpdatePlan {
  UpdateAlgorithm algorithm;
  std::int64_t swept;
};

// The plan of the least cost for n >= 1 elements in a tree of `padded` leaves.
inline UpdatePlan cheapest_plan(std::int64_t n, std::int64_t padded, const UpdateCosts& costs) {
  const auto elements = static_cast<double>(n);
  const auto blocks = static_cast<double>((n + touched_block - 1) / touched_block);
  const double list = elements * costs.touched_node + blocks * costs.touched_level;
  // A level is swept if that costs less than a list of it.
  int listed = levels_above(padded) / 2;
  std::int64_t swept = 0;
  double touched = 0.0;
  for (std::int64_t width = first_width(padded); listed > 0; width *= 4) {
    const double sweep = static_cast<double>(width) * costs.swept_node;
    if (sweep > list) break;
    touched += sweep;
    swept = width;
    --listed;
  }
  // The leaves count as a listed level.
  touched += (listed + 1) * list;
  const double per_element = elements * (levels_above(padded) / 2 + 1) * costs.element_node;
  if (per_element < touched) return {UpdateAlgorithm::per_element, 0};
  // Where every level is swept, lists are of no use.
  if (listed == 0) return {UpdateAlgorithm::rebuild, 0};
  return {UpdateAlgorithm::touched, swept};
}

}  // namespace rpa
