// Millions of random operations against the oracle: soak_test [operations] [seed].
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "program.hpp"

namespace {

struct Random {
  std::mt19937_64 engine;
  std::uint64_t next(std::uint64_t bound) { return engine() % bound; }
};

}  // namespace

int main(int argc, char** argv) {
  const long operations = argc > 1 ? std::atol(argv[1]) : 10'000'000;
  Random random{std::mt19937_64(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1)};
  const auto start = std::chrono::steady_clock::now();
  rpa::Program program(random);
  for (long k = 1; k <= operations; ++k) {
    program.step();
    if (k % 1'000'000 == 0) {
      std::printf("%ld operations agree with the oracle\n", k);
      std::fflush(stdout);
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%ld operations in %.0f s, no difference\n", operations, took.count());
}
