// Bulk copies as plain ones. A map holds the address of an image and a box's size, and kernels are those of compute
// capability 9.0.
#pragma once

#include "core/device.cuh"
#include "core/tma.h"

namespace torch_conv::tma {

// Boxes of words of two elements.
inline TensorMap map_of(const Image& image, int words, int rows) {
  return {{reinterpret_cast<uint64_t>(&image), uint64_t(words), uint64_t(rows)}};
}

inline void barrier_init(uint64_t* barrier, int = 1) { *barrier = 0; }
inline void barrier_expect(uint64_t* barrier, int bytes) { *barrier = uint64_t(bytes); }
inline void barrier_wait(uint64_t* barrier, int) {
  while (__atomic_load_n(barrier, __ATOMIC_ACQUIRE) != 0) std::this_thread::yield();
}

inline void load_box(void* shared, const TensorMap* map, uint64_t* barrier, int x, int y, int c, int n) {
  const Image& image = *reinterpret_cast<const Image*>(map->opaque[0]);
  const int words = int(map->opaque[1]), rows = int(map->opaque[2]);
  if (x * 4 % 16 != 0 || words * 4 % 16 != 0 || words > 256 || rows > 256) std::abort();
  if (*barrier != uint64_t(words) * rows * 4) std::abort();
  const char* plane = static_cast<const char*>(image.data) + 2 * (n * image.stride_n + c * image.stride_c);
  char* to = static_cast<char*>(shared);
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < words; ++i, to += 4) {
      const int row = y + r, word = x + i;
      const bool inside = row >= 0 && row < image.h && word >= 0 && 2 * word < image.w;
      if (inside) memcpy(to, plane + 2 * (row * image.stride_h + 2 * word), 4);
      else memset(to, 0, 4);
    }
  __atomic_store_n(barrier, 0, __ATOMIC_RELEASE);
}

}  // namespace torch_conv::tma

#define __CUDA_ARCH__ 900
