// A mutex that a forked child finds unlocked, and what it guards whole: fork() waits until no thread holds one.
//
// A thread that holds one takes no other, and waits for no compiler.
#pragma once

#include <mutex>

namespace torch_conv {

class ForkMutex {
 public:
  ForkMutex();  // it lives as long as the process
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace torch_conv
