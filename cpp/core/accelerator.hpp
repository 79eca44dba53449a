// The OpenACC device as the process sees it: accelerator.cpp is the one file that includes
// <openacc.h>.
#pragma once

#include <cstdint>
#include <string>

namespace rpa::acc {

struct Accelerator {
  std::string name;
  std::string driver;
  std::int64_t memory = 0;
  std::int64_t free_memory = 0;
};

// Why kernels would not run on a GPU, or "". It starts the OpenACC runtime, which looks for its
// plugin and the driver, but runs nothing. The runtime ends the process where it is told to use a
// device that is not there, so this must be asked before anything is made for a device.
std::string device_problem();

// Why kernels cannot run on the host either, or "": they do where there is no GPU, unless the
// environment demands one.
std::string host_problem();

// The device; needs device_problem() == "".
Accelerator accelerator();

// Runs a kernel that says where it ran.
bool kernels_run_on_device();

}  // namespace rpa::acc
