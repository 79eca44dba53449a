#include "cost_table.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <vector>

#include "call_lock.hpp"

namespace rpa {

namespace {

// A tree that stays in the cache: what differs between machines is the work, and costs of memory
// weigh on all algorithms alike.
constexpr std::int64_t leaves = 1 << 12;
constexpr int levels = 7;  // that are kept, with the leaves
constexpr int repeats = 15;
constexpr std::int64_t batch = 256;

using Run = std::function<void(int)>;

// For each of these the shortest of several runs, in nanoseconds: the others were disturbed. They
// take turns, so that what slows the machine for a while slows all of them: ratios are what counts.
std::vector<double> shortest(const std::vector<Run>& runs) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> best(runs.size(), std::numeric_limits<double>::infinity());
  for (int i = 0; i < repeats; ++i) {
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const Clock::time_point start = Clock::now();
      runs[r](i);
      const std::chrono::duration<double, std::nano> time = Clock::now() - start;
      best[r] = std::min(best[r], time.count());
    }
  }
  return best;
}

// Every run gets numbers of its own, or the branch predictor would learn them.
struct Probe {
  std::vector<PairNode> nodes = std::vector<PairNode>(2 * leaves);
  std::vector<std::int64_t> indices = std::vector<std::int64_t>(repeats * batch);
  std::vector<double> masses = std::vector<double>(repeats * batch);

  Probe() {
    std::minstd_rand random(1);
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    for (std::int64_t& index : indices) index = static_cast<std::int64_t>(random() % leaves);
    for (double& mass : masses) mass = uniform(random);
    for (std::int64_t j = 0; j < leaves; ++j) nodes[leaves + j] = make_leaf<PairNode>(1.0);
    combine_all(nodes.data(), leaves);
    for (double& mass : masses) mass *= static_cast<double>(leaves);
  }

  // A batch in updates of n elements.
  template <class Update>
  Run updates(std::int64_t n, Update update) {
    return [=, this](int i) {
      for (std::int64_t at = i * batch; at < (i + 1) * batch; at += n) {
        update(nodes.data(), leaves, &indices[at], &masses[at], n);
      }
    };
  }

  UpdateCosts update() {
    constexpr std::int64_t few = 4, many = touched_block;
    const auto touched = [](auto... arguments) { update_touched(arguments..., 0); };
    const std::vector<double> times = shortest({
        updates(few, update_per_element<PairNode>),
        updates(few, touched),
        updates(many, touched),
        [this](int) { combine_all(nodes.data(), leaves); },
    });
    // A batch is batch / n lists of n nodes on each of the levels.
    constexpr double of_nodes = levels * batch;
    constexpr double lists_of_few = levels * batch / few, lists_of_many = levels * batch / many;
    UpdateCosts costs;
    costs.element_node = times[0] / of_nodes;
    costs.touched_level = std::max(0.0, times[1] - times[2]) / (lists_of_few - lists_of_many);
    costs.touched_node = std::max(0.0, times[2] - lists_of_many * costs.touched_level) / of_nodes;
    costs.swept_node = 3.0 * times[3] / static_cast<double>(leaves);
    return costs;
  }
};

std::atomic<const UpdateCosts*> current = nullptr;
// Older than every tree's lock, see call_lock.hpp; like the tables it does not end, because a
// thread may be in an update when the process does.
CallLock& mutex = *new CallLock;
// A table stays valid for those who still read it; few are ever set.
std::deque<UpdateCosts>& tables = *new std::deque<UpdateCosts>;

}  // namespace

UpdateCosts measure_cost_table() { return Probe().update(); }

const UpdateCosts& cost_table() {
  const UpdateCosts* table = current.load(std::memory_order_acquire);
  if (table == nullptr) {
    const std::lock_guard lock(mutex);
    table = current.load(std::memory_order_acquire);
    if (table == nullptr) {
      table = &tables.emplace_back(measure_cost_table());
      current.store(table, std::memory_order_release);
    }
  }
  return *table;
}

void set_cost_table(const UpdateCosts& costs) {
  const std::lock_guard lock(mutex);
  current.store(&tables.emplace_back(costs), std::memory_order_release);
}

}  // namespace rpa
