// Copies of single threads. They land as late as they may, when the thread waits for them, and from the start on their
// places hold what is no number: what reads or writes there meanwhile is found out.
#pragma once

#include <vector>

#include "core/cuda/device.cuh"

namespace torch_conv {

namespace on_the_way {
struct Copy {
  char* to;
  const char* from;
  int size, bytes;
};
// The thread's. The last one is open.
inline std::vector<std::vector<Copy>>& groups() {
  static on_host::OfThread<std::vector<std::vector<Copy>>> of_thread;
  if ((*of_thread).empty()) (*of_thread).emplace_back();
  return *of_thread;
}

inline void land(size_t pending) {
  auto& mine = groups();
  while (mine.size() > pending + 1) {
    for (const Copy& copy : mine.front()) {
      memset(copy.to, 0, copy.size);
      memcpy(copy.to, copy.from, copy.bytes);
    }
    mine.erase(mine.begin());
  }
}
}  // namespace on_the_way

template <int kBytes>
void async_copy(void* to, const void* from, int bytes) {
  if (bytes != 0 && bytes != kBytes) std::abort();  // memcheck takes them for whole copies
  if (reinterpret_cast<uintptr_t>(to) % kBytes || reinterpret_cast<uintptr_t>(from) % kBytes) std::abort();
  memset(to, 0xff, kBytes);
  on_the_way::groups().back().push_back({static_cast<char*>(to), static_cast<const char*>(from), kBytes, bytes});
}
template <int kBytes>
void async_copy(void* to, const void* from) {
  async_copy<kBytes>(to, from, kBytes);
}
inline void async_commit() { on_the_way::groups().emplace_back(); }
template <int kPending>
void async_wait() {
  on_the_way::land(kPending);
}
inline void async_wait_all() {
  async_commit();
  on_the_way::land(0);
}

}  // namespace torch_conv
