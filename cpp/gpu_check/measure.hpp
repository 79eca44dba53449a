// Times of one batch on the GPU and on this machine's CPU, transfers included.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device_tree.hpp"
#include "stopwatch.hpp"

namespace rpa {

// Medians in microseconds for batches of k items in a tree of n leaves. `skipped` says why there
// are none.
struct Measurement {
  std::int64_t n = 0;
  std::int64_t k = 0;
  int repeats = 0;
  double update_gpu = 0, update_gpu_rebuild = 0, update_gpu_prefix_sums = 0, update_cpu = 0;
  double find_gpu = 0, find_gpu_prefix_sums = 0, find_cpu = 0;
  std::string skipped;
};

// Every k at every n; stops `limit` seconds after `since`. Each repeat draws a fresh batch, which
// all sides work on in turn, and compares what they give: a difference ends the program. Adds to
// `total` what the tree moved and launched.
std::vector<Measurement> measure(const std::vector<std::int64_t>& sizes,
                                 const std::vector<std::int64_t>& batches,
                                 double seconds_per_measurement, const Stopwatch& since,
                                 double limit, Traffic& total);

}  // namespace rpa
