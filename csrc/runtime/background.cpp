#include "runtime/background.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

#include "core/fork_mutex.h"

namespace torch_conv {

int background_threads() {
  constexpr int kMost = 64;
  const char* variable = std::getenv("TORCH_CONV_COMPILE_THREADS");
  const std::string_view asked = variable ? variable : "";
  static const int usual = std::clamp(int(std::thread::hardware_concurrency() / 2), 1, 4);
  if (asked.empty()) return usual;
  int count = 0;
  const auto [end, error] = std::from_chars(asked.begin(), asked.end(), count);
  if (error == std::errc() && end == asked.end() && count >= 1 && count <= kMost) return count;
  throw std::runtime_error("torch_conv: TORCH_CONV_COMPILE_THREADS must be from 1 to " + std::to_string(kMost) +
                           ", got '" + std::string(asked) + "'");
}

namespace {

class Pool {
 public:
  bool add(std::function<void()> task) {
    const int most = background_threads();
    const std::lock_guard lock(mutex_);
    forget_parent();
    if (stopped_) return false;
    tasks_.push_back(std::move(task));
    changed_->notify_all();
    if (idle_ >= int(tasks_.size()) || threads_ >= most) return true;
    try {
      std::thread([this] { work(); }).detach();
      ++threads_;
    } catch (const std::system_error&) {  // no more threads
      if (threads_ == 0) tasks_.pop_back();
    }
    return threads_ > 0;
  }

  bool stops() {
    const std::lock_guard lock(mutex_);
    forget_parent();
    return stopped_;
  }

  int count() {
    const std::lock_guard lock(mutex_);
    forget_parent();
    return running_ + int(tasks_.size());
  }

  // `drop`: without the tasks that have not begun, and for good.
  void finish(bool drop) {
    std::unique_lock lock(mutex_);
    forget_parent();
    if (drop) stopped_ = true, tasks_.clear();
    changed_->wait(lock, [&] { return running_ == 0 && tasks_.empty(); });
  }

 private:
  void work() {
    constexpr int kNice = 10;  // below the threads of the program
    setpriority(PRIO_PROCESS, id_t(syscall(SYS_gettid)), kNice);
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_->wait(lock, [&] { return !tasks_.empty(); });
      --idle_, ++running_;
      {
        const std::function<void()> task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        task();
      }
      lock.lock();
      --running_;
      changed_->notify_all();
    }
  }

  // A child of fork() has none of its parent's threads, but the locks that they held. A compiler that was at work would
  // wait for ever in the child.
  void forget_parent() {
    if (process_ == getpid()) return;
    stopped_ = running_ > 0;
    process_ = getpid(), threads_ = idle_ = running_ = 0;
    tasks_.clear();
    changed_ = new std::condition_variable_any;  // a thread of the parent may hold the old one
  }

  ForkMutex mutex_;
  std::condition_variable_any* changed_ = new std::condition_variable_any;
  std::deque<std::function<void()>> tasks_;
  pid_t process_ = getpid();
  int threads_ = 0, idle_ = 0, running_ = 0;
  bool stopped_ = false;
};

Pool& pool() {
  static Pool& pool = *new Pool;  // never destroyed: its threads outlive static objects
  return pool;
}

}  // namespace

// NVRTC must not run while the process destroys NVRTC's static objects.
bool run_in_background(std::function<void()> task) {
  static const int watched = std::atexit(stop_background);
  (void)watched;
  return pool().add(std::move(task));
}

int tasks_in_background() { return pool().count(); }

void finish_background() { pool().finish(false); }

void stop_background() { pool().finish(true); }

bool background_stops() { return pool().stops(); }

}  // namespace torch_conv
