// The work of the CPU kernels: strips of rows, tiles, and the grain of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/border.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/ranges.h"

namespace torch_conv {

// A strip of output rows of one plane; in a loop along z, of output planes of one block of rows.
struct RowStrip {
  int64_t plane;
  Range range;
};

// Calls f for a thread's units, of `unit` rows of a plane each. Consecutive units of a plane are one strip, so that the
// thread reads rows between two units once.
template <typename F>
void for_each_strip(Range units, int64_t rows, int64_t unit, F f) {
  const int64_t per_plane = (rows + unit - 1) / unit;
  while (units.begin < units.end) {
    const int64_t plane = units.begin / per_plane, first = units.begin % per_plane;
    const int64_t last = std::min(per_plane, first + units.size());
    f(RowStrip{plane, {first * unit, std::min(rows, last * unit)}});
    units.begin += last - first;
  }
}

// Columns of a tile, in pixels. `rows` rows of the tile (of `bytes` an element) stay in the second-level cache, and the
// halo is a small part of the tile. Wide tiles read and write memory in its order. One thread, Zen 4 with 1 MiB of
// cache, ms with 256 KiB, 512 KiB, 1 MiB:
//     4000 x 6000 x 3 bytes by 3x3                  45, 36, 36
//     2000 x 3000 x 3 bytes by 5x5 in two passes    12.7, 11.0, 11.2
inline int tile_columns(int64_t width, int64_t pixel, int64_t rows, int64_t kw, int bytes) {
  constexpr int64_t kCacheBytes = 512 << 10;
  const int64_t fits = std::max<int64_t>(kCacheBytes / (bytes * rows * pixel), std::max<int64_t>(4 * kw, 64));
  const int64_t tiles = (width + fits - 1) / fits;
  return int((width + tiles - 1) / tiles);
}

// Rows of a unit of work: many compared with the rows above and below, which two threads read.
inline int unit_rows(int64_t height, int64_t kh) { return int(std::min(height, std::clamp<int64_t>(kh, 16, 1 << 20))); }

// The fewest units for a thread.
inline int64_t unit_grain(const Plan& plan) {
  constexpr double kFlopsOfAThread = 1 << 17;  // some microseconds of vector loops
  return std::max<int64_t>(1, int64_t(kFlopsOfAThread / std::max(1.0, plan.flops / double(plan.blocks))));
}

inline char* pixel_of(const Image& image, int64_t n, int64_t c, int64_t z, int64_t y, int64_t x) {
  const int64_t at =
      n * image.stride_n + c * image.stride_c + z * image.stride_d + y * image.stride_h + x * image.stride_w;
  return static_cast<char*>(image.data) + at * size_of(image.dtype);
}

}  // namespace torch_conv
