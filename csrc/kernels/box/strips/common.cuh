// What the column warps and the row warps of box_strips share.
#pragma once

#include "kernels/box/params.h"
#include "kernels/box/shared/barriers.cuh"
#include "kernels/box/strips/memory.cuh"

namespace torch_conv::box {

// Kernels' kLots: 1, a strip is one tile; 0, of a.lots tiles side by side; more, of the channels of a tile's pixels.
template <int kLots>
constexpr int kChannels = kLots > 1 ? kLots : 1;

// A tile of a plane, or of pixels of several channels, in a lot of columns: outputs x .. x + valid - 1.
struct Lot {
  int64_t in, out;  // elements from the images' starts to those of the plane
  int x, valid;     // 0: nothing
  // Columns outside repeat columns of this lot: nobody reads them again, row warps copy the sums.
  bool mirrors;

  // The lot's first column and the one behind its last, of the extended image.
  template <int kLots>
  __device__ int begin(const StripArgs& a) const {
    return x - a.pad_x - (kLots > 1 ? 0 : a.shift);
  }
  __device__ int end(const StripArgs& a) const { return x + valid - a.pad_x + a.kw - 1; }
};

static_assert(sizeof(Lot) == kLotBytes);

// Tile number `item` of those of all planes.
template <int kLots>
__device__ Lot lot_of_item(const StripArgs& a, int item) {
  Lot lot{};
  const int plane = item / a.tiles;
  if (plane >= a.planes) return lot;
  lot.x = item % a.tiles * a.tile_w, lot.valid = min(a.tile_w, a.out_w - lot.x);
  const int n = plane / a.channels, c = plane % a.channels;
  lot.in = n * a.in_stride_n + c * a.in_stride_c, lot.out = n * a.out_stride_n + c * a.out_stride_c;
  // Mirrors lie no further from the edge of the image than what they repeat, give or take one.
  const int begin = lot.begin<kLots>(a), end = lot.end(a);
  const bool mirror = a.border == Border::replicate || a.border == Border::reflect || a.border == Border::symmetric;
  lot.mirrors = mirror && (begin < 0 || end > a.in_w);
  if (begin < 0) lot.mirrors = lot.mirrors && min(end, a.in_w) > -begin;
  if (end > a.in_w) lot.mirrors = lot.mirrors && a.in_w - (end - a.in_w) > max(begin, 0);
  return lot;
}

// A block's outputs: rows [y, y_end) of its lots, in batches of a group of 8 rows.
template <int kLots>
struct Strip {
  int y, y_end, batches;
  int first;   // item
  Lot* table;  // of tiles side by side, one more than there are, in shared memory
  Lot alone;   // else

  __device__ explicit Strip(const StripArgs& a, unsigned char* lots) : table(reinterpret_cast<Lot*>(lots)) {
    // Neighbouring tiles run at the same time: their halos are in L2.
    const int across = kLots == 0 ? 1 : a.tiles, rest = int(blockIdx.x) / across;
    const int segment = rest % a.segments;
    first = rest / a.segments * (kLots == 0 ? a.lots : a.tiles) + int(blockIdx.x) % across;
    y = segment * a.tile_h - a.phase, y_end = min(a.out_h, y + a.tile_h);
    batches = (y_end - y + kGroup - 1) / kGroup;
    if constexpr (kLots != 0) alone = lot_of_item<kLots>(a, first);
  }
  // All threads, before a __syncthreads().
  __device__ void fill(const StripArgs& a) const {
    if constexpr (kLots == 0)
      if (int(threadIdx.x) <= a.lots)
        table[threadIdx.x] = int(threadIdx.x) < a.lots ? lot_of_item<kLots>(a, first + threadIdx.x) : Lot{};
  }
  // Which lot are 4 columns in, the quad's number of the strip?
  __device__ __forceinline__ int number(const StripArgs& a, int quad) const {
    return kLots == 0 ? min(quad * a.lot_of_quad >> 20, a.lots) : 0;
  }
  __device__ __forceinline__ const Lot& lot(int number) const { return kLots == 0 ? table[number] : alone; }
};

// Batches of entering rows before the first one that ends windows.
template <Above kAbove>
__device__ __forceinline__ int start_batches(int blocks) {
  return kAbove == Above::chain ? 1 : kAbove == Above::kept ? 2 : blocks + 1;
}

// Floats from a strip's column to where it stands in a row of V.
__device__ __forceinline__ int in_row(int column) { return column / 32 * kChunkPitch + column % 32; }

// Column v of the 4 that a column warp's thread has of a strip: side by side, or spread over its warp's 128.
template <bool kSpread>
__device__ __forceinline__ int strip_column(int v) {
  const int id = threadIdx.x;
  return kSpread ? id / 32 * 128 + 32 * v + id % 32 : 4 * id + v;
}

}  // namespace torch_conv::box
