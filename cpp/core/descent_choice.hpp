// Which path descends: the one that was fastest in trials, for each size of tree and of batch.
//
// The trials are calls: while they last, the paths take turns and are timed at the work that was
// asked for anyway, on the caller's own tree, so that its memory counts as it will. They are held
// again after a while, at first soon, since a tree that is filling up outgrows the caches. What is
// answered never depends on them.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <span>

#include "descend_paths.hpp"

namespace rpa {

// Any method may be called from any thread, at any time.
class DescentChoice {
 public:
  // At most most_paths of them; the first takes batches too small for vectors.
  explicit DescentChoice(std::span<const DescentPath> paths) : paths_(paths) {}

  // Finds the leaf of each of n masses >= 0; see descend_paths.hpp.
  void descend(const PairNode* nodes, std::int64_t padded, const double* masses,
               std::int64_t* indices, std::int64_t n);

  // The path that a batch of n takes now in a tree of `padded` leaves; null before the trials.
  const DescentPath* chosen(std::int64_t padded, std::int64_t n) const;

  // Forgets all trials, and allows from now on only the paths whose places are set bits; at least
  // one. For tests and benchmarks: it plays another processor.
  void allow(unsigned places);
  unsigned allowed() const;

 private:
  static constexpr int most_paths = 4;
  // Descents of a trial. A longer batch holds several, and all longer ones count as one size.
  static constexpr std::int64_t longest_trial = 512;
  static constexpr std::int64_t fewest_calls = 512;  // from trials to trials
  static constexpr std::size_t tree_sizes = 57;
  static constexpr std::size_t batch_sizes = std::bit_width(std::uint64_t{longest_trial}) + 1;

  // The trials for one size of tree and of batch.
  struct Trials {
    std::atomic<int> chosen = -1;
    std::atomic<std::int64_t> calls_left = 0;  // until trials are due
    // Of who tries. The others go on with what is known: nobody waits, so a child that was forked
    // in the middle does not wait for a thread that it does not have.
    std::mutex mutex;
    std::int64_t calls = fewest_calls;
    int turn = 0;
    std::array<double, most_paths> shortest{};  // seconds for each descent
  };

  static std::size_t tree_size(std::int64_t padded) {
    return static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(padded)));
  }
  static std::size_t batch_size(std::int64_t n) {
    const std::int64_t trial = n < longest_trial ? n : longest_trial;
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(trial)));
  }
  const DescentPath& known(const Trials& trials) const;
  void hold_trial(Trials& trials, const PairNode* nodes, std::int64_t padded, const double* masses,
                  std::int64_t* indices, std::int64_t n);

  std::span<const DescentPath> paths_;
  std::atomic<unsigned> allowed_ = ~0U;
  std::array<std::array<Trials, batch_sizes>, tree_sizes> trials_;
};

// That of all trees, over descent_paths().
DescentChoice& descent_choice();

}  // namespace rpa
