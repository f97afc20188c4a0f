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
  static Registry& registry = *new Registry;  // never destroyed: fork() may follow the end of static objects
  return registry;
}

void before_fork() {
  registry().mutex.lock();
  for (ForkMutex* mutex : registry().all) mutex->lock();
}

void after_fork() {  // in the parent and in the child, whose thread is a copy of the locking thread
  for (ForkMutex* mutex : registry().all) mutex->unlock();
  registry().mutex.unlock();
}

}  // namespace

ForkMutex::ForkMutex() {
  static const int watched = pthread_atfork(before_fork, after_fork, after_fork);
  (void)watched;  // pthread_atfork fails only without memory; then a child may hang
  const std::lock_guard lock(registry().mutex);
  registry().all.push_back(this);
}

}  // namespace torch_conv
