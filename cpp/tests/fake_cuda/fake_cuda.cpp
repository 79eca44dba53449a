// A stand-in for libcuda.so.1: one device whose memory is memory of this process, apart from what
// the program calls the host's. GCC's real OpenACC runtime and plugin run on top of it, so that a
// transfer that is missing shows as wrong bits, and every call to the driver can be counted.
//
// It cannot run PTX. A program that exports fake_cuda_kernels() has its kernels run by the host
// function that GCC compiles from the same loop: it takes the same argument, an array of addresses.
// In other programs a launch does nothing.
//
// FAKE_CUDA_INIT is what cuInit returns (100: no device), FAKE_CUDA_DEVICES how many devices there
// are.
//
// Written from the public CUDA driver API, as far as GCC 12's plugin calls it.
#include "fake_cuda.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

using Result = int;
using Pointer = std::uint64_t;

namespace {

constexpr Result success = 0, invalid_value = 1, out_of_memory = 2, not_found = 500;
constexpr std::uint64_t total_memory = std::uint64_t{1} << 30;

std::mutex mutex;
FakeCudaCounts counts;
std::map<std::uintptr_t, std::size_t> blocks;
std::uint64_t used_memory = 0;
std::uint64_t next_function = 0;
int context_token;
thread_local void* current_context = nullptr;

int setting(const char* name, int fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : std::atoi(value);
}

// Whether [address, address + bytes) lies in one block of device memory.
bool on_device(Pointer address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  auto block = blocks.upper_bound(address);
  if (block == blocks.begin()) return false;
  --block;
  return address + bytes <= block->first + block->second;
}

Result to_device(Pointer to, const void* from, std::size_t bytes) {
  if (!on_device(to, bytes)) return invalid_value;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  ++counts.copies_in;
  counts.bytes_in += bytes;
  return success;
}

Result to_host(void* to, Pointer from, std::size_t bytes) {
  if (!on_device(from, bytes)) return invalid_value;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  ++counts.copies_out;
  counts.bytes_out += bytes;
  return success;
}

}  // namespace

extern "C" {

FakeCudaCounts fake_cuda_counts() { return counts; }

Result cuInit(unsigned) { return setting("FAKE_CUDA_INIT", success); }
Result cuDriverGetVersion(int* version) {
  *version = 12000;
  return success;
}
Result cuGetErrorString(Result, const char** text) {
  *text = "an error of the fake driver";
  return success;
}
Result cuDeviceGetCount(int* count) {
  *count = setting("FAKE_CUDA_DEVICES", 1);
  return success;
}
Result cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return success;
}
Result cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "fake device", static_cast<std::size_t>(size));
  return success;
}
Result cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = total_memory;
  return success;
}
Result cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int max_threads_per_block = 1, registers_per_block = 12, multiprocessors = 16;
  constexpr int warp_size = 10, threads_per_multiprocessor = 39;
  *value = attribute == warp_size                    ? 32
           : attribute == max_threads_per_block      ? 1024
           : attribute == registers_per_block        ? 65536
           : attribute == multiprocessors            ? 8
           : attribute == threads_per_multiprocessor ? 2048
                                                     : 1;
  return success;
}

Result cuCtxCreate_v2(void** context, unsigned, int) {
  *context = current_context = &context_token;
  return success;
}
Result cuCtxDestroy_v2(void*) { return success; }
Result cuCtxGetCurrent(void** context) {
  *context = current_context;
  return success;
}
Result cuCtxGetDevice(int* device) {
  *device = 0;
  return success;
}
Result cuCtxPushCurrent_v2(void* context) {
  current_context = context;
  return success;
}
Result cuCtxPopCurrent_v2(void** context) {
  if (context != nullptr) *context = current_context;
  current_context = nullptr;
  return success;
}
Result cuCtxSynchronize() { return success; }

Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = total_memory - used_memory;
  *total = total_memory;
  return success;
}
Result cuMemAlloc_v2(Pointer* address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  if (used_memory + bytes > total_memory) return out_of_memory;
  void* block = std::malloc(bytes);
  std::memset(block, 0xAB, bytes);  // what nobody wrote is no tree
  *address = reinterpret_cast<Pointer>(block);
  blocks[*address] = bytes;
  used_memory += bytes;
  ++counts.allocations;
  return success;
}
Result cuMemFree_v2(Pointer address) {
  const std::lock_guard lock(mutex);
  const auto block = blocks.find(address);
  if (block == blocks.end()) return invalid_value;
  used_memory -= block->second;
  blocks.erase(block);
  std::free(reinterpret_cast<void*>(address));
  ++counts.frees;
  return success;
}
Result cuMemAllocHost_v2(void** address, std::size_t bytes) {
  *address = std::malloc(bytes);
  return success;
}
Result cuMemFreeHost(void* address) {
  std::free(address);
  return success;
}
Result cuMemGetAddressRange_v2(Pointer* base, std::size_t* bytes, Pointer address) {
  const std::lock_guard lock(mutex);
  auto block = blocks.upper_bound(address);
  if (block == blocks.begin()) return invalid_value;
  --block;
  if (address >= block->first + block->second) return not_found;
  *base = block->first;
  *bytes = block->second;
  return success;
}
Result cuMemHostGetDevicePointer_v2(Pointer* address, void* host, unsigned) {
  *address = reinterpret_cast<Pointer>(host);
  return success;
}
Result cuMemcpy(Pointer to, Pointer from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return success;
}
Result cuMemcpyHtoD_v2(Pointer to, const void* from, std::size_t n) {
  return to_device(to, from, n);
}
Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t n, void*) {
  return to_device(to, from, n);
}
Result cuMemcpyDtoH_v2(void* to, Pointer from, std::size_t n) { return to_host(to, from, n); }
Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t n, void*) {
  return to_host(to, from, n);
}
Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t bytes, void*) {
  return cuMemcpy(to, from, bytes);
}

Result cuLinkCreate_v2(unsigned, int*, void**, void** state) {
  *state = &context_token;
  return success;
}
Result cuLinkCreate(unsigned, int*, void**, void** state) {
  return cuLinkCreate_v2(0, nullptr, nullptr, state);
}
Result cuLinkAddData_v2(void*, int, void*, std::size_t, const char*, unsigned, int*, void**) {
  return success;
}
Result cuLinkAddData(void*, int, void*, std::size_t, const char*, unsigned, int*, void**) {
  return success;
}
Result cuLinkComplete(void*, void** binary, std::size_t* bytes) {
  *binary = &context_token;
  *bytes = sizeof context_token;
  return success;
}
Result cuLinkDestroy(void*) { return success; }
Result cuModuleLoad(void** module, const char*) {
  *module = &context_token;
  return success;
}
Result cuModuleLoadData(void** module, const void*) { return cuModuleLoad(module, nullptr); }
Result cuModuleUnload(void*) { return success; }
Result cuModuleGetGlobal_v2(Pointer*, std::size_t*, void*, const char*) { return not_found; }

// The plugin asks for the kernels in the order of the program's table of host functions.
Result cuModuleGetFunction(std::uint64_t* function, void*, const char*) {
  *function = ++next_function;
  return success;
}
Result cuFuncGetAttribute(int* value, int attribute, std::uint64_t) {
  constexpr int max_threads_per_block = 0;
  *value = attribute == max_threads_per_block ? 1024 : 32;
  return success;
}
Result cuOccupancyMaxPotentialBlockSize(int* grid, int* block, std::uint64_t, void*, std::size_t,
                                        int) {
  *grid = 16;
  *block = 1024;
  return success;
}
Result cuLaunchKernel(std::uint64_t function, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, unsigned, void*, void** arguments, void**) {
  ++counts.launches;
  static const auto kernels =
      reinterpret_cast<FakeCudaKernel* (*)(std::size_t*)>(dlsym(RTLD_DEFAULT, "fake_cuda_kernels"));
  if (kernels == nullptr) return success;
  std::size_t count = 0;
  FakeCudaKernel* table = kernels(&count);
  if (function == 0 || function > count) return invalid_value;
  table[function - 1](*static_cast<void**>(arguments[0]));
  return success;
}

Result cuStreamCreate(void** stream, unsigned) {
  *stream = &context_token;
  return success;
}
Result cuStreamDestroy_v2(void*) { return success; }
Result cuStreamQuery(void*) { return success; }
Result cuStreamSynchronize(void*) { return success; }
Result cuStreamWaitEvent(void*, void*, unsigned) { return success; }
Result cuStreamAddCallback(void* stream, void (*callback)(void*, Result, void*), void* data,
                           unsigned) {
  callback(stream, success, data);
  return success;
}
Result cuEventCreate(void** event, unsigned) {
  *event = &context_token;
  return success;
}
Result cuEventDestroy_v2(void*) { return success; }
Result cuEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 0.0f;
  return success;
}
Result cuEventQuery(void*) { return success; }
Result cuEventRecord(void*, void*) { return success; }
Result cuEventSynchronize(void*) { return success; }

}  // extern "C"
