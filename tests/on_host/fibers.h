// Runs the threads of a block as fibers of one host thread. A switch of fibers takes nanoseconds; barriers of host
// threads take system calls. A fiber runs until it has to wait. A random choice, the same in every run, picks the next
// fiber. So a kernel that lacks a barrier is not right by the order of its threads.
#pragma once

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

inline Index threadIdx, blockIdx, gridDim, blockDim;

namespace on_host {

namespace fibers {

constexpr size_t kStackBytes = 1 << 18, kGuardBytes = 1 << 16;

struct Fiber {
  Index index;
  bool (*ready)(const void* condition);  // whether it may continue
  const void* condition;
  bool started = false;
  ucontext_t start;
  jmp_buf left;  // where it continues
};

inline std::vector<std::unique_ptr<Fiber>> all;  // kept from block to block
inline int count, unfinished;                    // of the block
inline int running;                              // the number of the one that runs
inline int64_t blocks;                           // that have begun
inline const std::function<void()>* work;        // of each of them in this block
inline jmp_buf block_end;
inline uint32_t random = 1;

// Mostly one of the same warp: that is how far a warp may ever run ahead of the others.
inline int next() {
  random = random * 1664525 + 1013904223;
  const unsigned drawn = random >> 8, warps = unsigned(count + 31) / 32;
  const int step = drawn & 1 ? 1 : -1;
  const bool stay = (drawn >> 1 & 0xff) != 0;
  // The own warp, then all, from one that is drawn.
  for (unsigned i = stay ? 0 : 1; i <= warps; ++i) {
    const unsigned warp = i == 0 ? unsigned(running) / 32 : ((drawn >> 9) + i) % warps;
    for (int lane = 1; lane <= 32; ++lane) {
      const int at = int(warp) * 32 + ((running + lane * step) & 31);
      if (at < count && all[at]->ready(all[at]->condition)) return at;
    }
  }
  std::fprintf(stderr, "block (%u, %u, %u): its %d threads that have not ended wait for what never comes\n", blockIdx.x,
               blockIdx.y, blockIdx.z, unfinished);
  std::abort();
}

[[noreturn]] inline void go_on_with(int number) {
  Fiber& fiber = *all[number];
  running = number;
  threadIdx = fiber.index;
  // setcontext makes a system call, and is needed only for a stack's first use.
  if (fiber.started) _longjmp(fiber.left, 1);
  fiber.started = true;
  setcontext(&fiber.start);
  std::abort();
}

// Runs other fibers, until one of them continues this one.
[[gnu::noinline]] inline void leave() {
  if (_setjmp(all[running]->left) != 0) return;
  if (unfinished == 0) _longjmp(block_end, 1);
  go_on_with(next());
}

inline void run_blocks() {
  for (;;) {
    (*work)();
    all[running]->ready = [](const void*) { return false; };
    --unfinished;
    leave();  // to return in a later block
  }
}

inline std::unique_ptr<Fiber> make(size_t number) {
  // Only what is touched of a stack takes memory. What needs more stack than that ends at the guard before it.
  void* const memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) std::abort();
  auto fiber = std::make_unique<Fiber>();
  getcontext(&fiber->start);
  fiber->start.uc_stack.ss_sp = static_cast<char*>(memory) + kGuardBytes;
  // Stacks that all began at the same place of a page would compete for a few sets of the cache.
  fiber->start.uc_stack.ss_size = kStackBytes - number % 32 * 128;
  fiber->start.uc_link = nullptr;
  makecontext(&fiber->start, run_blocks, 0);
  return fiber;
}

}  // namespace fibers

// Every one of the block's threads does `work`.
[[gnu::noinline]] inline void run_block(Index threads, const std::function<void()>& work) {
  fibers::count = fibers::unfinished = int(threads.x * threads.y * threads.z);
  while (int(fibers::all.size()) < fibers::count) fibers::all.push_back(fibers::make(fibers::all.size()));
  for (unsigned i = 0; i < unsigned(fibers::count); ++i) {
    fibers::all[i]->index = {i % threads.x, i / threads.x % threads.y, i / threads.x / threads.y};
    fibers::all[i]->ready = [](const void*) { return true; };
  }
  fibers::work = &work;
  ++fibers::blocks;
  if (_setjmp(fibers::block_end) == 0) fibers::go_on_with(fibers::next());
}

// Others run until passed().
template <typename Passed>
void wait_until(const Passed& passed) {
  if (passed()) return;
  fibers::Fiber& fiber = *fibers::all[fibers::running];
  fiber.ready = [](const void* condition) { return (*static_cast<const Passed*>(condition))(); };
  fiber.condition = &passed;
  fibers::leave();
}

// Where `count` threads wait for one another, time and again.
struct Barrier {
  int count, arrived = 0, phase = 0;
  void arrive_and_wait() {
    const int before = phase;
    if (++arrived == count) arrived = 0, ++phase;
    else wait_until([this, before] { return phase != before; });
  }
};

// A value of each thread, new in every block.
template <typename T>
class OfThread {
  std::vector<T> all;
  int64_t block = 0;

 public:
  T& operator*() {
    if (block != fibers::blocks) all.assign(fibers::count, T()), block = fibers::blocks;
    return all[fibers::running];
  }
};

}  // namespace on_host
