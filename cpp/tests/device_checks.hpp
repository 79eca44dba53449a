// Every operation of a device tree against the host's tree, bit by bit. Shared by the tests of the
// backends and by the check that runs on a GPU.
#pragma once

#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "batches.hpp"
#include "check.hpp"
#include "device_tree.hpp"
#include "tree.hpp"

namespace rpa {

using Factory = std::unique_ptr<DeviceTree> (*)(std::int64_t capacity);

inline constexpr UpdateAlgorithm device_algorithms[] = {
    UpdateAlgorithm::automatic, UpdateAlgorithm::touched, UpdateAlgorithm::rebuild};

inline void check_same(const DeviceTree& device, const Tree<PairNode>& host,
                       std::mt19937_64& random) {
  std::vector<PairNode> expected(2 * host.padded()), nodes(2 * host.padded());
  host.read_pairs(expected.data());
  device.read_nodes(nodes.data());
  CHECK(std::memcmp(nodes.data(), expected.data(), nodes.size() * sizeof(PairNode)) == 0);
  CHECK(device.root().sum == host.root().sum);
  CHECK(device.root().min_key == host.root().min_key);

  std::vector<double> leaves(host.capacity()), read(host.capacity());
  host.read_all(leaves.data());
  device.read_all(read.data());
  CHECK(read == leaves);

  if (host.root().sum == 0.0) return;
  const std::vector<double> masses = oracle::lookups(host.root().sum, random);
  const auto n = static_cast<std::int64_t>(masses.size());
  std::vector<std::int64_t> found(n), on_host(n);
  device.find_prefixsum(masses.data(), found.data(), n);
  host.find_prefixsum(masses.data(), on_host.data(), n);
  CHECK(found == on_host);
  std::vector<double> at(n);
  device.read(found.data(), at.data(), n);
  for (std::int64_t j = 0; j < n; ++j) CHECK(at[j] == leaves[found[j]] && at[j] > 0.0);
}

inline void updates_match_the_host(Factory make_device_tree,
                                   std::initializer_list<std::int64_t> capacities, int rounds,
                                   std::int64_t longest) {
  std::mt19937_64 random(1);
  for (std::int64_t capacity : capacities) {
    for (UpdateAlgorithm algorithm : device_algorithms) {
      const auto device = make_device_tree(capacity);
      Tree<PairNode> host(capacity);
      check_same(*device, host, random);
      for (int round = 0; round < rounds; ++round) {
        const RandomBatch batch(static_cast<std::int64_t>(random() % longest), capacity, random);
        device->update(batch.indices.data(), batch.masses.data(), batch.size(), algorithm);
        host.update(batch.indices.data(), batch.masses.data(), batch.size());
        check_same(*device, host, random);
      }
    }
  }
}

inline void assign_matches_the_host(Factory make_device_tree,
                                    std::initializer_list<std::int64_t> capacities) {
  std::mt19937_64 random(2);
  for (std::int64_t capacity : capacities) {
    const auto device = make_device_tree(capacity);
    Tree<PairNode> host(capacity);
    for (std::int64_t n : {capacity, capacity / 2, capacity / 3, std::int64_t{0}}) {
      std::vector<double> leaves(n);
      for (double& leaf : leaves) leaf = oracle::random_mass(random);
      device->assign(leaves.data(), n);
      host.assign(leaves.data(), n);
      check_same(*device, host, random);
    }
  }
}

// A batch longer than the staging arrays goes in pieces; the last of duplicates wins across them.
inline void long_batches_go_in_pieces(Factory make_device_tree) {
  std::mt19937_64 random(3);
  const auto device = make_device_tree(5);
  Tree<PairNode> host(5);
  const RandomBatch batch(10003, 5, random);
  device->update(batch.indices.data(), batch.masses.data(), batch.size());
  host.update(batch.indices.data(), batch.masses.data(), batch.size());
  check_same(*device, host, random);
}

inline void destroyed_trees_leave_the_others_alone(Factory make_device_tree) {
  std::mt19937_64 random(4);
  const auto kept = make_device_tree(100);
  Tree<PairNode> host(100);
  for (int round = 0; round < 20; ++round) {
    const auto other = make_device_tree(100);
    const RandomBatch batch(50, 100, random);
    kept->update(batch.indices.data(), batch.masses.data(), batch.size());
    host.update(batch.indices.data(), batch.masses.data(), batch.size());
    other->update(batch.indices.data(), batch.masses.data(), 25);
  }
  check_same(*kept, host, random);
}

// What one call moves and launches: its batch in, its results out, no memory.
inline void calls_move_only_their_batch(Factory make_device_tree) {
  const std::int64_t capacity = 100000, n = 512;
  std::mt19937_64 random(5);
  const auto device = make_device_tree(capacity);
  const RandomBatch batch(n, capacity, random);
  const auto cost = [&](auto call) {
    const Traffic before = device->traffic();
    call();
    Traffic spent = device->traffic();
    spent.launches -= before.launches;
    spent.transfers_in -= before.transfers_in;
    spent.transfers_out -= before.transfers_out;
    spent.bytes_in -= before.bytes_in;
    spent.bytes_out -= before.bytes_out;
    spent.allocations -= before.allocations;
    return spent;
  };

  const Traffic update =
      cost([&] { device->update(batch.indices.data(), batch.masses.data(), n); });
  CHECK(update.allocations == 0);
  CHECK(update.transfers_in == 1 && update.bytes_in == n * 16);
  CHECK(update.transfers_out == 1 && update.bytes_out == sizeof(PairNode));
  CHECK(update.launches >= 1 && update.launches <= 2 + 17);

  std::vector<std::int64_t> found(n);
  const Traffic find = cost([&] { device->find_prefixsum(batch.masses.data(), found.data(), n); });
  CHECK(find.allocations == 0 && find.launches == 1);
  CHECK(find.transfers_in == 1 && find.bytes_in == n * 8);
  CHECK(find.transfers_out == 1 && find.bytes_out == n * 8);

  const Traffic root = cost([&] { CHECK(device->root().sum > 0.0); });
  CHECK(root.launches == 0 && root.transfers_out == 0);
}

}  // namespace rpa
