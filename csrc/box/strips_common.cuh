// What the column warps and the row warps of box_strips share.
#pragma once

#include "box/params.h"
#include "box/strips_memory.cuh"

namespace torch_conv::box {

// Number of a batch's use of the barriers of its stage.
template <int kStages>
__device__ __forceinline__ int use_of(int batch) {
  return batch / kStages;
}

struct Pipeline {
  uint64_t *full, *empty;
};

// A block's outputs: columns [x, x + valid) of rows [y, y_end), in batches of a group of 8 rows.
struct Strip {
  int x, valid, y, y_end, batches;
  int64_t in, out;  // elements from the images' starts to those of the plane
  // Columns outside repeat columns of this strip: nobody reads them again, row warps copy the sums.
  bool mirrors;

  // The strip's first column and the one behind its last, of the extended image.
  __device__ int column_begin(const StripArgs& a) const { return x - a.pad_x - a.shift; }
  __device__ int column_end(const StripArgs& a) const { return x + valid - a.pad_x + a.kw - 1; }

  __device__ explicit Strip(const StripArgs& a) {
    const int tile = int(blockIdx.x) % a.tiles, rest = int(blockIdx.x) / a.tiles;
    const int segment = rest % a.segments, plane = rest / a.segments;
    x = tile * a.tile_w, valid = min(a.tile_w, a.out_w - x);
    y = segment * a.tile_h - a.phase, y_end = min(a.out_h, y + a.tile_h);
    batches = (y_end - y + kGroup - 1) / kGroup;
    const int n = plane / a.channels, c = plane % a.channels;
    in = n * a.in_stride_n + c * a.in_stride_c, out = n * a.out_stride_n + c * a.out_stride_c;
    // Mirrors lie no further from the edge of the image than what they repeat, give or take one.
    const int begin = column_begin(a), end = column_end(a);
    const bool mirror = a.border == Border::replicate || a.border == Border::reflect || a.border == Border::symmetric;
    mirrors = mirror && (begin < 0 || end > a.in_w);
    if (begin < 0) mirrors = mirrors && min(end, a.in_w) > -begin;
    if (end > a.in_w) mirrors = mirrors && a.in_w - (end - a.in_w) > max(begin, 0);
  }
};

// Batches of entering rows before the first one that ends windows.
template <Above kAbove>
__device__ __forceinline__ int start_batches(int blocks) {
  return kAbove == Above::chain ? 1 : kAbove == Above::kept ? 2 : blocks + 1;
}

// Floats from a strip's column to where it stands in a row of V.
__device__ __forceinline__ int in_row(int column) { return column / 32 * kChunkPitch + column % 32; }

}  // namespace torch_conv::box
