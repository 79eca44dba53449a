#include "descent_choice.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace rpa {

namespace {

// Trials of one path in a row, so that the processor's wide vectors have time to wake up, and how
// often its turn comes.
constexpr int in_a_row = 16, rounds = 2;
constexpr std::int64_t most_calls = 1 << 16;

}  // namespace

// Before the first trials the widest vectors are the best guess.
const DescentPath& DescentChoice::known(const Trials& trials) const {
  const int chosen = trials.chosen.load(std::memory_order_relaxed);
  const int place = chosen >= 0 ? chosen : static_cast<int>(std::bit_width(allowed())) - 1;
  return paths_[static_cast<std::size_t>(place)];
}

// One trial of n descents, by the path whose turn it is. The shortest time counts, since others
// were disturbed. The last trial chooses.
void DescentChoice::hold_trial(Trials& trials, const PairNode* nodes, std::int64_t padded,
                               const double* masses, std::int64_t* indices, std::int64_t n) {
  using Clock = std::chrono::steady_clock;
  const int paths = static_cast<int>(paths_.size());
  if (trials.turn == 0) trials.shortest.fill(std::numeric_limits<double>::infinity());
  const auto turn_of = [&] { return trials.turn / in_a_row % paths; };
  while ((allowed() >> turn_of() & 1U) == 0) trials.turn += in_a_row;
  const auto path = static_cast<std::size_t>(turn_of());
  const Clock::time_point start = Clock::now();
  descend_by(paths_[path], nodes, padded, masses, indices, n);
  const std::chrono::duration<double> time = Clock::now() - start;
  double& shortest = trials.shortest[path];
  shortest = std::min(shortest, time.count() / static_cast<double>(n));
  if (++trials.turn < rounds * in_a_row * paths) return;
  const auto best = std::min_element(trials.shortest.begin(), trials.shortest.end());
  trials.chosen.store(static_cast<int>(best - trials.shortest.begin()), std::memory_order_relaxed);
  trials.calls_left.store(trials.calls, std::memory_order_relaxed);
  trials.calls = std::min(2 * trials.calls, most_calls);
  trials.turn = 0;
}

void DescentChoice::descend(const PairNode* nodes, std::int64_t padded, const double* masses,
                            std::int64_t* indices, std::int64_t n) {
  if (n < smallest_vector_batch) return descend_by(paths_[0], nodes, padded, masses, indices, n);
  Trials& trials = trials_[tree_size(padded)][batch_size(n)];
  const std::int64_t calls_left = trials.calls_left.load(std::memory_order_relaxed);
  std::int64_t done = 0;
  if (calls_left > 0) {
    trials.calls_left.store(calls_left - 1, std::memory_order_relaxed);
  } else {
    const std::unique_lock trying(trials.mutex, std::try_to_lock);
    while (trying && done < n && trials.calls_left.load(std::memory_order_relaxed) == 0) {
      const std::int64_t rest = n - done;
      const std::int64_t trial = rest < 2 * longest_trial ? rest : longest_trial;
      hold_trial(trials, nodes, padded, masses + done, indices + done, trial);
      done += trial;
    }
  }
  descend_by(known(trials), nodes, padded, masses + done, indices + done, n - done);
}

const DescentPath* DescentChoice::chosen(std::int64_t padded, std::int64_t n) const {
  if (n < smallest_vector_batch) return &paths_[0];
  const Trials& trials = trials_[tree_size(padded)][batch_size(n)];
  return trials.chosen.load(std::memory_order_relaxed) < 0 ? nullptr : &known(trials);
}

void DescentChoice::allow(unsigned places) {
  allowed_.store(places, std::memory_order_relaxed);
  for (auto& of_tree : trials_) {
    for (Trials& trials : of_tree) {
      const std::lock_guard lock(trials.mutex);
      trials.chosen.store(-1, std::memory_order_relaxed);
      trials.calls_left.store(0, std::memory_order_relaxed);
      trials.calls = fewest_calls;
      trials.turn = 0;
    }
  }
}

unsigned DescentChoice::allowed() const {
  return allowed_.load(std::memory_order_relaxed) & ((1U << paths_.size()) - 1);
}

DescentChoice& descent_choice() {
  // It does not end: a thread may be in a call when the process does.
  static DescentChoice& choice = *new DescentChoice(descent_paths());
  return choice;
}

}  // namespace rpa
