#include "prefix_sums.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "device_array.hpp"
#include "device_use.hpp"
#include "kernels.hpp"

namespace rpa {

std::size_t PrefixSums::bytes_for(std::int64_t size, std::int64_t longest) {
  const auto n = static_cast<std::size_t>(size), m = static_cast<std::size_t>(longest);
  return 2 * n * (sizeof(SumNode) + sizeof(std::int64_t) + sizeof(double)) +
         m * (sizeof(Item) + 2 * sizeof(std::int64_t) + sizeof(double));
}

namespace RPA_BACKEND {

namespace {

// before[i], the sum of all leaves left of node i, from the level above: Blelloch's down-sweep.
void sweep_down(const SumNode* nodes, double* before, std::int64_t width) {
#pragma acc parallel loop present(nodes[0 : 4 * width], before[0 : 4 * width]) async(1)
  RPA_FOR(i, width, 2 * width) {
    before[2 * i] = before[i];
    before[2 * i + 1] = before[i] + nodes[2 * i].sum;
  };
}

void sweep_down_top(const SumNode* nodes, double* before, std::int64_t levels) {
#pragma acc parallel num_gangs(1) num_workers(1) vector_length(1024) \
    present(nodes[0 : std::int64_t{2} << levels], before[0 : std::int64_t{2} << levels]) async(1)
  {
    before[1] = 0.0;
#pragma acc loop seq
    RPA_LEVELS(level, 0, levels) {
      const std::int64_t width = std::int64_t{1} << level;
#pragma acc loop vector
      RPA_FOR(i, width, 2 * width) {
        before[2 * i] = before[i];
        before[2 * i + 1] = before[i] + nodes[2 * i].sum;
      };
    };
  }
}

// The last leaf with no more than the mass before it.
void search(const double* before, std::int64_t size, const double* masses, std::int64_t* found,
            std::int64_t n) {
#pragma acc parallel loop present(before[0 : 2 * size], masses[0 : n], found[0 : n]) async(1)
  RPA_FOR(j, 0, n) {
    std::int64_t first = 0;
    std::int64_t last = size;
    while (last - first > 1) {
      const std::int64_t middle = (first + last) / 2;
      if (before[size + middle] <= masses[j]) {
        first = middle;
      } else {
        last = middle;
      }
    }
    found[j] = first;
  };
}

class Implementation final : public PrefixSums {
 public:
  Implementation(std::int64_t size, std::int64_t longest)
      : size_(size),
        nodes_(2 * size),
        claims_(2 * size),
        before_(2 * size),
        items_(longest),
        touched_(longest),
        indices_(longest),
        masses_(longest),
        longest_(longest) {
    clear(nodes_.data(), claims_.data(), 2 * size_);
    wait();
  }

  void update(const std::int64_t* indices, const double* masses, std::int64_t n) override {
    for (std::int64_t j = 0; j < n; ++j) items_.data()[j] = Item{indices[j], masses[j]};
    items_.to_device(0, n);
    round_ += std::int64_t{1} << 32;
    claim_leaves(claims_.data(), size_, items_.data(), n, round_);
    write_leaves(nodes_.data(), claims_.data(), size_, items_.data(), n, round_, touched_.data());
    scan();
  }

  void find(const double* masses, std::int64_t* indices, std::int64_t n) const override {
    std::copy_n(masses, n, masses_.data());
    masses_.to_device(0, n);
    search(before_.data(), size_, masses_.data(), indices_.data(), n);
    indices_.to_host(0, n);
    wait();
    std::copy_n(indices_.data(), n, indices);
  }

  void assign(const double* values) override {
    for (std::int64_t first = 0; first < size_; first += longest_) {
      const std::int64_t n = std::min(longest_, size_ - first);
      std::copy_n(values + first, n, masses_.data());
      masses_.to_device(0, n);
      write_range(nodes_.data(), size_, first, masses_.data(), n);
      wait();
    }
    scan();
  }

 private:
  void scan() {
    const auto levels =
        static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(size_)) - 1);
    const std::int64_t top =
        std::min<std::int64_t>(levels, std::bit_width(static_cast<std::uint64_t>(fused_width)));
    for (std::int64_t level = levels; level > top; --level) {
      combine_level(nodes_.data(), std::int64_t{1} << (level - 1));
    }
    combine_top(nodes_.data(), top);
    sweep_down_top(nodes_.data(), before_.data(), top);
    for (std::int64_t level = top; level < levels; ++level) {
      sweep_down(nodes_.data(), before_.data(), std::int64_t{1} << level);
    }
    wait();
  }

  std::int64_t size_;
  DeviceArray<SumNode> nodes_;
  DeviceArray<std::int64_t> claims_;
  DeviceArray<double> before_;
  DeviceArray<Item> items_;
  DeviceArray<std::int64_t> touched_;
  DeviceArray<std::int64_t> indices_;
  DeviceArray<double> masses_;
  std::int64_t longest_;
  std::int64_t round_ = 0;
};

}  // namespace

std::unique_ptr<PrefixSums> make_prefix_sums(std::int64_t size, std::int64_t longest) {
  if (!claim_device(PrefixSums::bytes_for(size, longest))) throw std::bad_alloc();
  return std::make_unique<Implementation>(size, longest);
}

}  // namespace RPA_BACKEND
}  // namespace rpa
