#include "cost_table.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <limits>
#include <mutex>
#include <random>
#include <vector>

namespace rpa {

namespace {

// A tree that stays in the cache: what differs between machines is the work, and costs of memory
// weigh on all algorithms alike.
constexpr std::int64_t leaves = 1 << 12;
constexpr int levels = 7;  // that are kept, with the leaves
constexpr int repeats = 15;
constexpr std::int64_t batch = 256;

// The shortest of several runs, in nanoseconds: the others were disturbed.
template <class Run>
double shortest(Run run) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const Clock::time_point start = Clock::now();
    run(i);
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
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

  // Time of an update of n elements.
  template <class Update>
  double of(std::int64_t n, Update update) {
    const std::int64_t calls = batch / n;
    const double time = shortest([&](int i) {
      for (std::int64_t at = i * batch; at + n <= (i + 1) * batch; at += n) {
        update(nodes.data(), leaves, &indices[at], &masses[at], n);
      }
    });
    return time / static_cast<double>(calls);
  }

  UpdateCosts update() {
    constexpr std::int64_t few = 4, many = touched_block;
    const auto touched = [](auto... arguments) { update_touched(arguments..., 0); };
    const double elements = of(few, update_per_element<PairNode>);
    const double of_few = of(few, touched), of_many = of(many, touched);
    const double swept = shortest([&](int) { combine_all(nodes.data(), leaves); });
    UpdateCosts costs;
    costs.element_node = elements / static_cast<double>(few * levels);
    costs.touched_node =
        std::max(0.0, of_many - of_few) / static_cast<double>((many - few) * levels);
    costs.touched_level =
        std::max(0.0, of_few / levels - static_cast<double>(few) * costs.touched_node);
    costs.swept_node = 3.0 * swept / static_cast<double>(leaves);
    return costs;
  }

  DescentPath descent() {
    std::vector<std::int64_t> found(batch);
    DescentPath fastest = descent_paths()[0];
    double least = std::numeric_limits<double>::infinity();
    for (const DescentPath& path : descent_paths()) {
      const double time = shortest([&](int i) {
        descend_by(path, nodes.data(), leaves, &masses[i * batch], found.data(), batch);
      });
      if (time < least) {
        least = time;
        fastest = path;
      }
    }
    return fastest;
  }
};

std::atomic<const CostTable*> current = nullptr;
std::mutex mutex;
// A table stays valid for those who still read it; few are ever set.
std::deque<CostTable> tables;

}  // namespace

CostTable measure_cost_table() {
  Probe probe;
  const DescentPath descent = probe.descent();
  return {probe.update(), descent};
}

const CostTable& cost_table() {
  const CostTable* table = current.load(std::memory_order_acquire);
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

void set_cost_table(const CostTable& table) {
  const std::lock_guard lock(mutex);
  current.store(&tables.emplace_back(table), std::memory_order_release);
}

}  // namespace rpa
