// The lock of what several threads may call.
#pragma once

#include <mutex>

namespace rpa {

// A mutex that a fork of the process waits for: the child has neither the thread that holds a lock
// nor a second half for what that thread was changing. Whoever forks takes all of these locks,
// the newest first; so a thread that holds one may wait for an older one only, and may not make or
// end one.
class CallLock {
 public:
  CallLock();
  ~CallLock();
  CallLock(const CallLock&) = delete;
  CallLock& operator=(const CallLock&) = delete;

  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend struct AllCallLocks;

  std::mutex mutex_;
  CallLock* older_ = nullptr;
  CallLock* newer_ = nullptr;
};

}  // namespace rpa
