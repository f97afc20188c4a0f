// How a box sum is cut into blocks on a GPU. Pure functions of the problem and the machine.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstring>

#include "box/mean.h"
#include "core/rooms.h"

namespace torch_conv::box {

// ---- "march": a block owns a strip of rows and marches down it with running column sums ------------------------

// H200, float32 k=200 at 4096^2, best cut of each (rows, stages): 4,2 87 us; 4,3 90; 8,2 94; 2,4 142; 2,3 152.
constexpr int kChunkRows = 4;     // output rows between two barriers
constexpr int kStages = 2;        // chunks in shared memory: one being summed, the rest on their way
constexpr int kMaxThreads = 512;  // 128 registers a thread

// Image columns whose sums one thread keeps: one copy of 4 to 16 bytes a row. 8 columns of small elements leave too few
// warps: uint8, k = 200, 4096^2 took 106 us against 78.
constexpr int columns_per_thread(int element_bytes) { return element_bytes == 8 ? 2 : 4; }

// Bytes of one window sum: 4, or 8 where 32-bit integer sums could wrap around and for float64, also as the result's
// dtype: 4-byte sums leave as float32. Differences of sums that wrapped around are still right as long as the window's
// own sum fits.
inline int sum_bytes(const Box& p) {
  const int64_t kh = p.kh, kw = p.kw;
  if (is_integer(p.in.dtype) && p.out.dtype == Dtype::f64) return 8;
  switch (p.in.dtype) {
    case Dtype::f32:
    case Dtype::f16:
    case Dtype::bf16: return 4;
    case Dtype::f64: return 8;
    case Dtype::u8: return kh * kw <= UINT32_MAX / 255 ? 4 : 8;
    case Dtype::u16: return kh * kw <= UINT32_MAX / 65535 ? 4 : 8;
    case Dtype::i16: return kh * kw <= INT32_MAX / 32768 ? 4 : 8;
  }
  __builtin_unreachable();
}

// The shared memory of a block, in this order: the ring of entering and leaving rows, two buffers of prefix rows (so
// that one barrier a chunk is enough) and the totals of every warp's columns in them.
struct MarchShape {
  int threads;
  int columns;  // tile and halo
  int ring_bytes, prefix_bytes, totals_bytes;

  constexpr int warps() const { return threads / 32; }
  constexpr int shared_bytes() const { return ring_bytes + prefix_bytes + totals_bytes; }
};

constexpr MarchShape march_shape(int threads, int element_bytes, int sum_bytes, int chunk_rows = kChunkRows,
                                 int stages = kStages) {
  MarchShape s{};
  s.threads = threads;
  s.columns = threads * columns_per_thread(element_bytes);
  s.ring_bytes = stages * 2 * chunk_rows * s.columns * element_bytes;
  s.prefix_bytes = 2 * (chunk_rows * s.columns + 32 * columns_per_thread(element_bytes)) * sum_bytes;
  s.totals_bytes = 2 * chunk_rows * s.warps() * sum_bytes;
  return s;
}

// Threads for a tile of tile_w outputs: their windows, up to a vector of misalignment, and the column past the last
// window, where its exclusive prefix stands.
constexpr int64_t march_threads(int64_t tile_w, int64_t kw, int element_bytes) {
  const int v = columns_per_thread(element_bytes);
  return round_up(ceil_div(tile_w + kw + v - 1, v), 32);
}

// The widest block that the machine takes, 0 if none.
inline int widest_block(const Arch& arch, int element_bytes, int sum_bytes) {
  int threads = kMaxThreads;
  while (threads > 0 && march_shape(threads, element_bytes, sum_bytes).shared_bytes() > arch.shared_bytes)
    threads -= 32;
  return threads;
}

struct MarchTiles {
  int64_t tile_w = 0, strip_h = 0;
};

// Column tiles read the horizontal halo again, strips read a whole window to start, and both together must fill the
// machine evenly: takes the cut whose busiest multiprocessor reads the fewest elements. tile_w 0: none fits.
inline MarchTiles march_tiles(const Box& p, const Arch& arch) {
  // A multiprocessor with fewer columns in flight than this waits for memory and barriers instead of reading. H200,
  // k=200, widths 1024 / 1376 of 8192^2: float32 258 / 273 us, uint8 213 / 197; 960 / 640 of 1080p: uint8 355 / 399.
  const int64_t busy_columns = size_of(p.in.dtype) < 4 ? 1320 : 1152;
  constexpr int64_t kStartRows = 40;  // a block's launch, fill and drain, in rows of reading
  const int size = size_of(p.in.dtype), sum = sum_bytes(p), v = columns_per_thread(size);
  const int64_t planes = p.out.n * p.out.c, width = p.out.w, height = p.out.h;
  int64_t room = int64_t(widest_block(arch, size, sum)) * v - p.kw - v + 1;
  if (room > 32) room = room / 32 * 32;  // tiles of whole warp stores
  MarchTiles best;
  if (room < std::min<int64_t>(width, 32)) return best;
  double best_cost = 0;
  const int64_t first = ceil_div(width, room);
  for (int64_t tiles = first; tiles < first + 8; ++tiles) {
    const int64_t tile_w = std::min({width, room, round_up(ceil_div(width, tiles), 32)});
    const int64_t across = ceil_div(width, tile_w);
    const MarchShape shape = march_shape(int(march_threads(tile_w, p.kw, size)), size, sum);
    const int64_t resident = std::min(kMaxThreads / shape.threads, arch.shared_bytes / shape.shared_bytes());
    for (int per_sm = 1; per_sm <= 8; ++per_sm) {
      const int64_t wanted = std::max<int64_t>(1, per_sm * arch.multiprocessors / (across * planes));
      const int64_t strip_h = std::min(height, round_up(ceil_div(height, wanted), kChunkRows));
      const int64_t share = ceil_div(across * planes * ceil_div(height, strip_h), arch.multiprocessors);
      const int64_t together = std::min(share, resident);
      const double cost = double(ceil_div(share, together)) * double(2 * strip_h + p.kh + kStartRows) *
                          double(std::max(together * shape.columns, busy_columns));
      if (best.tile_w == 0 || cost < best_cost) {
        best = {tile_w, strip_h};
        best_cost = cost;
      }
    }
  }
  return best;
}

inline int shared_bytes_without_carry(const Box& p, int threads) {
  return march_shape(threads, size_of(p.in.dtype), sum_bytes(p)).shared_bytes();
}

// Shared memory of a planned march. Blocks whose border repeats columns get a buffer to carry column sums over, which
// saves a barrier a chunk, unless it would cost a block that the grid could keep resident.
inline int march_shared_bytes(const Box& p, const Arch& arch, int threads, int64_t blocks) {
  const Border border = p.place.border;
  const int without = shared_bytes_without_carry(p, threads);
  const int with = without + kChunkRows * threads * columns_per_thread(size_of(p.in.dtype)) * sum_bytes(p);
  const bool mirrors = border == Border::replicate || border == Border::reflect || border == Border::symmetric;
  auto resident = [&](int bytes) { return std::min<int64_t>(kMaxThreads / threads, arch.shared_bytes / bytes); };
  const bool free = resident(with) == resident(without) || blocks <= arch.multiprocessors * resident(with);
  return mirrors && with <= arch.shared_bytes && free ? with : without;
}

// ---- "plain": fresh sums for every row, any window -------------------------------------------------------------

constexpr int kPlainThreads = 256;

// Sizes and coordinates are 32-bit inside the kernels.
inline bool sizes_fit(const Box& p) {
  constexpr int64_t limit = INT_MAX / 4;
  return std::max({p.in.h, p.in.w, p.out.h, p.out.w, p.kh, p.kw}) < limit &&
         std::max(std::abs(p.place.pad_y), std::abs(p.place.pad_x)) < limit;
}

inline Plan make_plan(const Box& p, const Arch& arch, const char* variant) {
  const bool any = *variant == 0;
  const int64_t planes = p.out.n * p.out.c;
  const int64_t in_elements = p.in.n * p.in.c * p.in.h * p.in.w, out_elements = planes * p.out.h * p.out.w;
  Plan plan{.algorithm = "box", .variant = nullptr, .why = "the window or the image is too large"};
  plan.bytes = double(in_elements) * size_of(p.in.dtype) + double(out_elements) * size_of(p.out.dtype);
  plan.flops = 4.0 * double(out_elements);  // a row enters and leaves, then one difference of prefix sums
  if (!sizes_fit(p)) return plan;
  const int size = size_of(p.in.dtype);

  const MarchTiles tiles = out_elements > 0 ? march_tiles(p, arch) : MarchTiles{};
  if (tiles.tile_w > 0 && (any || std::strcmp(variant, "march") == 0)) {
    plan.variant = "march";
    plan.why = "running column sums: the cost does not grow with the window";
    plan.tile_w = int(tiles.tile_w);
    plan.tile_h = int(tiles.strip_h);
    plan.threads = int(march_threads(tiles.tile_w, p.kw, size));
    plan.blocks = planes * ceil_div(p.out.w, tiles.tile_w) * ceil_div(p.out.h, tiles.strip_h);
    plan.shared_bytes = march_shared_bytes(p, arch, plan.threads, plan.blocks);
  } else if (any || std::strcmp(variant, "plain") == 0) {
    plan.variant = "plain";
    plan.why = any ? "the window is wider than the column sums of one block" : "pinned";
    plan.tile_w = kPlainThreads;
    plan.tile_h = 1;
    plan.threads = kPlainThreads;
    plan.shared_bytes = kPlainThreads * 8;
    plan.blocks = planes * ceil_div(p.out.w, kPlainThreads) * p.out.h;
  }
  return plan;
}

}  // namespace torch_conv::box
