// Random programs over trees: every operation on every kind of tree, against the naive oracle. The
// fuzz target takes its choices from bytes, the soak test from a random number generator.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "check.hpp"
#include "device_tree.hpp"
#include "oracle.hpp"
#include "tree.hpp"
#include "validate.hpp"

namespace rpa {

// Source has next(bound), which gives a choice below `bound`, and empty().
template <class Source>
class Program {
 public:
  explicit Program(Source& source) : source_(source) { make(1 + choose(130)); }

  void step() {
    switch (choose(16)) {
      case 0:
        restore(1 + choose(130));
        break;
      case 1:
        assign();
        break;
      case 2:
      case 3:
        refuse();
        break;
      default:
        if (choose(2) == 0) {
          update();
        } else {
          find();
        }
    }
    check_roots();
  }

 private:
  static constexpr UpdateAlgorithm algorithms[] = {
      UpdateAlgorithm::automatic, UpdateAlgorithm::per_element, UpdateAlgorithm::touched,
      UpdateAlgorithm::rebuild};

  std::int64_t choose(std::int64_t bound) {
    return static_cast<std::int64_t>(source_.next(static_cast<std::uint64_t>(bound)));
  }

  double mass() {
    const double limit = mass_limit(oracle::pad(static_cast<std::int64_t>(leaves_.size())));
    constexpr double tens[] = {1e-300, 1e-12, 1e-3, 1.0, 1e6, 1e300};
    switch (choose(8)) {
      case 0:
      case 1:
        return 0.0;
      case 2:
        return 5e-324;
      case 3:
        return limit;
      default:
        return std::fmin(limit, tens[choose(6)] * (1.0 + static_cast<double>(choose(256)) / 256.0));
    }
  }

  void make(std::int64_t capacity) {
    leaves_.assign(capacity, 0.0);
    hosts_.clear();
    for (int k = 0; k < 4; ++k) hosts_.push_back(std::make_unique<Tree<PairNode>>(capacity));
    device_ = serial::make_device_tree(capacity);
  }

  void update() {
    const std::int64_t n = choose(24), capacity = static_cast<std::int64_t>(leaves_.size());
    std::vector<std::int64_t> indices(n);
    std::vector<double> masses(n);
    for (std::int64_t j = 0; j < n; ++j) {
      indices[j] = j > 0 && choose(3) == 0 ? indices[choose(j)] : choose(capacity);
      masses[j] = mass();
      leaves_[indices[j]] = masses[j];
    }
    CHECK(first_bad_index(indices.data(), n, capacity) == -1);
    CHECK(first_bad_mass(masses.data(), n, mass_limit(hosts_[0]->padded())) == -1);
    for (std::size_t k = 0; k < hosts_.size(); ++k) {
      hosts_[k]->update(indices.data(), masses.data(), n, algorithms[k]);
    }
    device_->update(indices.data(), masses.data(), n, algorithms[choose(4)]);
    std::vector<double> read(n);
    device_->read(indices.data(), read.data(), n);
    for (std::int64_t j = 0; j < n; ++j) CHECK(read[j] == leaves_[indices[j]]);
  }

  void find() {
    const double total = sum();
    if (total == 0.0) return;
    const std::int64_t n = 1 + choose(5);
    std::vector<double> masses(n);
    for (double& m : masses) {
      const double share = static_cast<double>(choose(65536)) / 65536.0;
      const double near = total * (1.0 - std::ldexp(share, -static_cast<int>(choose(54))));
      m = choose(8) == 0 ? std::nextafter(total, choose(2) == 0 ? 0.0 : 1e308) : near;
    }
    std::vector<std::int64_t> found(n), on_device(n);
    device_->find_prefixsum(masses.data(), on_device.data(), n);
    for (const auto& host : hosts_) {
      host->find_prefixsum(masses.data(), found.data(), n);
      CHECK(found == on_device);
    }
    for (std::int64_t j = 0; j < n; ++j) {
      CHECK(found[j] == oracle::find(leaves_, masses[j]));
      CHECK(leaves_[found[j]] > 0.0);
    }
  }

  void assign() {
    const std::int64_t n = choose(static_cast<std::int64_t>(leaves_.size()) + 1);
    std::vector<double> values(n);
    for (double& value : values) value = mass();
    write_all(values);
  }

  // A tree of another capacity that holds as many of the leaves as fit.
  void restore(std::int64_t capacity) {
    std::vector<double> kept(leaves_.size());
    device_->read_all(kept.data());
    CHECK(kept == leaves_);
    make(capacity);
    kept.resize(std::min<std::size_t>(kept.size(), leaves_.size()));
    const double limit = mass_limit(hosts_[0]->padded());
    for (double& value : kept) value = std::fmin(value, limit);
    write_all(kept);
  }

  void write_all(const std::vector<double>& values) {
    const auto n = static_cast<std::int64_t>(values.size());
    std::fill(leaves_.begin(), leaves_.end(), 0.0);
    std::copy(values.begin(), values.end(), leaves_.begin());
    for (const auto& host : hosts_) host->assign(values.data(), n);
    device_->assign(values.data(), n);
  }

  // What validation must refuse, wherever it stands in a batch.
  void refuse() {
    const std::int64_t n = 1 + choose(40), at = choose(n);
    const double limit = mass_limit(hosts_[0]->padded());
    const auto capacity = static_cast<std::int64_t>(leaves_.size());
    std::vector<double> masses(n, 1.0);
    const double bad_masses[] = {std::nan(""), -1.0, oracle::infinity, -5e-324,
                                 std::nextafter(limit, oracle::infinity)};
    masses[at] = bad_masses[choose(5)];
    CHECK(first_bad_mass(masses.data(), n, limit) == at);
    std::vector<std::int64_t> indices(n, 0);
    const std::int64_t bad_indices[] = {-1, capacity, std::int64_t{1} << 40,
                                        std::numeric_limits<std::int64_t>::min()};
    indices[at] = bad_indices[choose(4)];
    CHECK(first_bad_index(indices.data(), n, capacity) == at);
  }

  double sum() const { return oracle::sum(leaves_, 0, hosts_[0]->padded()); }

  void check_roots() {
    const double total = sum(), least = oracle::min_present(leaves_);
    for (const auto& host : hosts_) {
      CHECK(host->root().sum == total && min_of_key(host->root().min_key) == least);
    }
    CHECK(device_->root().sum == total && min_of_key(device_->root().min_key) == least);
  }

  Source& source_;
  std::vector<double> leaves_;
  std::vector<std::unique_ptr<Tree<PairNode>>> hosts_;
  std::unique_ptr<DeviceTree> device_;
};

}  // namespace rpa
