#include "schedule.hpp"

#include <algorithm>
#include <barrier>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace rpa::schedule {

namespace {

constexpr int num_threads = 3;

// Threads that run one loop after the other, each a slice of its iterations.
class Pool {
 public:
  Pool() : random_(1), ends_(num_threads + 1), start_(num_threads + 1), end_(num_threads + 1) {
    for (int thread = 0; thread < num_threads; ++thread) {
      threads_.emplace_back([this, thread] { work(thread); });
    }
  }
  ~Pool() {
    body_ = nullptr;
    start_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }

  void reseed(std::uint64_t seed) { random_.seed(seed); }

  void run(std::int64_t first, std::int64_t last, const std::function<void(std::int64_t)>& body) {
    order_.resize(std::max<std::int64_t>(last - first, 0));
    std::iota(order_.begin(), order_.end(), first);
    std::shuffle(order_.begin(), order_.end(), random_);
    ends_.front() = 0;
    ends_.back() = order_.size();
    for (int thread = 1; thread < num_threads; ++thread)
      ends_[thread] = random_() % (order_.size() + 1);
    std::sort(ends_.begin(), ends_.end());
    body_ = &body;
    start_.arrive_and_wait();
    end_.arrive_and_wait();
  }

  static bool inside() { return inside_; }

 private:
  void work(int thread) {
    inside_ = true;
    for (;;) {
      start_.arrive_and_wait();
      if (body_ == nullptr) return;
      for (std::size_t k = ends_[thread]; k < ends_[thread + 1]; ++k) {
        (*body_)(order_[k]);
        if (order_[k] % 7 == 0) std::this_thread::yield();
      }
      end_.arrive_and_wait();
    }
  }

  static thread_local bool inside_;
  std::mt19937_64 random_;
  std::vector<std::int64_t> order_;
  std::vector<std::size_t> ends_;
  const std::function<void(std::int64_t)>* body_ = nullptr;
  std::barrier<> start_;
  std::barrier<> end_;
  std::vector<std::thread> threads_;
};

thread_local bool Pool::inside_ = false;

Pool& pool() {
  static Pool instance;
  return instance;
}

}  // namespace

void reseed(std::uint64_t seed) { pool().reseed(seed); }

void run(std::int64_t first, std::int64_t last, const std::function<void(std::int64_t)>& body) {
  if (Pool::inside()) {  // a loop within a parallel loop
    for (std::int64_t i = first; i < last; ++i) body(i);
  } else {
    pool().run(first, last, body);
  }
}

}  // namespace rpa::schedule
