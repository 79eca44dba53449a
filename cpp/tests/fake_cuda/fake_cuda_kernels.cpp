// Exports this program's kernels, as GCC compiles them for the host, to the stand-in for the
// driver: the table that the OpenACC runtime is given too.
#include <cstddef>

#include "fake_cuda.hpp"

extern "C" {
extern void* __offload_func_table[];
extern void* __offload_funcs_end[];

FakeCudaKernel* fake_cuda_kernels(std::size_t* count) {
  *count = static_cast<std::size_t>(__offload_funcs_end - __offload_func_table);
  return reinterpret_cast<FakeCudaKernel*>(__offload_func_table);
}
}
