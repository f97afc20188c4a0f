// Shared by the column warps and the row warps of box_bytes.
#pragma once

#include "core/border.h"
#include "kernels/box/bytes/memory.cuh"
#include "kernels/box/bytes/params.h"
#include "kernels/box/shared/barriers.cuh"
#include "kernels/box/shared/common.cuh"

namespace torch_conv::box {

// A block's outputs: columns [x, x + valid) of rows [y, y_end), in batches of kByteRows.
struct ByteStrip {
  int x, valid, y, y_end, batches;
  int begin, end;   // columns of the extended image that are summed
  int first;        // where windows begin, up to 8 + 31 columns behind `begin`
  int safe_rows;    // whose words may be read whole
  int64_t in, out;  // elements from the images' starts to those of the plane
  // Columns outside repeat columns of this strip: row warps copy the sums instead of reading them again.
  bool mirrors;

  __device__ ByteStrip(const ByteArgs& a, int channels) {
    const int tile = int(blockIdx.x) % a.tiles, rest = int(blockIdx.x) / a.tiles;
    const int segment = rest % a.segments, plane = rest / a.segments;
    x = tile * a.tile_w, valid = min(a.tile_w, a.out_w - x);
    y = segment * a.tile_h, y_end = min(a.out_h, y + a.tile_h);
    batches = (y_end - y + kByteRows - 1) / kByteRows;
    const int last = x + (a.kw - 1 - a.pad_x) * channels;  // the column that ends the first output's window
    begin = last - a.lead, end = last + valid;
    const int n = plane / a.planes, c = plane % a.planes;
    in = n * a.in_stride_n + c * a.in_stride_c, out = n * a.out_stride_n + c * a.out_stride_c;
    first = last - (a.kw - 1) * channels;
    mirrors = repeats_within(a.border, begin, first, end, a.in_w, 2 * (channels - 1));
    // Columns before the image may be read at the ends of its rows.
    safe_rows = (begin >= 0 || mirrors) && min(end, a.in_w) + 11 <= a.in_w ? a.in_h : a.safe_rows;
  }
};

// The offset of a strip's column's sum in a row, in bytes.
__device__ __forceinline__ int in_byte_row(int column) { return column / 32 * kByteChunkPitch + column % 32 * 2; }

}  // namespace torch_conv::box
