#include "copy_bandwidth.hpp"

#include <algorithm>

#include "device_array.hpp"
#include "kernels.hpp"
#include "stopwatch.hpp"

namespace rpa::acc {

namespace {

void copy(const double* from, double* to, std::int64_t count) {
#pragma acc parallel loop present(from[0 : count], to[0 : count]) async(1)
  RPA_FOR(i, 0, count) { to[i] = from[i]; };
}

template <class Call>
double bytes_per_nanosecond(std::int64_t bytes, Call call) {
  std::vector<double> seconds;
  call();
  for (int repeat = 0; repeat < 7; ++repeat) {
    const Stopwatch watch;
    call();
    seconds.push_back(watch.seconds());
  }
  return 1e-9 * static_cast<double>(bytes) / median(seconds);
}

}  // namespace

CopyBandwidth copy_bandwidth(std::int64_t count) {
  const DeviceArray<double> a(count), b(count);
  std::fill_n(a.data(), count, 1.0);
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(double));
  CopyBandwidth result;
  result.to_device = bytes_per_nanosecond(bytes, [&] {
    a.to_device(0, count);
    wait();
  });
  result.on_device = bytes_per_nanosecond(2 * bytes, [&] {
    copy(a.data(), b.data(), count);
    wait();
  });
  result.to_host = bytes_per_nanosecond(bytes, [&] {
    b.to_host(0, count);
    wait();
  });
  return result;
}

}  // namespace rpa::acc
