#include "measure.hpp"

#include <cstdio>
#include <fstream>
#include <memory>
#include <random>

#include "check.hpp"
#include "prefix_sums.hpp"
#include "tree.hpp"

namespace rpa {

namespace {

// All sides hold the same leaves. They are whole numbers, so that prefix sums, which add in another
// order, must give the same answers.
class Sides {
 public:
  Sides(std::int64_t n, std::int64_t longest)
      : gpu(acc::make_device_tree(n)), prefix_sums(acc::make_prefix_sums(n, longest)), cpu(n) {
    std::vector<double> leaves(n);
    for (double& leaf : leaves) leaf = static_cast<double>(random() % 1000);
    gpu->assign(leaves.data(), n);
    prefix_sums->assign(leaves.data());
    cpu.assign(leaves.data(), n);
    CHECK(gpu->root().sum == cpu.root().sum);
  }

  std::mt19937_64 random{1};
  std::unique_ptr<DeviceTree> gpu;
  std::unique_ptr<PrefixSums> prefix_sums;
  Tree<PairNode> cpu;
};

template <class Call>
void time(std::vector<double>& microseconds, Call call) {
  const Stopwatch watch;
  call();
  microseconds.push_back(1e6 * watch.seconds());
}

Measurement measure_one(Sides& sides, std::int64_t n, std::int64_t k, double seconds) {
  std::vector<std::int64_t> indices(k), found(k), expected(k);
  std::vector<double> masses(k);
  std::vector<double> update_gpu, update_rebuild, update_prefix, update_cpu;
  std::vector<double> find_gpu, find_prefix, find_cpu;
  const Stopwatch watch;
  int repeats = 0;
  for (; repeats < 50 && (repeats < 4 || watch.seconds() < seconds); ++repeats) {
    for (std::int64_t j = 0; j < k; ++j) {
      indices[j] = static_cast<std::int64_t>(sides.random() % n);
      masses[j] = static_cast<double>(sides.random() % 1000);
    }
    time(update_gpu, [&] { sides.gpu->update(indices.data(), masses.data(), k); });
    time(update_cpu, [&] { sides.cpu.update(indices.data(), masses.data(), k); });
    CHECK(sides.gpu->root().sum == sides.cpu.root().sum);
    CHECK(sides.gpu->root().min_key == sides.cpu.root().min_key);
    time(update_rebuild,
         [&] { sides.gpu->update(indices.data(), masses.data(), k, UpdateAlgorithm::rebuild); });
    CHECK(sides.gpu->root().sum == sides.cpu.root().sum);
    time(update_prefix, [&] { sides.prefix_sums->update(indices.data(), masses.data(), k); });

    std::uniform_real_distribution<double> uniform(0.0, sides.cpu.root().sum);
    for (double& mass : masses) mass = uniform(sides.random);
    time(find_gpu, [&] { sides.gpu->find_prefixsum(masses.data(), found.data(), k); });
    time(find_cpu, [&] { sides.cpu.find_prefixsum(masses.data(), expected.data(), k); });
    CHECK(found == expected);
    time(find_prefix, [&] { sides.prefix_sums->find(masses.data(), found.data(), k); });
    CHECK(found == expected);
  }
  Measurement result;
  result.n = n;
  result.k = k;
  result.repeats = repeats;
  result.update_gpu = median(update_gpu);
  result.update_gpu_rebuild = median(update_rebuild);
  result.update_gpu_prefix_sums = median(update_prefix);
  result.update_cpu = median(update_cpu);
  result.find_gpu = median(find_gpu);
  result.find_gpu_prefix_sums = median(find_prefix);
  result.find_cpu = median(find_cpu);
  return result;
}

// What the host has left, 0 if it does not say.
std::int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::int64_t kib = 0;
  for (std::string rest; file >> name >> kib && std::getline(file, rest);) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

// Why a size cannot be measured here, or "".
std::string host_problem(std::int64_t n) {
  const std::int64_t wanted = 2 * n * static_cast<std::int64_t>(sizeof(PairNode)) + 2 * n * 8;
  const std::int64_t available = available_memory();
  if (available == 0 || wanted < available) return "";
  return "needs " + std::to_string(wanted) + " bytes of host memory, " + std::to_string(available) +
         " are available";
}

}  // namespace

std::vector<Measurement> measure(const std::vector<std::int64_t>& sizes,
                                 const std::vector<std::int64_t>& batches,
                                 double seconds_per_measurement, const Stopwatch& since,
                                 double limit, Traffic& total) {
  std::vector<Measurement> results;
  const std::int64_t longest = std::int64_t{1} << DeviceTree::position_bits;
  for (const std::int64_t n : sizes) {
    std::unique_ptr<Sides> sides;
    std::string skipped = host_problem(n);
    if (since.seconds() > limit) skipped = "no time left";
    if (skipped.empty()) {
      try {
        sides = std::make_unique<Sides>(n, longest);
      } catch (const std::bad_alloc&) {
        skipped = "not enough device memory";
      }
    }
    for (const std::int64_t k : batches) {
      if (k > n) continue;
      if (skipped.empty() && since.seconds() > limit) skipped = "no time left";
      Measurement result;
      if (skipped.empty()) {
        result = measure_one(*sides, n, k, seconds_per_measurement);
        std::printf(
            "n = %9ld, k = %8ld: update %9.1f us on the GPU, %9.1f on the CPU; "
            "find %9.1f and %9.1f\n",
            n, k, result.update_gpu, result.update_cpu, result.find_gpu, result.find_cpu);
      } else {
        result.n = n;
        result.k = k;
        result.skipped = skipped;
        std::printf("n = %9ld, k = %8ld: skipped, %s\n", n, k, skipped.c_str());
      }
      std::fflush(stdout);
      results.push_back(result);
    }
    if (sides) total += sides->gpu->traffic();
  }
  return results;
}

}  // namespace rpa
