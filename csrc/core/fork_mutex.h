// A mutex for processes that fork. fork() waits until no thread holds such a mutex. So the child finds it unlocked and
// the guarded data consistent.
//
// A thread that holds a ForkMutex must not lock another one, and must not wait for a compiler.
#pragma once

#include <mutex>

namespace torch_conv {

class ForkMutex {
 public:
  ForkMutex();  // must live as long as the process
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace torch_conv
