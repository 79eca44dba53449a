// The one implementation of DeviceTree, compiled once per backend (RPA_BACKEND).
#include "device_tree.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "device_array.hpp"
#include "device_use.hpp"
#include "kernels.hpp"

namespace rpa::RPA_BACKEND {

namespace {

class Implementation final : public DeviceTree {
 public:
  explicit Implementation(std::int64_t capacity)
      : DeviceTree(capacity),
        nodes_(2 * padded_),
        claims_(2 * padded_),
        items_(piece()),
        touched_(piece()),
        indices_(piece()),
        masses_(piece()) {
    traffic_.allocations = 6;
    clear(nodes_.data(), claims_.data(), 2 * padded_);
    launched(1);
    wait();
  }

  bool lost() const override { return lost_to_fork(); }

  void update(const std::int64_t* indices, const double* masses, std::int64_t n,
              UpdateAlgorithm algorithm) override {
    pieces(n, [&](std::int64_t first, std::int64_t count) {
      update_piece(indices + first, masses + first, count, algorithm);
    });
  }

  void find_prefixsum(const double* masses, std::int64_t* indices, std::int64_t n) const override {
    pieces(n, [&](std::int64_t first, std::int64_t count) {
      std::copy_n(masses + first, count, masses_.data());
      send(masses_, count);
      descend_all(nodes_.data(), padded_, masses_.data(), indices_.data(), count);
      launched(1);
      receive(indices_, 0, count);
      std::copy_n(indices_.data(), count, indices + first);
    });
  }

  void read(const std::int64_t* indices, double* masses, std::int64_t n) const override {
    pieces(n, [&](std::int64_t first, std::int64_t count) {
      std::copy_n(indices + first, count, indices_.data());
      send(indices_, count);
      read_leaves(nodes_.data(), padded_, indices_.data(), masses_.data(), count);
      launched(1);
      receive(masses_, 0, count);
      std::copy_n(masses_.data(), count, masses + first);
    });
  }

  void read_all(double* masses) const override {
    pieces(capacity_, [&](std::int64_t first, std::int64_t count) {
      read_range(nodes_.data(), padded_, first, masses_.data(), count);
      launched(1);
      receive(masses_, 0, count);
      std::copy_n(masses_.data(), count, masses + first);
    });
  }

  void assign(const double* masses, std::int64_t n) override {
    pieces(n, [&](std::int64_t first, std::int64_t count) {
      wait();  // the staging array is still being read from the piece before
      std::copy_n(masses + first, count, masses_.data());
      send(masses_, count);
      write_range(nodes_.data(), padded_, first, masses_.data(), count);
      launched(1);
    });
    if (n < capacity_) {
      empty_range(nodes_.data(), padded_, n, capacity_);
      launched(1);
    }
    combine_whole(levels());
    receive_root();
  }

  void read_nodes(PairNode* nodes) const override {
    receive(nodes_, 0, 2 * padded_);
    std::copy_n(nodes_.data(), 2 * padded_, nodes);
  }

 private:
  template <class Work>
  void pieces(std::int64_t n, Work work) const {
    for (std::int64_t first = 0; first < n; first += piece()) {
      work(first, std::min(piece(), n - first));
    }
  }

  void update_piece(const std::int64_t* indices, const double* masses, std::int64_t n,
                    UpdateAlgorithm algorithm) {
    for (std::int64_t j = 0; j < n; ++j) items_.data()[j] = Item{indices[j], masses[j]};
    send(items_, n);
    round_ += std::int64_t{1} << position_bits;
    const bool rebuild = algorithm == UpdateAlgorithm::rebuild;
    // The levels of up to 2^(swept - 1) nodes are combined whole, those below only where touched.
    const std::int64_t widest =
        algorithm == UpdateAlgorithm::touched ? fused_width : std::max(n, fused_width);
    const std::int64_t swept = std::min(levels(), bit_width(widest));
    if (rebuild || n > small_batch) {
      claim_leaves(claims_.data(), padded_, items_.data(), n, round_);
      write_leaves(nodes_.data(), claims_.data(), padded_, items_.data(), n, round_,
                   touched_.data());
      launched(2);
    }
    if (rebuild) {
      combine_all();
    } else if (n <= small_batch) {
      update_in_one_launch(nodes_.data(), claims_.data(), padded_, items_.data(), n, round_,
                           touched_.data(), levels() - swept, swept);
      launched(1);
    } else {
      RPA_LEVELS(level, 0, levels() - swept) {
        combine_touched_level(nodes_.data(), claims_.data(), padded_, n, round_, touched_.data());
      };
      launched(levels() - swept);
      combine_whole(swept);
    }
    receive_root();
  }

  static std::int64_t bit_width(std::int64_t value) {
    return std::bit_width(static_cast<std::uint64_t>(value));
  }

  // Levels of inner nodes.
  std::int64_t levels() const { return bit_width(padded_) - 1; }

  // The topmost `count` levels whole, those that are narrow in one launch.
  void combine_whole(std::int64_t count) {
    for (; count > bit_width(fused_width); --count) {
      combine_level(nodes_.data(), std::int64_t{1} << (count - 1));
      launched(1);
    }
    if (count > 0) {
      combine_top(nodes_.data(), count);
      launched(1);
    }
  }

  // Every level, wide or narrow, one launch each.
  void combine_all() {
    RPA_LEVELS(level, 0, levels()) { combine_level(nodes_.data(), padded_ >> (level + 1)); };
    launched(levels());
  }

  void receive_root() {
    receive(nodes_, 1, 1);
    root_ = nodes_.data()[1];
  }

  template <class T>
  void send(const DeviceArray<T>& array, std::int64_t n) const {
    array.to_device(0, n);
    ++traffic_.transfers_in;
    traffic_.bytes_in += n * static_cast<std::int64_t>(sizeof(T));
  }

  template <class T>
  void receive(const DeviceArray<T>& array, std::int64_t first, std::int64_t n) const {
    array.to_host(first, n);
    ++traffic_.transfers_out;
    traffic_.bytes_out += n * static_cast<std::int64_t>(sizeof(T));
    wait();
  }

  void launched(std::int64_t kernels) const { traffic_.launches += kernels; }

  DeviceArray<PairNode> nodes_;
  DeviceArray<std::int64_t> claims_;
  DeviceArray<Item> items_;
  DeviceArray<std::int64_t> touched_;
  DeviceArray<std::int64_t> indices_;
  DeviceArray<double> masses_;
  std::int64_t round_ = 0;
};

}  // namespace

std::unique_ptr<DeviceTree> make_device_tree(std::int64_t capacity) {
  if (!claim_device(DeviceTree::bytes_for(capacity))) throw std::bad_alloc();
  return std::make_unique<Implementation>(capacity);
}

}  // namespace rpa::RPA_BACKEND
