// What the stand-in for the driver counts, and what it takes to run kernels.
#pragma once

#include <cstdint>

struct FakeCudaCounts {
  std::int64_t launches = 0;
  std::int64_t allocations = 0;
  std::int64_t frees = 0;
  std::int64_t copies_in = 0;
  std::int64_t copies_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
};

using FakeCudaKernel = void (*)(void* arguments);
