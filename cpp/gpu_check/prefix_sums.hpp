// What people do instead of a tree on a GPU: all prefix sums anew after every batch of updates, and
// a binary search in them. Only for comparison. On the device, like DeviceTree.
#pragma once

#include <cstdint>
#include <memory>

namespace rpa {

class PrefixSums {
 public:
  virtual ~PrefixSums() = default;

  // As in DeviceTree; batches of at most `longest` items, the last of duplicates wins.
  virtual void update(const std::int64_t* indices, const double* masses, std::int64_t n) = 0;
  virtual void find(const double* masses, std::int64_t* indices, std::int64_t n) const = 0;
  // All leaves; `values` are as many as the tree has.
  virtual void assign(const double* values) = 0;

  static std::size_t bytes_for(std::int64_t size, std::int64_t longest);
};

namespace acc {
// `size` leaves, a power of two. Throws std::bad_alloc where the device has not enough memory.
std::unique_ptr<PrefixSums> make_prefix_sums(std::int64_t size, std::int64_t longest);
}  // namespace acc

}  // namespace rpa
