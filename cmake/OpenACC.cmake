# The acc backend: which compiler flags make kernels of the pragmas, and a proof that they work.
#
# Sets openacc_flags, needed on compile and on link lines alike. Link-time optimization must be off
# in every target that uses them: it links, and fails when the library is loaded.
set(RLLIB_PER_ACC_NVPTX_ARCH sm_80 CACHE STRING
    "Oldest GPU that the kernels are compiled for; the driver compiles them for newer ones")

if(RLLIB_PER_ACC_OPENACC STREQUAL "gcc-nvptx")
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    message(FATAL_ERROR "RLLIB_PER_ACC_OPENACC=gcc-nvptx needs g++, "
                        "the compiler is ${CMAKE_CXX_COMPILER_ID}")
  endif()
  string(REGEX MATCH "^[0-9]+" gcc "${CMAKE_CXX_COMPILER_VERSION}")
  if(gcc LESS 12)
    message(FATAL_ERROR "RLLIB_PER_ACC_OPENACC=gcc-nvptx needs g++ >= 12, this is ${gcc}")
  endif()
  if(gcc GREATER 12)
    set(arch_flag -march)
  else()
    set(arch_flag -misa)
  endif()
  set(openacc_flags -fopenacc -foffload=nvptx-none -foffload-options=nvptx-none=-O3
                    -foffload-options=nvptx-none=${arch_flag}=${RLLIB_PER_ACC_NVPTX_ARCH})
  if(RLLIB_PER_ACC_SANITIZE)
    set(openacc_flags -fopenacc -foffload=disable)  # no sanitizers on the device: its host fallback
  endif()
elseif(RLLIB_PER_ACC_OPENACC STREQUAL "nvhpc")
  # Not tried: no NVIDIA HPC SDK was at hand. See cmake/nvhpc.cmake.
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "NVHPC")
    message(FATAL_ERROR "RLLIB_PER_ACC_OPENACC=nvhpc needs "
                        "-DCMAKE_TOOLCHAIN_FILE=cmake/nvhpc.cmake, "
                        "the compiler is ${CMAKE_CXX_COMPILER_ID}")
  endif()
  set(openacc_flags -acc=gpu -gpu=nordc)
endif()

# find_package(OpenACC) succeeds without an offload compiler; only linking a kernel shows one.
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/kernel.cpp" "
#include <cstdlib>
int main(int argc, char**) {
  int sum = 0;
#pragma acc parallel loop reduction(+ : sum)
  for (int i = 0; i < argc; ++i) sum += i;
  return sum;
}
")
unset(kernel_links CACHE)
try_compile(kernel_links "${CMAKE_CURRENT_BINARY_DIR}/kernel"
  SOURCES "${CMAKE_CURRENT_BINARY_DIR}/kernel.cpp"
  COMPILE_DEFINITIONS ${openacc_flags}
  LINK_OPTIONS ${openacc_flags}
  OUTPUT_VARIABLE kernel_output)
if(NOT kernel_links)
  if(RLLIB_PER_ACC_OPENACC STREQUAL "gcc-nvptx")
    string(APPEND advice "On Debian and Ubuntu: apt-get install gcc-${gcc}-offload-nvptx "
                         "libgomp-plugin-nvptx1. Or build with RLLIB_PER_ACC_OPENACC=none.")
  endif()
  message(FATAL_ERROR "An OpenACC kernel does not compile and link with ${openacc_flags}. ${advice}\n"
                      "${kernel_output}")
endif()
