// Thousands of adversarial schedules give the host's bits; with the level loop parallel they do
// not.
#include "schedule.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "batches.hpp"
#include "check.hpp"
#include "device_tree.hpp"
#include "tree.hpp"

namespace rpa::adversarial {
std::unique_ptr<DeviceTree> make_device_tree(std::int64_t capacity);
}
namespace rpa::racing {
std::unique_ptr<DeviceTree> make_device_tree(std::int64_t capacity);
}

namespace {

using rpa::DeviceTree;
using rpa::PairNode;
using rpa::RandomBatch;
using rpa::Tree;
using rpa::UpdateAlgorithm;

constexpr std::int64_t capacities[] = {3, 8, 33, 50, 100, 200};
constexpr UpdateAlgorithm algorithms[] = {UpdateAlgorithm::automatic, UpdateAlgorithm::touched,
                                          UpdateAlgorithm::rebuild};

bool same(const DeviceTree& device, const Tree<PairNode>& host) {
  std::vector<PairNode> expected(2 * host.padded()), nodes(2 * host.padded());
  host.read_pairs(expected.data());
  device.read_nodes(nodes.data());
  return std::memcmp(nodes.data(), expected.data(), nodes.size() * sizeof(PairNode)) == 0;
}

// Whether a random program under the schedule of `seed` gives the host's bits.
template <class Factory>
bool seed_gives_host_bits(std::uint64_t seed, Factory make) {
  std::mt19937_64 random(seed);
  rpa::schedule::reseed(seed);
  const std::int64_t capacity = capacities[random() % std::size(capacities)];
  const auto device = make(capacity);
  Tree<PairNode> host(capacity);
  for (int round = 0; round < 3; ++round) {
    const RandomBatch batch(1 + static_cast<std::int64_t>(random() % 40), capacity, random);
    device->update(batch.indices.data(), batch.masses.data(), batch.size(),
                   algorithms[random() % std::size(algorithms)]);
    host.update(batch.indices.data(), batch.masses.data(), batch.size());
    if (!same(*device, host)) return false;
  }
  return true;
}

template <class Factory>
int wrong_seeds(int seeds, Factory make) {
  int wrong = 0;
  for (int seed = 0; seed < seeds; ++seed) wrong += !seed_gives_host_bits(seed, make);
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 4000;
  const int wrong = wrong_seeds(seeds, rpa::adversarial::make_device_tree);
  std::printf("levels in order: %d of %d schedules gave other bits\n", wrong, seeds);
  CHECK(seeds > 0 && wrong == 0);
#ifndef RPA_WITHOUT_RACE  // a data race on purpose, which ThreadSanitizer would stop at
  const int caught = wrong_seeds(200, rpa::racing::make_device_tree);
  std::printf("levels in parallel: %d of 200 schedules gave other bits\n", caught);
  CHECK(caught > 100);
#endif
}
