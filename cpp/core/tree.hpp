// A segment tree over `capacity` leaves: the object behind every tree of the Python package.
//
// Preconditions are the caller's (the bindings validate): indices in [0, capacity), and for
// PairNode masses in [0, mass_limit(padded())]. No method is safe against a concurrent writer;
// hold mutex() around calls.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "call_lock.hpp"
#include "descend_paths.hpp"
#include "node.hpp"
#include "page_array.hpp"
#include "update_algorithm.hpp"

namespace rpa {

// The number of leaves in memory for a capacity >= 1: the power of two at or above it.
inline std::int64_t padded_for(std::int64_t capacity) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(capacity)));
}

template <class Node>
class Tree {
 public:
  using node_type = Node;
  // Below this many elements a call ends before handing over the GIL would pay.
  static constexpr std::int64_t gil_threshold = 4096;
  static constexpr std::int64_t max_capacity = std::int64_t{1} << 56;

  // Bytes of memory that a tree of this capacity takes.
  static std::size_t bytes_for(std::int64_t capacity) {
    return 2 * static_cast<std::size_t>(padded_for(capacity)) * sizeof(Node);
  }

  // All leaves empty. capacity in [1, max_capacity]; throws std::bad_alloc.
  explicit Tree(std::int64_t capacity);

  std::int64_t capacity() const { return capacity_; }
  std::int64_t padded() const { return padded_; }
  std::size_t bytes() const { return nodes_.bytes(); }
  CallLock& mutex() const { return mutex_; }

  // Writes n leaves; the last of duplicates wins.
  void update(const std::int64_t* indices, const double* values, std::int64_t n,
              UpdateAlgorithm algorithm = UpdateAlgorithm::automatic);

  // For each mass >= 0 the leaf in whose share of the total it falls; needs root().sum != 0.
  // O(n log capacity). Not for MinNode.
  void find_prefixsum(const double* masses, std::int64_t* indices, std::int64_t n) const;

  // The same by a given path; for benchmarks. Only for PairNode.
  void find_prefixsum(const double* masses, std::int64_t* indices, std::int64_t n,
                      const DescentPath& path) const;

  // All leaves combined.
  Node root() const { return nodes_.data()[1]; }

  // Leaves [start, end) combined in RLlib's order; needs 0 <= start and end <= capacity.
  Node reduce(std::int64_t start, std::int64_t end) const;

  // values[j] = leaf indices[j].
  void read(const std::int64_t* indices, double* values, std::int64_t n) const;

  // values[j] = leaf j, for all leaves.
  void read_all(double* values) const;

  // Leaf j = values[j] for j < n <= capacity; the rest empty. O(capacity).
  void assign(const double* values, std::int64_t n);

  // The values of all 2 * padded() nodes in heap order; the unused node 0 is the identity.
  void read_nodes(double* values) const;

  // All 2 * padded() nodes in heap order.
  void read_pairs(Node* nodes) const;

 private:
  std::int64_t capacity_;
  std::int64_t padded_;
  PageArray<Node> nodes_;
  mutable CallLock mutex_;
};

}  // namespace rpa
