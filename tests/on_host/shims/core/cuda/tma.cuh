// Bulk copies as plain ones. A map holds the address of an image and a box's size, and kernels are those of compute
// capability 9.0.
#pragma once

#include <map>

#include "core/cuda/async_copy.cuh"
#include "core/cuda/device.cuh"
#include "core/tma.h"

namespace torch_conv::tma {

// Boxes of so many words, of 4 bytes or more.
inline TensorMap map_of(const Image& image, int words, int rows, int bytes = 4) {
  return {{reinterpret_cast<uint64_t>(&image), uint64_t(words) * bytes, uint64_t(rows), 0, uint64_t(bytes)}};
}
// Boxes of 128 bytes a row, swizzled.
inline TensorMap rows_map_of(const Image& image, int rows) {
  return {{reinterpret_cast<uint64_t>(&image), 128, uint64_t(rows), 1}};
}

// Boxes of an image whose channels are innermost, at coordinates (c, x, n, y). runtime/tensor_map.h has the order of
// their 16-byte pieces.
inline TensorMap channels_map(const Image& image, int box_c, int box_w, int box_n, int box_h) {
  return {{reinterpret_cast<uint64_t>(&image), uint64_t(2 * box_c), uint64_t(box_w) * box_n * box_h, 2,
           uint64_t(box_w), uint64_t(box_n)}};
}
// f(byte of the box, element of the image or null) for all elements of such a box, of 2 bytes.
template <typename F>
void each_of_channels(const TensorMap* map, int c, int x, int n, int y, const F& f) {
  const Image& image = *reinterpret_cast<const Image*>(map->opaque[0]);
  const int bytes = int(map->opaque[1]), w = int(map->opaque[4]), images = int(map->opaque[5]);
  const auto inside = [](int at, int64_t size) { return at >= 0 && at < size; };
  for (int pixel = 0; pixel < int(map->opaque[2]); ++pixel)
    for (int i = 0; i < bytes; i += 2) {
      const int cc = c + i / 2, xx = x + pixel % w, nn = n + pixel / w % images, yy = y + pixel / w / images;
      const int turn = bytes == 32 ? pixel / 4 % 2 : bytes == 64 ? pixel / 2 % 4 : pixel % 8;
      const bool here = inside(cc, image.c) && inside(xx, image.w) && inside(nn, image.n) && inside(yy, image.h);
      uint16_t* const at = static_cast<uint16_t*>(image.data) + cc * image.stride_c + xx * image.stride_w +
                           nn * image.stride_n + yy * image.stride_h;
      f(pixel * bytes + (i / 16 ^ turn) * 16 + i % 16, here ? at : nullptr);
    }
}

// A barrier: arrivals of a phase, those that it still waits for, 16-byte pieces to come, and how many phases are over.
struct Barrier {
  uint16_t count, waits;
  int16_t pieces;
  uint16_t phase;
};
template <typename Change>
void change(uint64_t* barrier, const Change& by) {
  Barrier b;
  memcpy(&b, barrier, 8);
  by(b);
  if (b.waits == 0 && b.pieces == 0) b.waits = b.count, ++b.phase;
  memcpy(barrier, &b, 8);
}

inline void barrier_init(uint64_t* barrier, int count = 1) {
  const Barrier b{uint16_t(count), uint16_t(count), 0, 0};
  memcpy(barrier, &b, 8);
}
inline void barrier_expect(uint64_t* barrier, int bytes) {
  if (bytes % 16) std::abort();
  change(barrier, [&](Barrier& b) { b.pieces += bytes / 16, --b.waits; });
}
inline void warp_arrive(uint64_t* barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) change(barrier, [](Barrier& b) { --b.waits; });
}
inline void barrier_arrive(uint64_t* barrier) {
  change(barrier, [](Barrier& b) { --b.waits; });
}
inline void barrier_arrive_copied(uint64_t* barrier) {
  async_wait_all();
  change(barrier, [](Barrier& b) { --b.waits; });
}
// Goes on where the hardware does, and where the thread comes so late that phases after the one it waits for are over,
// too: lanes do not part that far, threads here do. `last`: as many phases were over for it when it went on.
inline on_host::OfThread<std::map<uint64_t*, int>> passed;
inline void barrier_wait(uint64_t* barrier, int phase) {
  int& last = (*passed).try_emplace(barrier, -1).first->second;
  const bool again = (last & 1) != phase;  // what it has waited for, or the phase after the next
  const auto over = [&] {
    Barrier b;
    memcpy(&b, barrier, 8);
    return int(b.phase);
  };
  on_host::wait_until([&] { return (again && over() == last) || over() >= last + 1 + again; });
  if (!again || over() != last) last += 1 + again;
}

// f(byte of the box, byte of the image or null, bytes) for all of a box, an element at a time.
template <typename F>
void each_of_box(const TensorMap* map, int x, int y, int z, int c, int n, const F& f) {
  const Image& image = *reinterpret_cast<const Image*>(map->opaque[0]);
  const int pitch = int(map->opaque[1]), rows = int(map->opaque[2]), size = int(size_of(image.dtype));
  if (pitch % 16 != 0 || rows > 256 || (map->opaque[3] == 0 && pitch > int(256 * map->opaque[4]))) std::abort();
  const bool inside_z = z >= 0 && z < image.d;
  char* const plane =
      static_cast<char*>(image.data) + size * (n * image.stride_n + c * image.stride_c + z * image.stride_d);
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < pitch; i += size) {
      const int row = y + r, column = x + i / size;
      const bool inside = inside_z && row >= 0 && row < image.h && column >= 0 && column < image.w;
      const int at = map->opaque[3] ? (i / 16 ^ r % 8) * 16 + i % 16 : i;
      f(r * pitch + at, inside ? plane + size * (row * image.stride_h + column) : nullptr, size);
    }
}

inline void load_box(void* shared, const TensorMap* map, uint64_t* barrier, int x, int y, int z, int c, int n) {
  const bool words = map->opaque[3] == 0;
  const int64_t size = size_of(reinterpret_cast<const Image*>(map->opaque[0])->dtype), word = int64_t(map->opaque[4]);
  if ((words ? x * word : x * size) % 16 != 0 || reinterpret_cast<uintptr_t>(shared) % (words ? 128 : 1024))
    std::abort();
  each_of_box(map, words ? x * word / size : x, y, z, c, n, [&](int at, const char* from, int size) {
    if (from) memcpy(static_cast<char*>(shared) + at, from, size);
    else memset(static_cast<char*>(shared) + at, 0, size);
  });
  change(barrier, [&](Barrier& b) { b.pieces -= map->opaque[1] * map->opaque[2] / 16; });
}

inline void load_box(void* shared, const TensorMap* map, uint64_t* barrier, int x, int y, int c, int n) {
  if (map->opaque[3] < 2) return load_box(shared, map, barrier, x, y, 0, c, n);
  if (reinterpret_cast<uintptr_t>(shared) % 128) std::abort();
  each_of_channels(map, x, y, c, n, [&](int at, const uint16_t* from) {
    const uint16_t element = from ? *from : 0;
    memcpy(static_cast<char*>(shared) + at, &element, 2);
  });
  change(barrier, [&](Barrier& b) { b.pieces -= map->opaque[1] * map->opaque[2] / 16; });
}

// Rows of images end on vectors of 16 bytes: the hardware writes all of a word that one ends in.
inline void store_box(const TensorMap* map, const void* shared, int x, int y, int c, int n) {
  if (map->opaque[3] == 2) {
    if (x < 0 || y < 0 || c < 0 || n < 0 || reinterpret_cast<uintptr_t>(shared) % 128) std::abort();
    return each_of_channels(map, x, y, c, n, [&](int at, uint16_t* to) {
      if (to) memcpy(to, static_cast<const char*>(shared) + at, 2);
    });
  }
  const Image& image = *reinterpret_cast<const Image*>(map->opaque[0]);
  if (image.w * size_of(image.dtype) % 16) std::abort();
  if (x < 0 || y < 0 || reinterpret_cast<uintptr_t>(shared) % 1024) std::abort();
  each_of_box(map, x, y, 0, c, n, [&](int at, char* to, int size) {
    if (to) memcpy(to, static_cast<const char*>(shared) + at, size);
  });
}
inline void bulk_load(void* to, const void* from, int bytes, uint64_t* barrier) {
  if (bytes % 16 || reinterpret_cast<uintptr_t>(to) % 16 || reinterpret_cast<uintptr_t>(from) % 16) std::abort();
  memcpy(to, from, bytes);
  change(barrier, [&](Barrier& b) { b.pieces -= bytes / 16; });
}
inline void bulk_store(void* to, const void* from, int bytes) {
  if (bytes % 16 || reinterpret_cast<uintptr_t>(to) % 16 || reinterpret_cast<uintptr_t>(from) % 16) std::abort();
  memcpy(to, from, bytes);
}
inline void fence_before_copy() {}
inline void store_commit() {}
template <int = 0>
void store_wait_read() {}
inline void store_wait() {}

}  // namespace torch_conv::tma

#define __CUDA_ARCH__ 900
