// Memory in which it is seen that a kernel touches what is not its own.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "cuda.h"

namespace on_host {

constexpr int64_t kPage = 4096;

// Whole pages, at least `bytes`, full of `value`. The page behind them may not be touched: an image that ends where
// they do is not read beyond its end. They stay until the program ends.
template <typename T>
std::span<char> guarded_memory(int64_t bytes, T value) {
  const int64_t whole = (bytes + kPage - 1) / kPage * kPage;
  void* const pages = mmap(nullptr, whole + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* const start = static_cast<char*>(pages);
  mprotect(start + whole, kPage, PROT_NONE);
  for (int64_t i = 0; i < whole; i += sizeof(value)) memcpy(start + i, &value, sizeof(value));
  return {start, size_t(whole)};
}

// An image in memory of its own, full of `value`, with the strides of `x`. It starts at the same place of 16 bytes.
template <typename Image, typename T>
Image image_like(const Image& x, T value) {
  const int64_t last_plane = (x.n - 1) * x.stride_n + (x.c - 1) * x.stride_c;
  const int64_t bytes = (last_plane + (x.h - 1) * x.stride_h + (x.w - 1) * x.stride_w + 1) * size_of(x.dtype);
  const std::span<char> memory = guarded_memory(bytes + 16, value);
  char* const start = memory.data() + memory.size() - bytes;
  Image like = x;
  like.data = start - (reinterpret_cast<uintptr_t>(start) - reinterpret_cast<uintptr_t>(x.data)) % 16;
  return like;
}

// Launches a kernel as `plan` has it, with NaN in shared memory. What is wrong, if it has written to more of that than
// the plan asks for.
template <size_t kBytes, typename Plan, typename Kernel, typename... Args>
std::string launch_within(unsigned char (&shared)[kBytes], const Plan& plan, Kernel kernel, const Args&... args) {
  memset(shared, 0xff, kBytes);
  launch(kernel, {unsigned(plan.blocks), 1, 1}, plan.threads, args...);
  const bool kept =
      std::all_of(shared + plan.shared_bytes, shared + kBytes, [](unsigned char byte) { return byte == 0xff; });
  return kept ? "" : "shared memory beyond the plan's is written";
}

}  // namespace on_host
