// What a call to a tree makes GCC's OpenACC runtime ask of the driver, against the tree's counts.
#include "fake_cuda/fake_cuda.hpp"

#include <dlfcn.h>

#include <cstdio>

#include "accelerator.hpp"
#include "batches.hpp"
#include "check.hpp"
#include "device_tree.hpp"

namespace {

FakeCudaCounts driver_counts() {
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(driver != nullptr);
  static const auto counts =
      reinterpret_cast<FakeCudaCounts (*)()>(dlsym(driver, "fake_cuda_counts"));
  CHECK(counts != nullptr);
  return counts();
}

FakeCudaCounts during(const char* what, auto call) {
  const FakeCudaCounts before = driver_counts();
  call();
  FakeCudaCounts spent = driver_counts();
  spent.launches -= before.launches;
  spent.allocations -= before.allocations;
  spent.frees -= before.frees;
  spent.copies_in -= before.copies_in;
  spent.copies_out -= before.copies_out;
  spent.bytes_in -= before.bytes_in;
  spent.bytes_out -= before.bytes_out;
  std::printf(
      "%-8s %3ld launches, %3ld allocations, %3ld frees, in %3ld x %6lu bytes, out %ld x %lu\n",
      what, spent.launches, spent.allocations, spent.frees, spent.copies_in, spent.bytes_in,
      spent.copies_out, spent.bytes_out);
  return spent;
}

}  // namespace

int main() {
  CHECK(rpa::acc::device_problem().empty());
  CHECK(rpa::acc::accelerator().name == "fake device");
  std::mt19937_64 random(1);
  const std::int64_t capacity = 100000, n = 512;
  const auto tree = rpa::acc::make_device_tree(capacity);
  const rpa::RandomBatch batch(n, capacity, random);
  std::vector<std::int64_t> found(n);
  const auto update = [&] { tree->update(batch.indices.data(), batch.masses.data(), n); };
  const auto find = [&] { tree->find_prefixsum(batch.masses.data(), found.data(), n); };
  const auto check = [&](const char* what, auto call, std::uint64_t in, std::uint64_t out) {
    const rpa::Traffic before = tree->traffic();
    const FakeCudaCounts spent = during(what, call);
    const std::int64_t launches = tree->traffic().launches - before.launches;
    CHECK(launches > 0 && spent.launches == launches);
    CHECK(spent.copies_out == 1 && spent.bytes_out == out);
    // GCC 12 itself allocates, copies and frees a block of addresses and one of loop bounds for
    // every launch. Nothing else is allocated, and nothing stays.
    CHECK(spent.allocations <= 2 * launches && spent.frees == spent.allocations);
    CHECK(spent.bytes_in >= in && spent.bytes_in <= in + 256 * launches);
  };
  const std::uint64_t bytes = n;
  for (int round = 0; round < 3; ++round) {
    check("update", update, bytes * 16, 16);
    check("find", find, bytes * 8, bytes * 8);
  }
}
