// Which update algorithm to use for a batch, by what each is estimated to cost.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

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

// The plan for n >= 1 elements by a given algorithm.
inline UpdatePlan plan_of(UpdateAlgorithm algorithm, std::int64_t n) {
  std::int64_t swept = 1;
  while (2 * swept <= n) swept *= 2;
  return {algorithm, swept};
}

// The plan of the least cost for n >= 1 elements in a tree of `padded` leaves.
inline UpdatePlan cheapest_plan(std::int64_t n, std::int64_t padded, const UpdateCosts& costs) {
  const auto elements = static_cast<double>(n);
  const int levels = std::countr_zero(static_cast<std::uint64_t>(padded));
  const auto blocks = static_cast<double>((n + touched_block - 1) / touched_block);
  const double list = elements * costs.touched_node + blocks * costs.touched_level;
  // A level is swept if that costs less than a list of it.
  int swept_levels = 0;
  double touched = 0.0;
  for (double sweep = costs.swept_node; swept_levels < levels && sweep <= list; sweep *= 2.0) {
    ++swept_levels;
    touched += sweep;
  }
  // The leaves count as a level; to write those of a rebuild costs next to nothing.
  touched += (levels + 1 - swept_levels) * list;
  const double per_element = elements * (levels + 1) * costs.element_node;
  const double rebuild = static_cast<double>(padded) * costs.swept_node;
  if (per_element < std::min(touched, rebuild)) return {UpdateAlgorithm::per_element, 0};
  if (rebuild < touched) return {UpdateAlgorithm::rebuild, 0};
  return {UpdateAlgorithm::touched, (std::int64_t{1} << swept_levels) >> 1};
}

}  // namespace rpa
