// The tree against a naive oracle, bit by bit, by every update algorithm.
#include "tree.hpp"

#include <cstring>
#include <vector>

#include "check.hpp"
#include "descend.hpp"
#include "oracle.hpp"
#include "validate.hpp"

namespace {

using rpa::MinNode;
using rpa::PairNode;
using rpa::SumNode;
using rpa::Tree;
using rpa::UpdateAlgorithm;
using Indices = std::vector<std::int64_t>;
using Values = std::vector<double>;

constexpr UpdateAlgorithm algorithms[] = {UpdateAlgorithm::automatic, UpdateAlgorithm::per_element,
                                          UpdateAlgorithm::touched, UpdateAlgorithm::rebuild};
constexpr std::int64_t capacities[] = {1, 2, 3, 5, 7, 8, 11, 33, 50, 100, 1000, 1023, 1024, 1025};

bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

template <class Node>
Values nodes_of(const Tree<Node>& tree) {
  Values values(2 * tree.padded());
  tree.read_nodes(values.data());
  return values;
}

template <class Node>
Values leaves_of(const Tree<Node>& tree) {
  Values values(tree.capacity());
  tree.read_all(values.data());
  return values;
}

Indices find(const Tree<PairNode>& tree, const Values& masses) {
  Indices found(masses.size(), -1);
  tree.find_prefixsum(masses.data(), found.data(), static_cast<std::int64_t>(masses.size()));
  return found;
}

// Checks sum, minimum, leaves and descents against the oracle.
void check_against_oracle(const Tree<PairNode>& tree, const Values& leaves,
                          std::mt19937_64& random) {
  const double total = oracle::sum(leaves, 0, tree.padded());
  CHECK(tree.root().sum == total);
  CHECK(rpa::min_of_key(tree.root().min_key) == oracle::min_present(leaves));
  CHECK(same_bits(leaves_of(tree), leaves));
  if (total == 0.0) return;
  const Values masses = oracle::lookups(total, random);
  const Indices found = find(tree, masses);
  for (std::size_t j = 0; j < masses.size(); ++j) {
    CHECK(found[j] == oracle::find(leaves, masses[j]));
    CHECK(leaves[found[j]] > 0.0);
    CHECK(find(tree, {masses[j]})[0] == found[j]);
  }
}

void updates_match_oracle() {
  std::mt19937_64 random(1);
  for (std::int64_t capacity : capacities) {
    for (UpdateAlgorithm algorithm : algorithms) {
      Tree<PairNode> tree(capacity);
      CHECK(tree.root().sum == 0.0);
      CHECK(rpa::min_of_key(tree.root().min_key) == oracle::infinity);
      Values leaves(capacity, 0.0);
      for (std::int64_t n : {0, 1, 2, 3, 4, 7, 16, 50, 300, 2000}) {
        Indices indices(n);
        Values masses(n);
        for (std::int64_t j = 0; j < n; ++j) {
          // Nine of ten repeat an index of the batch.
          const bool repeat = j > 0 && random() % 10 != 0;
          indices[j] = static_cast<std::int64_t>(
              repeat ? indices[random() % j] : static_cast<std::int64_t>(random() % capacity));
          masses[j] = oracle::random_mass(random);
          leaves[indices[j]] = masses[j];
        }
        tree.update(indices.data(), masses.data(), n, algorithm);
        check_against_oracle(tree, leaves, random);
      }
      // Consecutive leaves, as intake writes, then removal of all.
      Indices all(capacity);
      for (std::int64_t j = 0; j < capacity; ++j) {
        all[j] = j;
        leaves[j] = 1.0 + static_cast<double>(j);
      }
      tree.update(all.data(), leaves.data(), capacity, algorithm);
      check_against_oracle(tree, leaves, random);
      leaves.assign(capacity, 0.0);
      tree.update(all.data(), leaves.data(), capacity, algorithm);
      check_against_oracle(tree, leaves, random);
    }
  }
}

// Every node, not only the root, has the same bits by every algorithm.
template <class Node>
void algorithms_agree() {
  std::mt19937_64 random(2);
  // A pair holds masses; single trees take any float.
  constexpr double least = std::is_same_v<Node, PairNode> ? 0.0 : -1.0;
  std::uniform_real_distribution<double> any(least, 1.0);
  for (std::int64_t capacity : capacities) {
    Tree<Node> reference(capacity), touched(capacity), rebuilt(capacity);
    for (int round = 0; round < 50; ++round) {
      const auto n = static_cast<std::int64_t>(random() % 64);
      Indices indices(n);
      Values values(n);
      for (std::int64_t j = 0; j < n; ++j) {
        indices[j] = static_cast<std::int64_t>(random() % capacity);
        values[j] = any(random);
      }
      reference.update(indices.data(), values.data(), n, UpdateAlgorithm::per_element);
      touched.update(indices.data(), values.data(), n, UpdateAlgorithm::touched);
      rebuilt.update(indices.data(), values.data(), n, UpdateAlgorithm::rebuild);
      CHECK(same_bits(nodes_of(touched), nodes_of(reference)));
      CHECK(same_bits(nodes_of(rebuilt), nodes_of(reference)));
    }
    Tree<Node> assigned(capacity);
    const Values leaves = leaves_of(reference);
    assigned.assign(leaves.data(), capacity);
    CHECK(same_bits(nodes_of(assigned), nodes_of(reference)));
  }
}

void descents_never_reach_an_empty_leaf() {
  const auto found = [](const Values& leaves, double mass) {
    Tree<PairNode> tree(static_cast<std::int64_t>(leaves.size()));
    tree.assign(leaves.data(), static_cast<std::int64_t>(leaves.size()));
    return find(tree, {mass})[0];
  };
  CHECK(found({0.0, 0.0, 1e-7, 0.0}, 1e-7) == 2);
  CHECK(found({1.0, 1e12, 0.0, 0.0}, 1.0 + 1e12) == 1);
  // The right leaves vanish in the rounded total; it still lands on the last one.
  CHECK(found({1e16, 0.0, 0.5, 0.5}, 1e16) == 3);
  CHECK(found({1e-300, 1e300, 1e-12, 0.0}, 1e300) == 2);
  CHECK(found({1e-300, 1e300, 1e-12, 0.0}, 0.0) == 0);
  CHECK(found({0.0, 5e-324, 0.0}, 0.0) == 1);
}

// 10, 5 and 2 hits for masses 0 ... 16: the tie goes right.
void ties_go_right() {
  Tree<PairNode> tree(3);
  const Values leaves = {10.0, 5.0, 2.0};
  tree.assign(leaves.data(), 3);
  int hits[3] = {};
  for (int mass = 0; mass < 17; ++mass) ++hits[find(tree, {static_cast<double>(mass)})[0]];
  CHECK(hits[0] == 10 && hits[1] == 5 && hits[2] == 2);
}

void largest_masses_keep_sums_finite() {
  Tree<PairNode> tree(100);
  const Values leaves(100, rpa::mass_limit(tree.padded()));
  tree.assign(leaves.data(), 100);
  CHECK(std::isfinite(tree.root().sum));
  CHECK(rpa::min_of_key(tree.root().min_key) == leaves[0]);
}

void assign_empties_the_rest() {
  Tree<PairNode> tree(10);
  const Values ten(10, 2.0), three(3, 1.0);
  tree.assign(ten.data(), 10);
  tree.assign(three.data(), 3);
  CHECK(tree.root().sum == 3.0);
  CHECK((leaves_of(tree) == Values{1, 1, 1, 0, 0, 0, 0, 0, 0, 0}));
}

void ranges_combine_their_leaves() {
  std::mt19937_64 random(3);
  for (std::int64_t capacity : {1, 5, 8, 33}) {
    Tree<SumNode> sums(capacity);
    Tree<MinNode> mins(capacity);
    Values leaves(capacity);
    for (double& leaf : leaves) leaf = static_cast<double>(random() % 1000) - 500.0;
    sums.assign(leaves.data(), capacity);
    mins.assign(leaves.data(), capacity);
    for (std::int64_t start = 0; start <= capacity; ++start) {
      for (std::int64_t end = 0; end <= capacity; ++end) {
        double sum = 0.0, min = oracle::infinity;
        for (std::int64_t j = start; j < end; ++j) {
          sum += leaves[j];  // whole numbers: exact in any order
          min = std::fmin(min, leaves[j]);
        }
        CHECK(sums.reduce(start, end).sum == sum);
        CHECK(mins.reduce(start, end).min == min);
      }
    }
  }
}

void validation_finds_the_first_offender() {
  const Values masses = {0.0, 1.0, std::nan(""), -1.0};
  CHECK(rpa::first_bad_mass(masses.data(), 4, 10.0) == 2);
  CHECK(rpa::first_bad_mass(masses.data(), 2, 10.0) == -1);
  CHECK(rpa::first_bad_mass(masses.data(), 2, 0.5) == 1);
  CHECK(rpa::first_bad_mass(&masses[3], 1, 10.0) == 0);
  const Indices indices = {0, 4, -1, std::numeric_limits<std::int64_t>::min()};
  CHECK(rpa::first_bad_index(indices.data(), 4, 4) == 1);
  CHECK(rpa::first_bad_index(indices.data(), 4, 5) == 2);
  CHECK(rpa::first_bad_index(&indices[3], 1, 5) == 0);
  CHECK(rpa::first_bad_index(indices.data(), 0, 5) == -1);
}

}  // namespace

int main() {
  updates_match_oracle();
  algorithms_agree<PairNode>();
  algorithms_agree<SumNode>();
  algorithms_agree<MinNode>();
  descents_never_reach_an_empty_leaf();
  ties_go_right();
  largest_masses_keep_sums_finite();
  assign_empties_the_rest();
  ranges_combine_their_leaves();
  validation_finds_the_first_offender();
}
