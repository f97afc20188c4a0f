// STREAMING: a block owns a strip of rows and streams down it with running column sums. Pure.
#pragma once

#include <algorithm>

#include "kernels/box/config.h"
#include "kernels/box/streaming/params.h"

namespace torch_conv::box {

void launch_streaming(const Box& p, const Plan& plan, const Site& site);

// Threads for a tile of tile_w outputs: their windows, up to a vector of misalignment, and the column past the last
// window, which holds its exclusive prefix.
constexpr int64_t streaming_threads(int64_t tile_w, int64_t kw, int element_bytes) {
  const int v = columns_per_thread(element_bytes);
  return round_up(ceil_div(tile_w + kw + v - 1, v), 32);
}

// The widest block that the machine takes, 0 if none.
inline int widest_block(const Arch& arch, int element_bytes, int sum_bytes) {
  int threads = kMaxThreads;
  while (threads > 0 && streaming_bytes(threads, element_bytes, sum_bytes).shared_bytes() > arch.shared_bytes)
    threads -= 32;
  return threads;
}

// Columns of the widest tile of outputs, less than 1 if none fits.
inline int64_t widest_tile(const Box& p, const Arch& arch) {
  const int size = size_of(p.in.dtype), v = columns_per_thread(size);
  const int64_t columns = int64_t(widest_block(arch, size, sum_bytes(p))) * v - p.kw - v + 1;
  return columns > 32 ? columns / 32 * 32 : columns;  // tiles of whole warp stores
}

inline const char* streaming_refusal(const Box& p, const Arch& arch) {
  if (const char* no = alone_refusal(p)) return no;
  if (!is_integer(p.in.dtype)) return kOnlyIntegers;
  if (p.out.n * p.out.c * p.out.h * p.out.w == 0) return "nothing to compute";
  return widest_tile(p, arch) < std::min<int64_t>(p.out.w, 32) ? "a window wider than the column sums of one block"
                                                               : nullptr;
}

struct StreamingTiles {
  int64_t tile_w = 0, strip_h = 0;
};

// Column tiles read the horizontal halo again, strips read a whole window to start, and both together must fill the
// machine evenly: takes the cut whose busiest multiprocessor reads the fewest elements.
inline StreamingTiles streaming_tiles(const Box& p, const Arch& arch) {
  // A multiprocessor with fewer columns in flight than this waits for memory and barriers instead of reading. H200,
  // k=200, widths 1024 / 1376 of 8192^2: float32 258 / 273 us, uint8 213 / 197; 960 / 640 of 1080p: uint8 355 / 399.
  const int64_t busy_columns = size_of(p.in.dtype) < 4 ? 1320 : 1152;
  constexpr int64_t kStartRows = 40;  // a block's launch, fill and drain, in rows of reading
  const int size = size_of(p.in.dtype), sum = sum_bytes(p);
  const int64_t planes = p.out.n * p.out.c, width = p.out.w, height = p.out.h;
  const int64_t widest = widest_tile(p, arch);
  StreamingTiles best;
  double best_cost = 0;
  const int64_t first = ceil_div(width, widest);
  for (int64_t tiles = first; tiles < first + 8; ++tiles) {
    const int64_t tile_w = std::min({width, widest, round_up(ceil_div(width, tiles), 32)});
    const int64_t tiles_x = ceil_div(width, tile_w);
    const StreamingBytes block = streaming_bytes(int(streaming_threads(tile_w, p.kw, size)), size, sum);
    const int64_t resident = std::min(kMaxThreads / block.threads, arch.shared_bytes / block.shared_bytes());
    for (int per_sm = 1; per_sm <= 8; ++per_sm) {
      const int64_t wanted = std::max<int64_t>(1, per_sm * arch.multiprocessors / (tiles_x * planes));
      const int64_t strip_h = std::min(height, round_up(ceil_div(height, wanted), kChunkRows));
      const int64_t share = ceil_div(tiles_x * planes * ceil_div(height, strip_h), arch.multiprocessors);
      const int64_t together = std::min(share, resident);
      const double cost = double(ceil_div(share, together)) * double(2 * strip_h + p.kh + kStartRows) *
                          double(std::max(together * block.columns, busy_columns));
      if (best.tile_w == 0 || cost < best_cost) {
        best = {tile_w, strip_h};
        best_cost = cost;
      }
    }
  }
  return best;
}

inline int shared_bytes_without_carry(const Box& p, int threads) {
  return streaming_bytes(threads, size_of(p.in.dtype), sum_bytes(p)).shared_bytes();
}

// Shared memory of a planned streaming kernel. Blocks whose border repeats columns get a buffer for the column sums
// that they repeat. The buffer saves a barrier a chunk; it is left out where it would cost a resident block.
inline int streaming_shared_bytes(const Box& p, const Arch& arch, int threads, int64_t blocks) {
  const int without = shared_bytes_without_carry(p, threads);
  const int with = without + kChunkRows * threads * columns_per_thread(size_of(p.in.dtype)) * sum_bytes(p);
  auto resident = [&](int bytes) { return std::min<int64_t>(kMaxThreads / threads, arch.shared_bytes / bytes); };
  const bool free = resident(with) == resident(without) || blocks <= arch.multiprocessors * resident(with);
  return is_mirror(p.place.border) && with <= arch.shared_bytes && free ? with : without;
}

// Dense rows of the input's dtype with Finish::scale have their own kernels. Sums of 64 bits have none, because they
// are rare: large windows, or float64 results.
inline bool dense_and_scaled(const Box& p) {
  const bool sums = sum_bytes(p) == 4;
  return sums && p.out.dtype == p.in.dtype && p.out.stride_w == 1 && finish_of(p.place) == Finish::scale;
}

inline void configure_streaming(const Box& p, const Arch& arch, Plan& plan) {
  const StreamingTiles tiles = streaming_tiles(p, arch);
  plan.why = "running column sums: the cost does not grow with the window";
  plan.tile_w = int(tiles.tile_w);
  plan.tile_h = int(tiles.strip_h);
  plan.threads = int(streaming_threads(tiles.tile_w, p.kw, size_of(p.in.dtype)));
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.w, tiles.tile_w) * ceil_div(p.out.h, tiles.strip_h);
  plan.shared_bytes = streaming_shared_bytes(p, arch, plan.threads, plan.blocks);
  const auto kernel = [&](const char* out) {
    return kernel_of("kernels/box/streaming/kernel.cuh", "box::box_streaming", {p.in.dtype, sum_type(p), out});
  };
  const Kernel every = kernel("void");
  plan.kernels = {dense_and_scaled(p) ? first_offered(arch, kernel(type_name(p.out.dtype)), every) : every};
}

}  // namespace torch_conv::box
