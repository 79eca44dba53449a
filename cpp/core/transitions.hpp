// Transitions of several steps, over rows of steps that are linked from each step to the next.
// Loops are split so that reads which wait for memory do not wait for each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace rpa {

// What is kept of every row.
struct Link {
  std::int32_t next;  // row of the next step, -1 past the last one
  std::int32_t slot;
  std::int32_t t;  // stored steps of the episode before this one
};

// What is kept of every row, and of every episode by its slot.
struct StoredSteps {
  const Link* links;
  const std::int32_t* length;
  const std::uint8_t* flags;  // of the episode's end; 0 while it goes on
};

// Drawn rows, and which of them can begin their transitions.
struct Served {
  std::vector<std::int32_t> slot, t;  // of all that were looked at
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> going, ending;  // positions; ending: with the end of the episode
  std::int64_t looked_at = 0;
};

// The first `most` of the transitions from `rows` that have enough steps left in their episodes:
// all of their steps, or `least` of them, to which they are then made shorter.
inline Served serve(const StoredSteps& stored, const std::int64_t* rows,
                    std::vector<std::int64_t> steps, std::int64_t most, std::int64_t least) {
  const std::size_t size = steps.size();
  Served served;
  served.slot.resize(size);
  served.t.resize(size);
  served.steps = std::move(steps);
  for (std::size_t i = 0; i < size; ++i) {
    const Link& link = stored.links[rows[i]];
    served.slot[i] = link.slot;
    served.t[i] = link.t;
  }
  served.going.reserve(size);
  for (std::size_t i = 0; i < size && most > 0; ++i) {
    ++served.looked_at;
    const std::int32_t slot = served.slot[i];
    const std::int64_t left = stored.length[slot] - served.t[i];
    if (left < std::min(served.steps[i], least)) continue;
    served.steps[i] = std::min(served.steps[i], left);
    const bool ends = served.steps[i] == left && stored.flags[slot] != 0;
    (ends ? served.ending : served.going).push_back(static_cast<std::int64_t>(i));
    --most;
  }
  return served;
}

// Follows the links `steps[i]` times from each of `rows`, at most `longest` times. Returns the
// position of one that leads past the end of its episode, or -1.
inline std::int64_t follow_block(const Link* links, const double* rewards,
                                 const std::int64_t* steps, std::int64_t n, std::int64_t longest,
                                 double gamma, std::int32_t* reached, double* total,
                                 double* passed) {
  for (std::int64_t step = 0; step < longest; ++step) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (step >= steps[i]) continue;
      const std::int32_t next = links[reached[i]].next;
      if (next < 0) return i;
      passed[step * n + i] = rewards[reached[i]];
      reached[i] = next;
    }
  }
  for (std::int64_t step = longest - 1; step >= 0; --step) {
    const double* here = passed + step * n;
    for (std::int64_t i = 0; i < n; ++i) {
      if (step >= steps[i]) continue;
      total[i] = step == longest - 1 ? here[i] : here[i] + gamma * total[i];
    }
  }
  return -1;
}

// Follows the links `steps[i]` times from each of `rows`. Returns the position of one that leads
// past the end of its episode, or -1.
//
// Rewards are summed from the last one backwards, r_i + gamma * (r_i+1 + ...), as the filter in
// RLlib's buffer does: the same bits.
inline std::int64_t follow_links(const Link* links, const double* rewards, const std::int32_t* rows,
                                 const std::int64_t* steps, std::int64_t n, double gamma,
                                 std::int32_t* reached, double* total) {
  if (n == 0) return -1;
  const std::int64_t longest = *std::max_element(steps, steps + n);
  const std::int64_t block =
      std::max<std::int64_t>(1, (1 << 16) / std::max<std::int64_t>(longest, 1));
  std::vector<double> passed(static_cast<std::size_t>(longest * std::min(block, n)));
  std::copy(rows, rows + n, reached);
  std::fill(total, total + n, 0.0);
  for (std::int64_t start = 0; start < n; start += block) {
    const std::int64_t bad =
        follow_block(links, rewards, steps + start, std::min(block, n - start), longest, gamma,
                     reached + start, total + start, passed.data());
    if (bad >= 0) return start + bad;
  }
  return -1;
}

// How many different values there are; `n` is less than 2^31.
inline std::int64_t num_distinct(const std::int32_t* values, std::int64_t n) {
  std::uint32_t bits = 4;
  while ((std::int64_t{1} << bits) < 2 * n) ++bits;
  std::vector<std::int32_t> seen(std::size_t{1} << bits, -1);  // a hash set of positions
  const std::size_t mask = seen.size() - 1;
  std::int64_t distinct = 0;
  for (std::int32_t i = 0; i < n; ++i) {
    std::size_t at = (static_cast<std::uint32_t>(values[i]) * 2654435769U) >> (32 - bits);
    while (seen[at] >= 0 && values[seen[at]] != values[i]) at = (at + 1) & mask;
    if (seen[at] < 0) {
      seen[at] = i;
      ++distinct;
    }
  }
  return distinct;
}

}  // namespace rpa
