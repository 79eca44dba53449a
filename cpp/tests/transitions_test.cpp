// The reads of the transition store against loops over one row at a time.
#include "transitions.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "check.hpp"

namespace {

using Steps = std::vector<std::int64_t>;

// Episodes of random lengths whose rows lie anywhere; the last row of each is its tail.
struct Store {
  std::vector<rpa::Link> links;
  std::vector<double> rewards;
  std::vector<std::int32_t> length;
  std::vector<std::uint8_t> flags;
  Steps step_rows;
};

Store random_store(std::mt19937_64& rng) {
  Store store;
  const auto episodes = static_cast<std::int32_t>(1 + rng() % 20);
  std::int32_t num_rows = 0;
  for (std::int32_t slot = 0; slot < episodes; ++slot) {
    store.length.push_back(static_cast<std::int32_t>(rng() % 30));
    store.flags.push_back(static_cast<std::uint8_t>(rng() % 4));
    num_rows += store.length.back() + 1;
  }
  std::vector<std::int32_t> rows(static_cast<std::size_t>(num_rows));
  for (std::int32_t row = 0; row < num_rows; ++row) rows[static_cast<std::size_t>(row)] = row;
  std::shuffle(rows.begin(), rows.end(), rng);
  store.links.resize(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    store.rewards.push_back(static_cast<double>(rng() % 1000) / 7.0);
  }
  auto row = rows.begin();
  for (std::int32_t slot = 0; slot < episodes; ++slot) {
    for (std::int32_t t = 0; t <= store.length[static_cast<std::size_t>(slot)]; ++t, ++row) {
      const bool is_tail = t == store.length[static_cast<std::size_t>(slot)];
      store.links[static_cast<std::size_t>(*row)] = {is_tail ? -1 : *(row + 1), slot, t};
      if (!is_tail) store.step_rows.push_back(*row);
    }
  }
  return store;
}

void check_serve(const Store& store, std::mt19937_64& rng) {
  Steps rows, steps;
  for (std::size_t i = 0; i < rng() % 200; ++i) {
    rows.push_back(store.step_rows[rng() % store.step_rows.size()]);
    steps.push_back(static_cast<std::int64_t>(1 + rng() % 40));
  }
  const auto most = static_cast<std::int64_t>(rng() % (rows.size() + 2));
  const auto least = static_cast<std::int64_t>(1 + rng() % 40);
  const rpa::StoredSteps stored{store.links.data(), store.length.data(), store.flags.data()};
  const rpa::Served served = rpa::serve(stored, rows.data(), steps, most, least);

  Steps going, ending;
  std::int64_t looked_at = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<std::int64_t>(going.size() + ending.size()) == most) break;
    ++looked_at;
    std::int64_t left = 0;
    auto row = static_cast<std::size_t>(rows[i]);
    for (; store.links[row].next >= 0; row = static_cast<std::size_t>(store.links[row].next))
      ++left;
    if (left < steps[i] && left < least) continue;
    const bool whole = left <= steps[i];
    const bool ends = whole && store.flags[static_cast<std::size_t>(store.links[row].slot)] != 0;
    CHECK(served.steps[i] == (whole ? left : steps[i]));
    (ends ? ending : going).push_back(static_cast<std::int64_t>(i));
  }
  CHECK(served.going == going);
  CHECK(served.ending == ending);
  CHECK(served.looked_at == looked_at);
}

void check_follow(const Store& store, std::mt19937_64& rng, std::size_t n) {
  const double gamma = 0.9;
  std::vector<std::int32_t> rows, ends(n);
  Steps steps;
  std::vector<double> totals(n);
  for (std::size_t i = 0; i < n; ++i) {
    rows.push_back(static_cast<std::int32_t>(store.step_rows[rng() % store.step_rows.size()]));
    const rpa::Link& link = store.links[static_cast<std::size_t>(rows.back())];
    const std::int64_t left = store.length[static_cast<std::size_t>(link.slot)] - link.t;
    steps.push_back(static_cast<std::int64_t>(1 + rng() % static_cast<std::uint64_t>(left)));
  }
  const auto size = static_cast<std::int64_t>(n);
  const auto follow = [&] {
    return rpa::follow_links(store.links.data(), store.rewards.data(), rows.data(), steps.data(),
                             size, gamma, ends.data(), totals.data());
  };
  CHECK(follow() == -1);
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> passed;
    std::int32_t row = rows[i];
    for (std::int64_t step = 0; step < steps[i]; ++step) {
      passed.push_back(store.rewards[static_cast<std::size_t>(row)]);
      row = store.links[static_cast<std::size_t>(row)].next;
    }
    double total = 0.0;
    while (!passed.empty()) {
      total = passed.back() + gamma * total;
      passed.pop_back();
    }
    CHECK(ends[i] == row);
    CHECK(totals[i] == total);
  }
  if (n > 0) {
    steps.back() = 1000;  // past the end of every episode
    CHECK(follow() == size - 1);
  }
}

void check_num_distinct(std::mt19937_64& rng) {
  std::vector<std::int32_t> values;
  const std::uint64_t range = 1 + rng() % 1000;
  for (std::size_t i = 0; i < rng() % 500; ++i) {
    values.push_back(static_cast<std::int32_t>(rng() % range) - 3);
  }
  const std::set<std::int32_t> distinct(values.begin(), values.end());
  CHECK(rpa::num_distinct(values.data(), static_cast<std::int64_t>(values.size())) ==
        static_cast<std::int64_t>(distinct.size()));
}

}  // namespace

int main() {
  std::mt19937_64 rng(1);
  for (int round = 0; round < 500; ++round) {
    const Store store = random_store(rng);
    check_num_distinct(rng);
    if (store.step_rows.empty()) continue;
    check_serve(store, rng);
    check_follow(store, rng, rng() % 100);
  }
  check_follow(random_store(rng), rng, 10000);  // more than one block
}
