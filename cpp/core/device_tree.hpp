// The sum-and-min tree of the parallel kernels, behind an interface that knows no backend: one
// implementation (device_tree.cpp), compiled once per backend into a factory of its own.
//
// With OpenACC the tree lives on the device from construction to destruction. A call moves its
// batch in and its results out, once each, through staging arrays that are allocated with the
// tree; batches longer than those go in several pieces.
//
// Preconditions and thread safety are those of Tree (tree.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "call_lock.hpp"
#include "node.hpp"
#include "update_algorithm.hpp"

namespace rpa {

// What a tree did on its device since it was made.
struct Traffic {
  std::int64_t launches = 0;
  std::int64_t transfers_in = 0;
  std::int64_t transfers_out = 0;
  std::int64_t bytes_in = 0;
  std::int64_t bytes_out = 0;
  std::int64_t allocations = 0;

  Traffic& operator+=(const Traffic& other);
};

class DeviceTree {
 public:
  using node_type = PairNode;
  // Positions of one piece of a batch are this many bits of a claim; see claim_leaves().
  static constexpr int position_bits = 20;
  static constexpr std::int64_t max_capacity = std::int64_t{1} << 56;
  // A launch is worth handing over the GIL at any size.
  static constexpr std::int64_t gil_threshold = 0;

  virtual ~DeviceTree() = default;
  DeviceTree(const DeviceTree&) = delete;
  DeviceTree& operator=(const DeviceTree&) = delete;

  // Bytes of device memory that a tree of this capacity takes.
  static std::size_t bytes_for(std::int64_t capacity);

  std::int64_t capacity() const { return capacity_; }
  std::int64_t padded() const { return padded_; }
  std::size_t bytes() const { return bytes_for(capacity_); }
  CallLock& mutex() const { return mutex_; }
  const Traffic& traffic() const { return traffic_; }

  // Whether this process was forked from the one that has the tree on its device. Nothing else may
  // be called then; destruction only frees the host's part.
  virtual bool lost() const = 0;

  // All leaves combined; kept on the host, so that reading it moves nothing.
  PairNode root() const { return root_; }

  // As in Tree. Here `automatic` and `touched` follow the ancestors of the batch, level by level;
  // `automatic` only while a level has more nodes than the batch. `rebuild` launches every level
  // whole. There is no per-element way to do it in parallel: it is `automatic`.
  virtual void update(const std::int64_t* indices, const double* masses, std::int64_t n,
                      UpdateAlgorithm algorithm = UpdateAlgorithm::automatic) = 0;
  virtual void find_prefixsum(const double* masses, std::int64_t* indices,
                              std::int64_t n) const = 0;
  virtual void read(const std::int64_t* indices, double* masses, std::int64_t n) const = 0;
  virtual void read_all(double* masses) const = 0;
  virtual void assign(const double* masses, std::int64_t n) = 0;
  // All 2 * padded() nodes in heap order, both parts; moves the whole tree. For tests.
  virtual void read_nodes(PairNode* nodes) const = 0;

 protected:
  explicit DeviceTree(std::int64_t capacity);
  // Items of one piece of a batch: as many as the tree has leaves, so that the staging arrays of a
  // large tree are smaller than it, within limits.
  std::int64_t piece() const;

  std::int64_t capacity_;
  std::int64_t padded_;
  PairNode root_{};
  mutable Traffic traffic_;

 private:
  mutable CallLock mutex_;
};

// The factories, one per backend; which of them exist is up to what is linked. They throw
// std::bad_alloc, also where the device has less free memory than bytes_for() says.
namespace serial {
std::unique_ptr<DeviceTree> make_device_tree(std::int64_t capacity);
}
namespace acc {
std::unique_ptr<DeviceTree> make_device_tree(std::int64_t capacity);
}

}  // namespace rpa
