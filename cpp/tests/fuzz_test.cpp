// A libFuzzer target: the input is a program over the trees (program.hpp).
#include <cstddef>
#include <cstdint>

#include "program.hpp"

namespace {

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ == size_; }
  std::uint64_t next(std::uint64_t bound) {
    std::uint64_t value = byte();
    if (bound > 256) value = value << 8 | byte();
    return value % bound;
  }

 private:
  std::uint64_t byte() { return at_ < size_ ? data_[at_++] : 0; }

  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  rpa::Program program(bytes);
  while (!bytes.empty()) program.step();
  return 0;
}
