// Shared by the column warps and the row warps of box_strips.
#pragma once

#include "kernels/box/shared/barriers.cuh"
#include "kernels/box/shared/common.cuh"
#include "kernels/box/strips/memory.cuh"
#include "kernels/box/strips/params.h"

namespace torch_conv::box {

// kSubtiles is StripPolicy::subtiles.
template <int kSubtiles>
constexpr int kChannels = kSubtiles > 1 ? kSubtiles : 1;

// A tile of a plane, or of pixels of several channels, in a subtile of columns: outputs x .. x + valid - 1.
struct Subtile {
  int64_t in, out;  // elements from the images' starts to those of the plane
  int x, valid;     // 0: nothing
  // Columns outside repeat columns of this subtile: row warps copy the sums instead of reading them again.
  bool mirrors;

  // The subtile's first column and the one behind its last, of the extended image.
  template <int kSubtiles>
  __device__ int begin(const StripArgs& a) const {
    return x - a.pad_x - (kSubtiles > 1 ? 0 : a.shift);
  }
  __device__ int end(const StripArgs& a) const { return x + valid - a.pad_x + a.kw - 1; }
};

static_assert(sizeof(Subtile) == kSubtileBytes);

// Tile number `item` of those of all planes.
template <int kSubtiles>
__device__ Subtile subtile_of_item(const StripArgs& a, int item) {
  Subtile subtile{};
  const int plane = item / a.tiles;
  if (plane >= a.planes) return subtile;
  subtile.x = item % a.tiles * a.tile_w, subtile.valid = min(a.tile_w, a.out_w - subtile.x);
  const int n = plane / a.channels, c = plane % a.channels;
  subtile.in = n * a.in_stride_n + c * a.in_stride_c, subtile.out = n * a.out_stride_n + c * a.out_stride_c;
  const int begin = subtile.begin<kSubtiles>(a);
  subtile.mirrors = repeats_within(a.border, begin, begin, subtile.end(a), a.in_w, 0);
  return subtile;
}

// A block's outputs: rows [y, y_end) of its subtiles, in batches of a group of 8 rows.
template <int kSubtiles>
struct Strip {
  int y, y_end, batches;
  int first;             // item
  Subtile* table;        // of neighbouring tiles, one more than there are, in shared memory
  Subtile only_subtile;  // else

  __device__ explicit Strip(const StripArgs& a, unsigned char* subtiles) : table(reinterpret_cast<Subtile*>(subtiles)) {
    // Neighbouring tiles run at the same time: their halos are in L2.
    const int tiles_x = kSubtiles == 0 ? 1 : a.tiles, line = int(blockIdx.x) / tiles_x;
    const int segment = line % a.segments;
    first = line / a.segments * (kSubtiles == 0 ? a.subtiles : a.tiles) + int(blockIdx.x) % tiles_x;
    y = segment * a.tile_h - a.phase, y_end = min(a.out_h, y + a.tile_h);
    batches = (y_end - y + kGroup - 1) / kGroup;
    if constexpr (kSubtiles != 0) only_subtile = subtile_of_item<kSubtiles>(a, first);
  }
  // All threads, before a __syncthreads().
  __device__ void fill(const StripArgs& a) const {
    if constexpr (kSubtiles == 0)
      if (int(threadIdx.x) <= a.subtiles)
        table[threadIdx.x] =
            int(threadIdx.x) < a.subtiles ? subtile_of_item<kSubtiles>(a, first + threadIdx.x) : Subtile{};
  }
  // The subtile that holds 4 columns; `quad` is their number in the strip.
  __device__ __forceinline__ int number(const StripArgs& a, int quad) const {
    return kSubtiles == 0 ? min(quad * a.subtile_of_quad >> 20, a.subtiles) : 0;
  }
  __device__ __forceinline__ const Subtile& subtile(int number) const {
    return kSubtiles == 0 ? table[number] : only_subtile;
  }
};

// Batches of entering rows before the first one that ends windows.
template <Above kAbove>
__device__ __forceinline__ int start_batches(int blocks) {
  return kAbove == Above::chain ? 1 : kAbove == Above::kept ? 2 : blocks + 1;
}

// The offset of a strip's column in a row of V, in floats.
__device__ __forceinline__ int in_row(int column) { return column / 32 * kChunkPitch + column % 32; }

// Column v of the 4 that a column warp's thread has of a strip: neighbours, or every 32nd of its warp's 128.
template <bool kSpread>
__device__ __forceinline__ int strip_column(int v) {
  const int id = threadIdx.x;
  return kSpread ? id / 32 * 128 + 32 * v + id % 32 : 4 * id + v;
}

}  // namespace torch_conv::box
