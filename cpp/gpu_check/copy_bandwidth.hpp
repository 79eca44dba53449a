// How fast bytes move: the limit of everything that a GPU tree does.
#pragma once

#include <cstdint>

namespace rpa::acc {

// In 10^9 bytes per second; medians.
struct CopyBandwidth {
  double to_device = 0;
  double to_host = 0;
  double on_device = 0;  // read and written bytes of one array copied to another
};

// Copies arrays of `count` doubles.
CopyBandwidth copy_bandwidth(std::int64_t count);

}  // namespace rpa::acc
