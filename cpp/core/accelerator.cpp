#include "accelerator.hpp"

#include <openacc.h>
#include <pthread.h>
#include <strings.h>

#include <atomic>
#include <cstdlib>

#include "device_use.hpp"

namespace rpa::acc {

namespace {

// The runtime reads its variables when it is loaded, so later changes must not count here either.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const std::string device_type = variable("ACC_DEVICE_TYPE");
const std::string device_number = variable("ACC_DEVICE_NUM");

bool is(const std::string& value, const char* other) {
  return strcasecmp(value.c_str(), other) == 0;
}

std::atomic<bool> forked = false;

// Counting them starts CUDA where there are any; a child of this process cannot use it then.
int count_devices() {
  static const int count = [] {
    const int found = acc_get_num_devices(acc_device_nvidia);
    if (found > 0) pthread_atfork(nullptr, nullptr, [] { forked = true; });
    return found;
  }();
  return count;
}

int device() {
  return device_number.empty() ? 0
                               : static_cast<int>(std::strtol(device_number.c_str(), nullptr, 10));
}

std::string text(acc_device_property_t property) {
  const char* value = acc_get_property_string(device(), acc_device_nvidia, property);
  return value == nullptr ? "" : value;
}

std::int64_t bytes(acc_device_property_t property) {
  return static_cast<std::int64_t>(acc_get_property(device(), acc_device_nvidia, property));
}

}  // namespace

std::string device_problem() {
  if (lost_to_fork()) {
    return "this process was forked from one that has used the GPU, which CUDA does not allow: "
           "start it with 'spawn' or 'forkserver'";
  }
  if (!device_type.empty() && !is(device_type, "nvidia")) {
    return "ACC_DEVICE_TYPE is '" + device_type + "', which keeps OpenACC off the GPU: unset it";
  }
  const int count = count_devices();
  if (count < 1) return "the OpenACC runtime finds no NVIDIA device";
  if (!device_number.empty()) {
    char* end = nullptr;
    const long number = std::strtol(device_number.c_str(), &end, 10);
    if (*end != '\0' || number < 0 || number >= count) {
      return "ACC_DEVICE_NUM is '" + device_number + "': expected 0 <= number < " +
             std::to_string(count) + ", the number of devices";
    }
  }
  return "";
}

std::string host_problem() {
  if (!device_type.empty() && !is(device_type, "host")) {
    return "ACC_DEVICE_TYPE is '" + device_type + "', so OpenACC would end the process: unset it";
  }
  if (device_type.empty() && count_devices() > 0) return "there is a GPU to run on";
  return "";
}

Accelerator accelerator() {
  return {text(acc_property_name), text(acc_property_driver), bytes(acc_property_memory),
          bytes(acc_property_free_memory)};
}

bool kernels_run_on_device() {
  int on_device = 0;
#pragma acc parallel copy(on_device)
  on_device = acc_on_device(acc_device_not_host);
  return on_device != 0;
}

bool claim_device(std::size_t wanted) {
  if (!device_problem().empty()) return true;  // the host's memory, which is asked for as usual
  const std::int64_t available = bytes(acc_property_free_memory);
  // The runtime and its kernels take some of it too. A driver that does not say gives 0.
  constexpr std::int64_t reserve = std::int64_t{64} << 20;
  return available == 0 || static_cast<std::int64_t>(wanted) <= available - reserve;
}

bool lost_to_fork() { return forked; }

}  // namespace rpa::acc
