// The same without instructions of a GPU.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace torch_conv::cuda {

inline void publish(int64_t* to, int64_t value) { std::atomic_ref(*to).store(value, std::memory_order_release); }
inline int64_t published(const int64_t* at) {
  return std::atomic_ref(*const_cast<int64_t*>(at)).load(std::memory_order_acquire);
}
inline int64_t nanoseconds() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
inline void give_up() { std::abort(); }

}  // namespace torch_conv::cuda

inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline unsigned atomicAdd(unsigned* at, unsigned more) { return std::atomic_ref(*at).fetch_add(more); }
