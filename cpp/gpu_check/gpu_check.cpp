// Checks the GPU backend against the host's tree and measures both; needs no Python and no CUDA
// toolkit. See README.txt.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>

#include "accelerator.hpp"
#include "copy_bandwidth.hpp"
#include "device_checks.hpp"
#include "measure.hpp"
#include "stopwatch.hpp"

// The static libstdc++'s random_device, which nothing here uses, asks for this function of glibc
// 2.36. With one of our own the program runs with glibc 2.35 too.
extern "C" unsigned arc4random() { std::abort(); }

namespace {

using rpa::Measurement;
using rpa::Traffic;

struct Options {
  bool quick = false;
  bool require_gpu = false;
  std::string json = "gpu_check.json";
};

Options parse(int argc, char** argv) {
  Options options;
  for (int k = 1; k < argc; ++k) {
    if (std::strcmp(argv[k], "--quick") == 0) {
      options.quick = true;
    } else if (std::strcmp(argv[k], "--require-gpu") == 0) {
      options.require_gpu = true;
    } else if (std::strcmp(argv[k], "--json") == 0 && k + 1 < argc) {
      options.json = argv[++k];
    } else {
      std::fprintf(stderr, "usage: %s [--quick] [--require-gpu] [--json FILE]\n", argv[0]);
      std::exit(2);
    }
  }
  return options;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= ' ') result += c;
  }
  return result + '"';
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

// Random batches over trees of many sizes, each compared node by node. Gives what they moved.
Traffic check_random_batches(int batches) {
  std::mt19937_64 random(6);
  const std::int64_t capacities[] = {1,   2,    3,    7,    11,   33,   50,
                                     100, 1000, 1023, 1024, 1025, 5000, 20000};
  std::vector<std::unique_ptr<rpa::DeviceTree>> devices;
  std::vector<std::unique_ptr<rpa::Tree<rpa::PairNode>>> hosts;
  for (const std::int64_t capacity : capacities) {
    devices.push_back(rpa::acc::make_device_tree(capacity));
    hosts.push_back(std::make_unique<rpa::Tree<rpa::PairNode>>(capacity));
  }
  for (int k = 0; k < batches; ++k) {
    const auto at = static_cast<std::size_t>(random() % devices.size());
    const auto longest = k % 50 == 0 ? 9000 : 200;  // longer ones take the other way
    const rpa::RandomBatch batch(static_cast<std::int64_t>(random() % longest), capacities[at],
                                 random);
    const auto algorithm = rpa::device_algorithms[random() % std::size(rpa::device_algorithms)];
    devices[at]->update(batch.indices.data(), batch.masses.data(), batch.size(), algorithm);
    hosts[at]->update(batch.indices.data(), batch.masses.data(), batch.size());
    rpa::check_same(*devices[at], *hosts[at], random);
  }
  Traffic total;
  for (const auto& device : devices) total += device->traffic();
  return total;
}

void write_traffic(std::ofstream& out, const char* name, const Traffic& traffic) {
  out << "  " << quoted(name) << ": {\"launches\": " << traffic.launches
      << ", \"transfers_in\": " << traffic.transfers_in << ", \"bytes_in\": " << traffic.bytes_in
      << ", \"transfers_out\": " << traffic.transfers_out
      << ", \"bytes_out\": " << traffic.bytes_out << ", \"allocations\": " << traffic.allocations
      << "},\n";
}

void write_measurements(std::ofstream& out, const std::vector<Measurement>& measurements) {
  out << "  \"measurements_us\": [";
  const char* separator = "\n    ";
  for (const Measurement& m : measurements) {
    out << separator << "{\"n\": " << m.n << ", \"k\": " << m.k;
    if (m.skipped.empty()) {
      out << ", \"repeats\": " << m.repeats << ", \"update\": {\"gpu\": " << m.update_gpu
          << ", \"gpu_rebuild\": " << m.update_gpu_rebuild
          << ", \"gpu_prefix_sums\": " << m.update_gpu_prefix_sums << ", \"cpu\": " << m.update_cpu
          << "}, \"find\": {\"gpu\": " << m.find_gpu
          << ", \"gpu_prefix_sums\": " << m.find_gpu_prefix_sums << ", \"cpu\": " << m.find_cpu
          << "}}";
    } else {
      out << ", \"skipped\": " << quoted(m.skipped) << "}";
    }
    separator = ",\n    ";
  }
  out << "\n  ]\n}\n";
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const rpa::Stopwatch clock;
  const std::string no_gpu = rpa::acc::device_problem();
  const bool gpu = no_gpu.empty();
  if (gpu) {
    std::printf("GPU: %s, %s\n", rpa::acc::accelerator().name.c_str(),
                rpa::acc::accelerator().driver.c_str());
  } else {
    std::printf("NO GPU: %s.\nChecking OpenACC's host fallback instead; nothing is measured.\n",
                no_gpu.c_str());
    if (options.require_gpu) return 3;
    if (const std::string problem = rpa::acc::host_problem(); !problem.empty()) {
      std::printf("It cannot run either: %s.\n", problem.c_str());
      return 3;
    }
  }

  const int batches = options.quick ? 1000 : 10000;
  rpa::updates_match_the_host(rpa::acc::make_device_tree, {1, 2, 3, 5, 33, 64, 1000}, 5, 300);
  rpa::updates_match_the_host(rpa::acc::make_device_tree, {40000, 1 << 16}, 3, 9000);
  rpa::assign_matches_the_host(rpa::acc::make_device_tree, {1, 2, 5, 64, 1000, 40000});
  rpa::long_batches_go_in_pieces(rpa::acc::make_device_tree);
  rpa::destroyed_trees_leave_the_others_alone(rpa::acc::make_device_tree);
  rpa::calls_move_only_their_batch(rpa::acc::make_device_tree);
  const Traffic checked = check_random_batches(batches);
  const double check_seconds = clock.seconds();
  std::printf("all operations and %d random batches agree with the host, bit by bit (%.0f s)\n",
              batches, check_seconds);

  Traffic measured;
  std::vector<Measurement> measurements;
  rpa::acc::CopyBandwidth copy;
  if (gpu) {
    copy = rpa::acc::copy_bandwidth(std::int64_t{1} << (options.quick ? 22 : 25));
    const auto power = [](int exponent) { return std::int64_t{1} << exponent; };
    measurements =
        options.quick
            ? rpa::measure({power(16), power(21)}, {8, 512, 32768}, 0.3, clock, 40, measured)
            : rpa::measure(
                  {power(21), power(16), power(24), power(26), power(18), power(20), power(22)},
                  {8, 64, 512, 4096, 32768, power(18), power(20)}, 0.8, clock, 190, measured);
  }

  const bool ran_on_device = rpa::acc::kernels_run_on_device();
  std::ofstream out(options.json);
  out << "{\n  \"format\": 1,\n  \"date\": " << quoted(today())
      << ",\n  \"version\": " << quoted(RLLIB_PER_ACC_VERSION)
      << ",\n  \"compiler\": " << quoted(RLLIB_PER_ACC_COMPILER)
      << ",\n  \"openacc_flags\": " << quoted(RLLIB_PER_ACC_OPENACC_FLAGS)
      << ",\n  \"quick\": " << (options.quick ? "true" : "false")
      << ",\n  \"cpu\": " << quoted(cpu_name()) << ",\n";
  if (gpu) {
    const rpa::acc::Accelerator device = rpa::acc::accelerator();
    out << "  \"device\": {\"name\": " << quoted(device.name)
        << ", \"driver\": " << quoted(device.driver) << ", \"memory\": " << device.memory
        << "},\n  \"copy_GB_per_s\": {\"to_device\": " << copy.to_device
        << ", \"to_host\": " << copy.to_host << ", \"on_device\": " << copy.on_device << "},\n";
  } else {
    out << "  \"device\": null,\n  \"no_device_because\": " << quoted(no_gpu) << ",\n";
  }
  out << "  \"kernels_run_on_device\": " << (ran_on_device ? "true" : "false")
      << ",\n  \"random_batches_checked\": " << batches << ",\n  \"mismatches\": 0,\n";
  write_traffic(out, "traffic_of_random_batches", checked);
  write_traffic(out, "traffic_of_measurements", measured);
  out << "  \"seconds\": " << clock.seconds() << ",\n";
  write_measurements(out, measurements);
  out.close();
  if (!out) {
    std::fprintf(stderr, "cannot write %s\n", options.json.c_str());
    return 2;
  }
  std::printf("wrote %s after %.0f s\n", options.json.c_str(), clock.seconds());
  if (ran_on_device != gpu) {
    std::printf("FAILED: kernels did not run on the GPU\n");
    return 1;
  }
}
