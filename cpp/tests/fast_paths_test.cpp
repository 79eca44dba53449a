// What may run depends on the machine and on measured costs; what it answers does not.
#include <cstring>
#include <vector>

#include "check.hpp"
#include "cost_table.hpp"
#include "descend.hpp"
#include "oracle.hpp"
#include "tree.hpp"

namespace {

using rpa::PairNode;
using rpa::Tree;
using rpa::UpdateAlgorithm;
using rpa::UpdateCosts;
using Values = std::vector<double>;

// Finds by every path and by the plain rule.
void check_paths(const std::vector<PairNode>& nodes, std::int64_t padded, const Values& masses) {
  const auto n = static_cast<std::int64_t>(masses.size());
  std::vector<std::int64_t> expected(masses.size()), found(masses.size());
  rpa::descend(nodes.data(), padded, masses.data(), expected.data(), n);
  for (const rpa::DescentPath& path : rpa::descent_paths()) {
    std::fill(found.begin(), found.end(), -1);
    rpa::descend_by(path, nodes.data(), padded, masses.data(), found.data(), n);
    CHECK(found == expected);
  }
}

// Every number of levels up to where two of them share a step, every size of batch around those of
// the vectors, and masses at which rounding shows.
void paths_find_the_same_leaves() {
  std::mt19937_64 random(4);
  for (std::int64_t padded = 1; padded <= 1 << 14; padded *= 2) {
    for (std::int64_t used : {padded, padded / 2 + 1, std::int64_t{1}}) {
      std::vector<PairNode> nodes(2 * padded);
      for (std::int64_t j = 0; j < std::min(used, padded); ++j) {
        nodes[padded + j] = rpa::make_leaf<PairNode>(oracle::random_mass(random));
      }
      nodes[padded] = rpa::make_leaf<PairNode>(1e-9);
      rpa::combine_all(nodes.data(), padded);
      Values masses = oracle::lookups(nodes[1].sum, random);
      for (std::size_t n = 0; n <= masses.size(); ++n) {
        check_paths(nodes, padded, Values(masses.begin(), masses.begin() + n));
        check_paths(nodes, padded, Values(masses.end() - n, masses.end()));
      }
    }
  }
}

void costs_choose_the_algorithm() {
  const auto chosen = [](std::int64_t n, std::int64_t padded, UpdateCosts costs) {
    return rpa::cheapest_plan(n, padded, costs).algorithm;
  };
  constexpr UpdateCosts per_element = {0, 1, 1, 1}, touched = {1e9, 1, 1, 1e9},
                        rebuild = {1e12, 1e9, 1e9, 1};
  for (std::int64_t padded : {4, 1024, 1 << 24}) {
    for (std::int64_t n : {1, 2, 100, 1 << 20}) {
      CHECK(chosen(n, padded, per_element) == UpdateAlgorithm::per_element);
      CHECK(chosen(n, padded, touched) == UpdateAlgorithm::touched);
      CHECK(chosen(n, padded, rebuild) == UpdateAlgorithm::rebuild);
    }
  }
  constexpr UpdateCosts typical = {1.6, 1.5, 7.0, 0.9};
  CHECK(chosen(1, 1 << 21, typical) == UpdateAlgorithm::per_element);
  CHECK(chosen(512, 1 << 21, typical) == UpdateAlgorithm::touched);
  CHECK(chosen(1 << 21, 1 << 21, typical) == UpdateAlgorithm::rebuild);
  CHECK(rpa::cheapest_plan(512, 1 << 21, typical).swept == 512);
}

// Levels may be swept or listed in any split.
void sweeps_change_no_bit() {
  std::mt19937_64 random(5);
  for (std::int64_t padded : {1, 2, 64, 4096}) {
    for (std::int64_t n : {1, 5, 63, 64, 65, 500}) {
      std::vector<PairNode> expected(2 * padded);
      std::vector<std::int64_t> indices(n);
      Values masses(n);
      for (std::int64_t j = 0; j < n; ++j) {
        indices[j] = static_cast<std::int64_t>(random() % padded);
        masses[j] = oracle::random_mass(random);
      }
      rpa::update_per_element(expected.data(), padded, indices.data(), masses.data(), n);
      for (std::int64_t swept = 0; swept <= 2 * padded; swept = swept == 0 ? 1 : 2 * swept) {
        std::vector<PairNode> nodes(2 * padded);
        rpa::update_touched(nodes.data(), padded, indices.data(), masses.data(), n, swept);
        CHECK(std::memcmp(nodes.data(), expected.data(), nodes.size() * sizeof(PairNode)) == 0);
      }
    }
  }
}

void tables_are_measured_and_set() {
  const rpa::CostTable measured = rpa::cost_table();
  CHECK(measured.update.element_node > 0.0 && measured.update.touched_node >= 0.0);
  CHECK(measured.update.touched_level >= 0.0 && measured.update.swept_node > 0.0);
  rpa::CostTable other = measured;
  other.update.swept_node = 123.0;
  rpa::set_cost_table(other);
  CHECK(rpa::cost_table().update.swept_node == 123.0);
  rpa::set_cost_table(measured);
}

// Large trees start at a huge page; all are empty.
void memory_starts_empty() {
  for (std::int64_t count : {2, 1000, 1 << 18, (1 << 18) + 2}) {
    const rpa::NodeArray<PairNode> nodes(count);
    const std::uintptr_t large = nodes.bytes() >= (std::size_t{1} << 22) ? 1 << 21 : 64;
    CHECK(reinterpret_cast<std::uintptr_t>(nodes.data()) % large == 0);
    for (std::int64_t i = 0; i < count; ++i) {
      CHECK(nodes.data()[i].sum == 0.0 && nodes.data()[i].min_key == 0.0);
    }
  }
}

}  // namespace

int main() {
  paths_find_the_same_leaves();
  costs_choose_the_algorithm();
  sweeps_change_no_bit();
  tables_are_measured_and_set();
  memory_starts_empty();
}
