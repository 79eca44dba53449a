// What may run depends on the machine and on measured costs; what it answers does not.
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "check.hpp"
#include "cost_table.hpp"
#include "descend.hpp"
#include "descent_choice.hpp"
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
  std::fill(found.begin(), found.end(), -1);
  rpa::descent_choice().descend(nodes.data(), padded, masses.data(), found.data(), n);
  CHECK(found == expected);
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

// Paths that wait, or do not.
std::int64_t waits[2], descents[2];

template <int Path>
bool descend_waiting(const double* sums, int levels, const double* masses, std::int64_t* indices,
                     std::int64_t n) {
  descents[Path] += n;
  std::this_thread::sleep_for(std::chrono::microseconds(waits[Path]));
  return rpa::descend_portable(sums, levels, masses, indices, n);
}

// The path that wins the trials is chosen, and another one when that has become faster.
void trials_choose_the_path() {
  constexpr rpa::DescentPath paths[] = {{"one", descend_waiting<0>}, {"two", descend_waiting<1>}};
  const auto choice = std::make_unique<rpa::DescentChoice>(paths);
  std::vector<PairNode> nodes(2);
  nodes[1] = rpa::make_leaf<PairNode>(1.0);
  const auto call = [&](std::int64_t n) {
    const Values masses(n, 0.5);
    std::vector<std::int64_t> found(n, -1);
    choice->descend(nodes.data(), 1, masses.data(), found.data(), n);
    CHECK(found == std::vector<std::int64_t>(n, 0));
  };
  CHECK(choice->chosen(1, 12) == nullptr);
  for (const std::int64_t n : {12, 100, 5000}) {
    for (const int slow : {1, 0}) {
      waits[slow] = 100;
      waits[1 - slow] = 0;
      // The trials come after 0, 512, 1,024 calls, and so on.
      for (int calls = 0; calls < 1200; ++calls) call(n);
      CHECK(choice->chosen(1, n) == &choice->chosen(1, 1)[1 - slow]);
    }
  }
  // Few descents are not worth vectors, and what is not allowed never runs.
  CHECK(choice->chosen(1, 11)->run == descend_waiting<0>);
  choice->allow(2);
  CHECK(choice->chosen(1, 12) == nullptr);
  descents[0] = 0;
  for (int calls = 0; calls < 300; ++calls) call(12);
  CHECK(descents[0] == 0 && choice->chosen(1, 12)->run == descend_waiting<1>);
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
  const UpdateCosts measured = rpa::cost_table();
  CHECK(measured.element_node > 0.0 && measured.touched_node >= 0.0);
  CHECK(measured.touched_level >= 0.0 && measured.swept_node > 0.0);
  UpdateCosts other = measured;
  other.swept_node = 123.0;
  rpa::set_cost_table(other);
  CHECK(rpa::cost_table().swept_node == 123.0);
  rpa::set_cost_table(measured);
}

// Large trees start at a huge page; all are empty.
void memory_starts_empty() {
  for (std::int64_t count : {2, 1000, 1 << 18, (1 << 18) + 2}) {
    const rpa::PageArray<PairNode> nodes(count);
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
  trials_choose_the_path();
  costs_choose_the_algorithm();
  sweeps_change_no_bit();
  tables_are_measured_and_set();
  memory_starts_empty();
}
