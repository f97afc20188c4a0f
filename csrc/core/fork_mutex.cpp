#include "core/fork_mutex.h"

#include <pthread.h>

#include <vector>

namespace torch_conv {

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<ForkMutex*> all;
};

Registry& registry() {
  static Registry& registry = *new Registry;  // fork() may come after static objects are gone
  return registry;
}

void before_fork() {
  registry().mutex.lock();
  for (ForkMutex* mutex : registry().all) mutex->lock();
}

void after_fork() {  // in the parent, and in the child, whose one thread is the copy of the one that has locked
  for (ForkMutex* mutex : registry().all) mutex->unlock();
  registry().mutex.unlock();
}

}  // namespace

ForkMutex::ForkMutex() {
  static const int watched = pthread_atfork(before_fork, after_fork, after_fork);
  (void)watched;  // without memory for it a child may hang, as it does elsewhere then
  const std::lock_guard lock(registry().mutex);
  registry().all.push_back(this);
}

}  // namespace torch_conv
