// LARGE_MMA: a block's tile, and the loads of its input and taps into shared memory.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "core/cuda/half_bits.cuh"
#include "core/cuda/tma.cuh"
#include "kernels/depthwise/large_mma/params.h"
#include "kernels/depthwise/shared/floor_div.h"

namespace torch_conv::depthwise::large_mma {

// The input of a block: rows [row, row_end), counted from the tile's first output row, and columns [column,
// column_end), which are whole pairs of blocks.
struct Slab {
  int row, row_end, column, column_end;
};

// A block's tile: its first output, its channels and its input. The block's index counts, innermost first: columns,
// rows, channels, images.
struct BlockTile {
  int x, y, first_channel, channels, first_image;
  Slab slab;

  __device__ __forceinline__ static BlockTile of(const LargeMmaArgs& a, unsigned index, int unit) {
    const LargeMmaShape& s = a.s;
    const int pad = int(a.p.place.pad_y);
    const unsigned along_y = a.by_tiles_x.divide(index), group = a.by_tiles_y.divide(along_y),
                   image_group = a.by_channel_groups.divide(group);
    BlockTile t;
    t.x = int(index - along_y * s.tiles_x) * s.tile_w, t.y = int(along_y - group * s.tiles_y) * s.tile_h;
    t.first_channel = int(group - image_group * a.channel_groups) * s.channels;
    t.channels = min(s.channels, int(a.p.out.c) - t.first_channel);
    t.first_image = int(image_group) * s.images;
    t.slab.row = max(-pad, -t.y);
    t.slab.row_end = min(s.tile_h + int(a.p.kh) - 1 - pad, int(a.p.in.h) - t.y);
    t.slab.column = max(0, t.x - s.lead);
    const int end = min((int(a.p.in.w) + unit - 1) / unit * unit, t.slab.column + s.slab_columns);
    t.slab.column_end = max(end, t.slab.column);
    return t;
  }
};

// Starts copies of the rows of all images of one channel to shared memory, in vectors of a.load_bytes.
template <typename T>
__device__ __forceinline__ void load_slab(const LargeMmaArgs& a, const Slab& slab, unsigned char* to, const T* plane,
                                          int first_image, int first_row) {
  const int bytes = a.load_bytes, columns = max(slab.column_end - slab.column, 0);
  const unsigned vectors = bytes == 16 ? columns / 8 : bytes == 8 ? columns / 4 : bytes == 4 ? columns / 2 : columns;
  const Image& in = a.p.in;
  const int rows = slab.row_end - slab.row, images = min(a.s.images, int(in.n) - first_image);
  if (vectors == 0 || rows <= 0) return;
  // A thread has one vector of every `at_once`-th row (or some vectors of every row).
  const int at_once = max(blockDim.x / vectors, 1u), first = int(threadIdx.x / vectors);
  if (first >= at_once) return;
  const int images_on = at_once / rows, rows_on = at_once - images_on * rows;
  const int64_t step = images_on * in.stride_n + rows_on * in.stride_h, next_image = in.stride_n - rows * in.stride_h;
#pragma unroll 1
  for (unsigned vector = threadIdx.x - first * vectors; vector < vectors; vector += blockDim.x) {
    const int column = slab.column + int(vector) * bytes / 2,
              bytes_of_row = min(max(2 * (int(in.w) - column), 0), bytes);
    int image = first / rows, row = first - image * rows;
    int at = image * a.s.image_stride + row * a.s.pitch + int(vector) * bytes;
    const T* from = plane + (first_image + image) * in.stride_n + (first_row + slab.row + row) * in.stride_h + column;
#pragma unroll 1
    while (image < a.s.images) {
      const int inside = image < images ? bytes_of_row : 0;
      const T* here = inside ? from : plane;  // zeros fill the rest
      unsigned char* there = to + at;
      if (a.s.gap) there += (floor_div(slab.row + row, a.s.strip_rows) - floor_div(slab.row, a.s.strip_rows)) * a.s.gap;
      if (bytes == 16) async_copy<16>(there, here, inside);
      else if (bytes == 8) async_copy<8>(there, here, inside);
      else if (bytes == 4) async_copy<4>(there, here, inside);
      else *reinterpret_cast<T*>(there) = inside ? *here : T{};
      image += images_on, row += rows_on, from += step;
      at += images_on * a.s.image_stride + rows_on * a.s.pitch;
      if (row >= rows) {
        row -= rows, ++image, from += next_image;
        at += a.s.image_stride - rows * a.s.pitch;
      }
    }
  }
}

// Writes the taps of one channel into its table of zeros. Returns whether one of them is not finite.
template <typename T, LargeMmaPolicy tile>
__device__ __forceinline__ bool write_taps(const LargeMmaArgs& a, unsigned char* table, const T* weight) {
  const unsigned kw = unsigned(a.p.kw), taps = unsigned(a.p.kh) * kw;
  bool not_finite = false;
#pragma unroll 4
  for (unsigned e = threadIdx.x; e < taps; e += blockDim.x) {
    const unsigned i = a.by_kw.divide(e), j = e - i * kw;
    const uint16_t tap = weight[e].bits;
    not_finite |= !is_finite<T>(tap);
    uint16_t* const to = reinterpret_cast<uint16_t*>(table) +
                         (i + tile.rows - 1) * (2 * large_mma_row_words(tile.spans)) + kLargeMmaLead + j;
    to[0] = tap;
    to[a.s.second_copy / 2 - 1] = tap;
  }
  return not_finite;
}

// Loads the input and the taps of a block into shared memory. Returns whether a tap is not finite.
template <typename T, LargeMmaPolicy tile>
__device__ __forceinline__ bool load_block(const LargeMmaArgs& a, const BlockTile& block, unsigned char* large_shared) {
  const Depthwise& p = a.p;
  const LargeMmaShape& s = a.s;
  const auto clear = [&](unsigned char* from, int bytes) {
    for (int e = 16 * int(threadIdx.x); e < bytes; e += 16 * int(blockDim.x))
      *reinterpret_cast<uint4*>(from + e) = make_uint4(0, 0, 0, 0);
  };
  const int channels = block.channels, images = min(s.images, int(p.in.n) - block.first_image);
#if __CUDA_ARCH__ >= 900
  // The first warp starts the copies of whole planes, one for each image.
  uint64_t* const arrived = reinterpret_cast<uint64_t*>(large_shared + kLargeMmaZeros);
  if (a.plane_bytes && threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      tma::barrier_init(arrived);
      tma::barrier_expect(arrived, channels * images * a.plane_bytes);
    }
    __syncwarp();
  }
#endif
  clear(large_shared, kLargeMmaZeros);
#pragma unroll 1
  for (int c = 0; c < channels; ++c) {
    unsigned char* const to = large_shared + kLargeMmaHead + c * s.channel_bytes;
    const T* plane = static_cast<const T*>(p.in.data) + a.by_multiplier.divide(block.first_channel + c) * p.in.stride_c;
#if __CUDA_ARCH__ >= 900
    if (a.plane_bytes) {
      if (int(threadIdx.x) < images)
        tma::bulk_load(to + threadIdx.x * s.image_stride,
                       plane + (block.first_image + int(threadIdx.x)) * p.in.stride_n, a.plane_bytes, arrived);
      clear(to + images * s.image_stride, (s.images - images) * s.image_stride);
    }
#endif
    if (!a.plane_bytes) load_slab(a, block.slab, to, plane, block.first_image, block.y);
    clear(to + s.table, s.channel_bytes - s.table);
  }
  __syncthreads();
  bool taps_not_finite = false;
#pragma unroll 1
  for (int c = 0; c < channels; ++c)
    taps_not_finite |= write_taps<T, tile>(
        a, large_shared + kLargeMmaHead + c * s.channel_bytes + s.table,
        static_cast<const T*>(p.weight) + int64_t(block.first_channel + c) * (int(p.kh) * int(p.kw)));
  async_wait_all();
#if __CUDA_ARCH__ >= 900
  if (a.plane_bytes) tma::barrier_wait(arrived, 0);
#endif
  return __syncthreads_or(taps_not_finite);
}

}  // namespace torch_conv::depthwise::large_mma
