#include <algorithm>
#include <bit>

#include "device_tree.hpp"
#include "item.hpp"

namespace rpa {

namespace {

std::int64_t pad(std::int64_t capacity) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(capacity)));
}

std::int64_t piece_of(std::int64_t padded) {
  return std::clamp<std::int64_t>(padded, 4096, std::int64_t{1} << DeviceTree::position_bits);
}

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  launches += other.launches;
  transfers_in += other.transfers_in;
  transfers_out += other.transfers_out;
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
  allocations += other.allocations;
  return *this;
}

DeviceTree::DeviceTree(std::int64_t capacity) : capacity_(capacity), padded_(pad(capacity)) {}

std::int64_t DeviceTree::piece() const { return piece_of(padded_); }

std::size_t DeviceTree::bytes_for(std::int64_t capacity) {
  const auto padded = static_cast<std::size_t>(pad(capacity));
  const auto piece = static_cast<std::size_t>(piece_of(pad(capacity)));
  return 2 * padded * (sizeof(PairNode) + sizeof(std::int64_t)) +
         piece * (sizeof(Item) + 2 * sizeof(std::int64_t) + sizeof(double));
}

}  // namespace rpa
