// An adversarial schedule for the parallel kernels: the iterations of every loop run in a random
// order, split over real threads that wait for each other at its end. What depends on an order
// within a loop shows as wrong bits, or to ThreadSanitizer.
#pragma once

#include <cstdint>
#include <functional>

namespace rpa::schedule {

// Orders and splits follow from the seed alone; how the threads interleave is up to the machine.
void reseed(std::uint64_t seed);

void run(std::int64_t first, std::int64_t last, const std::function<void(std::int64_t)>& body);

struct Loop {
  std::int64_t first;
  std::int64_t last;
  template <class Body>
  void operator<<(const Body& body) const {
    run(first, last, body);
  }
};

}  // namespace rpa::schedule
