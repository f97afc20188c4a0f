// MMA_GENERAL: the bits of MMA for any of its windows, with all sizes at run time.
//
// clang-format off
//     shared memory                             a warp: 16 patches in a row (the rows of the left matrix),
//     +--------------------------------+        two rows of patches at a time
//     | box of one channel             |
//     |  +--------------------------+  |          0 0 0 0 1 1 1 1 2 2 2 2 ...
//     |  | MMA's tile of outputs    |  |          0 0 0 0 1 1 1 1 2 2 2 2 ...
//     |  +--------------------------+  |          0 0 0 0 1 1 1 1 2 2 2 2 ...
//     +--------------------------------+          0 0 0 0 1 1 1 1 2 2 2 2 ...
//     | taps, matrices of taps         |
//     +--------------------------------+
// clang-format on
//
// An output has the bits of MMA because it is the sum of the same sequence of mma. Patch, scale and parts of the taps
// are the same, and so is every product's position in its mma. The order is: pairs of rows, spans, parts from the
// smallest.
//
// Zeros of a matrix times Inf or NaN are NaN: the plain chain computes each output again that is not finite. A tile is
// MMA's tile, and zeros multiply the same elements outside of windows. So both compute the same outputs again.
//
// Single threads load the box through the border map. Matrices of taps are in shared memory, in the order of their use.
//
// Device memory per output pixel: 1 read, 1 write; mma: as many as MMA has. A lane reads 4 words of pixels for the mma
// of all parts, and 2 words of taps for 2 mma.
#pragma once

#include "core/cuda/extend.cuh"
#include "core/cuda/mma.cuh"
#include "core/taps.h"
#include "kernels/direct2d/mma/outputs.cuh"
#include "kernels/direct2d/mma/taps.cuh"
#include "kernels/direct2d/mma_general/params.h"

namespace torch_conv::direct2d {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace mma_general {

// The inputs of the windows of a tile's outputs inside the image.
struct Inputs {
  int left, top, right, bottom;
};

// Fills a box that starts `shift` columns before the inputs. Inputs outside the image follow the border policy; other
// elements outside the image are 0, as in MMA.
template <typename T>
__device__ __forceinline__ void load_box(const SharedTile<T>& box, const MmaGeneralArgs& args, Inputs inputs, int shift,
                                         TilePosition at) {
  const MmaArgs& a = args.mma;
  const int h = a.planes.in_h, w = a.planes.in_w, lane = threadIdx.x % 32;
  const unsigned ci = a.multiplier.divide(at.c);
  const T* const plane = a.planes.in_plane<T>(at.n, ci);
  const ShardRows shards{a.peers, at.n, ci};
#pragma unroll 1
  for (int r = threadIdx.x / 32; r < args.shape.box_h(); r += kMmaGeneralWarps) {
    const int y = inputs.top + r;
    const bool own = unsigned(y) < unsigned(h), seen = y < inputs.bottom;
    const int source = own || seen ? shards.map_row(y, h, a.border) : PeerRows::kOutside;
    const T* const row = shards.stands(source) ? shards.row(plane, a.planes.in_stride_h, source, h) : nullptr;
#pragma unroll 1
    for (int i = lane; i < box.pitch; i += 32) {
      const int x = inputs.left - shift + i;
      T pixel = from_acc<T>(0.f);
      if (own && unsigned(x) < unsigned(w)) {
        pixel = row[int64_t(x) * args.pixel];
      } else if (seen && x >= inputs.left && x < inputs.right) {
        const int column = map_index(x, w, a.border);
        pixel = row && column >= 0 ? row[int64_t(column) * args.pixel] : from_acc<T>(a.value);
      }
      box.row(r)[i] = pixel;
    }
  }
}

// Writes the lanes' words of the right matrices, in the order of their use: pair, span, parts from the smallest on.
template <typename T, int kParts>
__device__ __forceinline__ void make_bands(uint2* bands, const MmaShape& s, const float* taps, float scale, int shift) {
  const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
#pragma unroll 1
  for (int i = threadIdx.x / 32; i < s.pairs * s.spans; i += kMmaGeneralWarps) {
    unsigned words[2][kParts];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float* two_taps = taps + s.tap_of(i / s.spans, i % s.spans, MmaLane::b_k(q, r), g, shift);
      float two[2] = {two_taps[0] * scale, two_taps[1] * scale};
#pragma unroll
      for (int part = 0; part < kParts; ++part) words[r][part] = mma::take_part<T>(two);
    }
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      bands[(i * kParts + kParts - 1 - part) * 32 + lane] = {words[0][part], words[1][part]};
  }
}

// Computes one output again where zeros of a matrix times Inf or NaN made it NaN.
template <typename T>
__device__ __noinline__ T correct_output(const MmaShape& s, SharedTile<T> box, int row, int column, const float* taps,
                                         float bias) {
  return mma::plain_output<T>(s, box, row, column, 1, taps, bias);
}

}  // namespace mma_general

#endif

template <typename T, bool kNarrow>
__global__ void __launch_bounds__(32 * kMmaGeneralWarps, kMmaGeneralBlocks)
    direct2d_mma_general(const __grid_constant__ MmaGeneralArgs args, const __grid_constant__ ParamTaps param_taps) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace mma_general;
  constexpr bool kScaled = std::is_same_v<T, half_t> && !kNarrow;
  constexpr int kParts = mma_parts(kScaled, kNarrow), kSteps = 2;
  const MmaArgs& a = args.mma;
  const MmaShape& s = args.shape;
  extern __shared__ __align__(128) unsigned char mma_general_shared[];
  uint2* const bands = reinterpret_cast<uint2*>(mma_general_shared);
  float* const taps = reinterpret_cast<float*>(mma_general_shared + args.memory.taps_at);
  const SharedTile<T> box{reinterpret_cast<T*>(mma_general_shared + args.memory.box_at), args.memory.pitch};
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, q = lane % 4;

  const TilePosition at = a.order.at(blockIdx.x);
  const int x0 = int(at.x) * args.step, y0 = int(at.y) * s.height;  // the tile's first output
  const int width = min(s.width(), a.planes.out_w - x0), height = min(s.height, a.planes.out_h - y0);
  const int left = x0 - a.pad_x, top = y0 - a.pad_y, shift = s.shifts() ? left & 1 : 0;
  load_box(box, args, {left, top, left + width + s.kw - 1, top + height + s.kh - 1}, shift, at);

  using Tap = std::conditional_t<kNarrow, T, float>;
  const Tap* const all = param_taps.first<Tap>() + at.n * a.taps_n + at.c * a.taps_c;
#pragma unroll 1
  for (int e = threadIdx.x; e < s.all_taps(); e += 32 * kMmaGeneralWarps) {
    const int i = e / s.taps_w() - (s.patch_h - 1), j = e % s.taps_w() - s.patch_w;
    taps[e] = i >= 0 && i < s.kh && j >= 0 && j < s.kw ? to_acc<float>(all[i * s.kw + j]) : 0.f;
  }
  __syncthreads();
  int exponent = 0;
  if constexpr (kScaled) {
    unsigned largest = 0;
    for (int e = lane; e < s.all_taps(); e += 32) largest = max(largest, __float_as_uint(taps[e]) & 0x7fffffff);
    exponent = mma::scale_exponent(__reduce_max_sync(~0u, largest));
  }
  make_bands<T, kParts>(bands, s, taps, mma::power_of_two(exponent), shift);
  __syncthreads();

  const float back = mma::power_of_two(-exponent), bias = a.bias ? a.bias[at.c] : 0.f;
  T* const plane = a.planes.out_plane<T>(at.n, at.c);
  const int across = s.width() / (16 * s.patch_w), subtiles = across * s.steps() / kSteps;
#pragma unroll 1
  for (int subtile = warp; subtile < subtiles; subtile += kMmaGeneralWarps) {
    const int x = subtile % across * 16 * s.patch_w, y = subtile / across * kSteps * s.patch_h;  // in the tile
    if (x >= width || y >= height) continue;
    float sum[kSteps][4] = {};
    const uint2* band = bands + lane;
#pragma unroll 1
    for (int pair = 0; pair < s.pairs; ++pair)
#pragma unroll 1
      for (int span = 0; span < s.spans; ++span, band += 32 * kParts) {
        unsigned pixels[kSteps][4];
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            const int row = y + step * s.patch_h + 2 * pair + s.pixel_y(MmaLane::a_k(q, r));
            const int column = x + s.patch_w * MmaLane::a_m(g, r) + 8 * span + MmaLane::a_k(q, r) % 8;
            pixels[step][r] = *reinterpret_cast<const unsigned*>(box.row(row) + column);
          }
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const uint2 words = band[32 * part];
#pragma unroll
          for (int step = 0; step < kSteps; ++step) mma_add<T>(sum[step], pixels[step], words.x, words.y);
        }
      }
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int n = MmaLane::d_n(q, r), row = y + step * s.patch_h + s.output_y(n);
        const int column = x + s.patch_w * MmaLane::d_m(g, r) + n % s.patch_w;
        if (column >= width || row >= height) continue;
        T output = from_acc<T>(fmaf(sum[step][r], back, bias));
        const float value = to_acc<float>(output);
        if (a.border == Border::zero_output && mma::overlaps_edge(s, a, x0 + column, y0 + row))
          output = from_acc<T>(0.f);
        else if (value - value != 0) output = correct_output(s, box, row, column + shift, taps, bias);
        plane[(y0 + row) * a.planes.out_stride_h + int64_t(x0 + column) * args.pixel] = output;
      }
  }
#endif
}

}  // namespace torch_conv::direct2d
