// An array with a copy on the device that lives exactly as long as it does.
#pragma once

#include <cstdint>

#include "device_use.hpp"
#include "page_array.hpp"
#include "parallel.hpp"

namespace rpa::RPA_BACKEND {

// `count` elements of T, uninitialized on the device. The host's pages are reserved only: what is
// never transferred takes no memory there.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::int64_t count) : host_(count), count_(count) {
    T* data = host_.data();
    (void)data;
#pragma acc enter data create(data[0 : count])
  }
  ~DeviceArray() {
    if (lost_to_fork()) return;
    T* data = host_.data();
    (void)data;
#pragma acc exit data delete (data[0 : count_])
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return host_.data(); }

  // Elements [first, first + n) go to the device, in order with the kernels around it.
  void to_device(std::int64_t first, std::int64_t n) const {
    T* data = host_.data();
    (void)data, (void)first, (void)n;
#pragma acc update device(data[first : n]) async(1)
  }
  // The same elements come back; the host may read them after wait().
  void to_host(std::int64_t first, std::int64_t n) const {
    T* data = host_.data();
    (void)data, (void)first, (void)n;
#pragma acc update self(data[first : n]) async(1)
  }

 private:
  PageArray<T> host_;
  std::int64_t count_;
};

}  // namespace rpa::RPA_BACKEND
