#include "tree.hpp"

#include <algorithm>

#include "cost_table.hpp"
#include "descend.hpp"
#include "descent_choice.hpp"
#include "dispatch.hpp"
#include "kept_levels.hpp"
#include "update.hpp"

namespace rpa {

template <class Node>
Tree<Node>::Tree(std::int64_t capacity)
    : capacity_(capacity), padded_(padded_for(capacity)), nodes_(2 * padded_) {
  if constexpr (!zero_is_empty<Node>) {
    std::fill_n(nodes_.data(), 2 * padded_, identity<Node>());
  }
}

template <class Node>
void Tree<Node>::update(const std::int64_t* indices, const double* values, std::int64_t n,
                        UpdateAlgorithm algorithm) {
  if (n == 0) return;
  const UpdatePlan plan = algorithm == UpdateAlgorithm::automatic
                              ? cheapest_plan(n, padded_, cost_table())
                              : UpdatePlan{algorithm, n};
  Node* nodes = nodes_.data();
  switch (plan.algorithm) {
    case UpdateAlgorithm::rebuild:
      update_rebuild(nodes, padded_, indices, values, n);
      break;
    case UpdateAlgorithm::touched:
      update_touched(nodes, padded_, indices, values, n, plan.swept);
      break;
    default:
      update_per_element(nodes, padded_, indices, values, n);
  }
}

template <class Node>
void Tree<Node>::find_prefixsum(const double* masses, std::int64_t* indices, std::int64_t n) const {
  if constexpr (std::is_same_v<Node, PairNode>) {
    descent_choice().descend(nodes_.data(), padded_, masses, indices, n);
  } else if constexpr (has_sum<Node>) {
    descend(nodes_.data(), padded_, masses, indices, n);
  }
}

template <class Node>
void Tree<Node>::find_prefixsum(const double* masses, std::int64_t* indices, std::int64_t n,
                                const DescentPath& path) const {
  if constexpr (std::is_same_v<Node, PairNode>) {
    descend_by(path, nodes_.data(), padded_, masses, indices, n);
  }
}

template <class Node>
Node Tree<Node>::reduce(std::int64_t start, std::int64_t end) const {
  const Node* nodes = nodes_.data();
  Node result = identity<Node>();
  // The leaves past the capacity are empty; with them the whole range is one node.
  std::int64_t first = padded_ + start;
  std::int64_t last = padded_ + (end == capacity_ ? padded_ : end);
  for (; first < last; first /= 2, last /= 2) {
    if (first % 2 == 1) result = combine(result, node_at(nodes, padded_, first++));
    if (last % 2 == 1) result = combine(result, node_at(nodes, padded_, --last));
  }
  return result;
}

template <class Node>
void Tree<Node>::read(const std::int64_t* indices, double* values, std::int64_t n) const {
  const Node* leaves = nodes_.data() + padded_;
  for (std::int64_t j = 0; j < n; ++j) values[j] = leaf_value(leaves[indices[j]]);
}

template <class Node>
void Tree<Node>::read_all(double* values) const {
  const Node* leaves = nodes_.data() + padded_;
  for (std::int64_t j = 0; j < capacity_; ++j) values[j] = leaf_value(leaves[j]);
}

template <class Node>
void Tree<Node>::assign(const double* values, std::int64_t n) {
  Node* leaves = nodes_.data() + padded_;
  for (std::int64_t j = 0; j < n; ++j) leaves[j] = make_leaf<Node>(values[j]);
  std::fill(leaves + n, leaves + capacity_, identity<Node>());
  combine_all(nodes_.data(), padded_);
}

template <class Node>
void Tree<Node>::read_nodes(double* values) const {
  for (std::int64_t i = 0; i < 2 * padded_; ++i) {
    values[i] = leaf_value(node_at(nodes_.data(), padded_, i));
  }
}

template <class Node>
void Tree<Node>::read_pairs(Node* nodes) const {
  for (std::int64_t i = 0; i < 2 * padded_; ++i) nodes[i] = node_at(nodes_.data(), padded_, i);
}

template class Tree<PairNode>;
template class Tree<SumNode>;
template class Tree<MinNode>;

}  // namespace rpa
