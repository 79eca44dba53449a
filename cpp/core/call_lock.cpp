#include "call_lock.hpp"

#if __has_include(<pthread.h>)
#include <pthread.h>
#endif

namespace rpa {

struct AllCallLocks {
  std::mutex mutex;
  CallLock* newest = nullptr;

  // They do not end: a thread may be in a call when the process does.
  static AllCallLocks& get() {
    static AllCallLocks& all = *new AllCallLocks;
    return all;
  }

  AllCallLocks() {
#if __has_include(<pthread.h>)
    pthread_atfork([] { get().take(); }, [] { get().give_back(); }, [] { get().give_back(); });
#endif
  }

  void take() {
    mutex.lock();
    for (CallLock* lock = newest; lock != nullptr; lock = lock->older_) lock->lock();
  }

  void give_back() {
    for (CallLock* lock = newest; lock != nullptr; lock = lock->older_) lock->unlock();
    mutex.unlock();
  }

  void add(CallLock& lock) {
    const std::lock_guard guard(mutex);
    lock.older_ = newest;
    if (newest != nullptr) newest->newer_ = &lock;
    newest = &lock;
  }

  void remove(CallLock& lock) {
    const std::lock_guard guard(mutex);
    if (lock.older_ != nullptr) lock.older_->newer_ = lock.newer_;
    (lock.newer_ != nullptr ? lock.newer_->older_ : newest) = lock.older_;
  }
};

CallLock::CallLock() { AllCallLocks::get().add(*this); }
CallLock::~CallLock() { AllCallLocks::get().remove(*this); }

}  // namespace rpa
