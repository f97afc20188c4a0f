// TILE: a block of four warps computes one tile from shared memory, and is done.
//
//        <- pad ->                          <- pad ->      The window's rows less 1 + height rows of shared memory,
//      +----------+------------------------+----------+    brought by one bulk copy (or, where rows start anywhere, by
//      |          :      halo of rows      :          |    copies of single threads); pixels outside the image arrive
//      |          +------------------------+          |    as zeros, so zero borders are free, and blocks at an edge
//      |   halo   | warp 0: `rows` rows    |   halo   |    fill the halo for the other borders.
//      |  before  | warp 1                 |  after   |
//      |  left()  | warp 2                 | right()  |    A lane owns `lane_values` columns of its warp's rows. An
//      |  columns | warp 3                 |  columns |    input row that it reads is added to all rows of outputs
//      |          +------------------------+          |    that see it: once for a small window, and for a larger one
//      |          :                        :          |    once for each group of its rows (sums.cuh).
//      +----------+------------------------+----------+
//                                                          No pipeline inside a block: the 8 blocks resident on a
//                                                          multiprocessor overlap one another.
//
// A column is a value of a row: where channels are interleaved ((H, W, C) HWC images), the next tap lies `channels`
// columns further, and nothing else is different. Where channels are many, so that the next pixel's would lie beyond a
// tile, a group of them is an image of its own: a box holds the group's values of neighbouring pixels side by side, as
// if there were no others. Where channels have a window each, a lane owns whole pixels of a few of them (three channels
// of bytes: 12 values, four pixels), or one channel is made after the other: so taps are the same for all lanes. In
// groups lanes own words of channels, and hold their windows.
//
// Device memory per output pixel: 1 read (halos come from L2) and 1 write; 2 kh kw flops.
#pragma once

#include "core/cuda/extend.cuh"
#include "core/cuda/tma.cuh"
#include "kernels/direct2d/tile/sums.cuh"

namespace torch_conv::direct2d {

// What a kernel is compiled for: the window, the shape of its tiles, whether rows of outputs start on 16 bytes, whether
// columns are values of a group of channels (step_x of them, which other groups follow), channels with windows of their
// own.
template <typename T, typename O, int kh, int kw, int step_y, int step_x, int stride, bool kBulk, bool kAligned,
          bool kBias, bool kGroups, int own>
struct TileWork {
  static constexpr TileWindow window{kh, kw, step_y, step_x, stride, own, kGroups&& own};
  static constexpr TileShape shape = tile_shape(sizeof(T), sizeof(O), window, kBulk, kAligned);
  static constexpr bool spread = own ? by_channels(sizeof(T), window) : spread_columns(sizeof(T), sizeof(O), kAligned);
  static constexpr bool bulk = kBulk, aligned = kAligned, bias = kBias, groups = kGroups;
  static_assert(!kGroups || (kBulk && kAligned), "groups are stored as words straight from registers");

  // Groups of interleaved channels are read at once: a bulk copy brings whole lines of 128
  // bytes to L2, where the other groups find them. (One after the other, float32 5x5 of 1x64x1080x1920 is 552 us
  // instead of 305, one NVIDIA H200.)
  static __device__ __forceinline__ TilePosition place(const TileOrder& order) {
    return kGroups ? order.at_together(blockIdx.x) : order.at(blockIdx.x);
  }
  // Where column x of an image lies behind its row's first value.
  static __device__ __forceinline__ int offset(int x, [[maybe_unused]] int pixel) {
    if constexpr (kGroups) return x / step_x * pixel + x % step_x;
    else return x;
  }
};

// Blocks that a multiprocessor holds. Eight leave 64 registers, for which ptxas moves the taps to uniform registers: as
// a third register operand they cost multiply-adds their rate (one NVIDIA H200, 8192^2: float32 7x7 83 -> 90 % of copy,
// uint8 3x3 68 -> 84, float16 5x5 60 -> 81). Fewer where that many spill.
template <typename T>
constexpr int tile_min_blocks(const TileWindow& w, bool bulk) {
  const int k = w.kh > w.kw ? w.kh : w.kw, far = k > 5 && w.step_x > 7;  // neighbours share none of a row's values
  if (w.words) return int(4 / sizeof(T)) * w.kh * w.kw > 18 ? 4 : 6;
  if (k > 7 && w.stride > 1) return 4;
  if (k > 15) return 5;
  if (k > 7) return 8 - far;
  if ((k > 5 && (sizeof(T) < 4 || !bulk)) || (!bulk && sizeof(T) < 4 && w.step_x > 1)) return 6 - far;
  const bool many_taps = w.own == 4 && !by_channels(sizeof(T), w);
  return 8 - (far || many_taps);
}

template <typename T, typename O, int KH, int KW, int kStepY, int kStepX, int kStride, bool kBulk, bool kAligned,
          bool kBias, bool kGroups, int kOwn>
__global__ void __launch_bounds__(32 * TileShape::warps,
                                  tile_min_blocks<T>({KH, KW, kStepY, kStepX, kStride, kOwn, kGroups&& kOwn}, kBulk))
    direct2d_tile(const __grid_constant__ TensorMap map, const __grid_constant__ PlaneArgs a,
                  const __grid_constant__ ParamTaps param_taps) {
  using W = TileWork<T, O, KH, KW, kStepY, kStepX, kStride, kBulk, kAligned, kBias, kGroups, kOwn>;
  constexpr TileWindow w = W::window;
  constexpr TileShape shape = W::shape;
  constexpr int box_bytes = shape.box_bytes(sizeof(T), w);
  constexpr bool in_shared = taps_in_shared(w);
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  T* shared = reinterpret_cast<T*>(shared_bytes);
  [[maybe_unused]] __shared__ uint64_t barrier;

  const TilePosition at = W::place(a.order);
  const int x0 = int(at.x * shape.width()) - a.lead, y0 = at.y * shape.height();  // the tile's first output
  const int bx = x0 * kStride + a.shift_x - shape.pad,
            by = y0 * kStride + a.shift_y - w.above();  // the box's first input
  const unsigned ci = at.c / a.multiplier;
  const T* plane = a.planes.in_plane<T>(at.n, ci);

  if constexpr (kBulk) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr int pack = tma::pack_of(sizeof(T));
    if (threadIdx.x == 0) {
      tma::barrier_init(&barrier);
      tma::barrier_expect(&barrier, box_bytes);
      // bx is a multiple of 16 bytes (lead_columns), and of whole pixels of groups, also where it is negative.
      if constexpr (kGroups) tma::load_box(shared, &map, &barrier, at.c * kStepX, bx / kStepX, by, at.n);
      else tma::load_box(shared, &map, &barrier, bx / pack, by, ci, at.n);
    }
    __syncthreads();
#endif
  }

  // A small window stands in registers, larger ones and those of channels in shared memory behind the box.
  [[maybe_unused]] float tap[in_shared ? 1 : KH * KW];
  [[maybe_unused]] float* taps = reinterpret_cast<float*>(shared_bytes + box_bytes);
  const int64_t first_tap = at.n * a.taps_n + int64_t(at.c) * (w.words ? kOwn : 1) * a.taps_c;
  if constexpr (in_shared) {
    const float* all = param_taps.first<float>() + first_tap;
    for (int e = threadIdx.x; e < max(kOwn, 1) * KH * KW; e += 32 * TileShape::warps) {
      const int c = kOwn ? e / (KH * KW) : 0, i = e - c * (KH * KW);
      taps[w.words ? i * kOwn + c : (c * KH + i / KW) * tile_tap_pitch(KW) + i % KW] = all[c * a.taps_c + i];
    }
    if constexpr (kBulk) __syncthreads();
  } else {
    param_taps.read(tap, first_tap);
  }
  const float bias = kBias ? a.bias[at.c] : 0.f;

  const PhasedRows<T, shape.pitch(), kBulk ? 1 : kRowStart> box{
      shared, unsigned(reinterpret_cast<uintptr_t>(plane) + (by * a.planes.in_stride_h + bx) * int(sizeof(T))),
      unsigned(a.planes.in_stride_h) * unsigned(sizeof(T))};
  if constexpr (kBulk) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    tma::barrier_wait(&barrier, 0);
#endif
  } else {
    load_rows<shape.pitch() * sizeof(T), shape.box_rows(w), TileShape::warps>(a.planes, plane, shared, bx, by);
    async_wait_all();
    __syncthreads();
  }

  // One more register here, for the windows' start, makes ptxas keep uint8's taps in vector registers: 3x3 of
  // 8192^2 then takes 45 us instead of 40 (one NVIDIA H200).
  const int right = (min(x0 + shape.covered(), a.planes.out_w) - 1) * kStride + 1 + a.shift_x + w.right();
  const int bottom = (min(y0 + shape.height(), a.planes.out_h) - 1) * kStride + a.shift_y - w.above() + w.rows();
  const bool edge = bx + shape.pad - w.left() < 0 || by < 0 || right > a.planes.in_w || bottom > a.planes.in_h;
  const bool clear = edge && a.border == Border::zero_output;
  // What a bulk copy put outside is right.
  const bool zeros = kBulk && (clear || (a.border == Border::constant && a.value == 0.f));
  if (edge && (!zeros || a.peers.holds(by, a.planes.in_h) || a.peers.holds(bottom - 1, a.planes.in_h))) {
    extend_box<32 * TileShape::warps>(box, {0, bottom - by, shape.pad - w.left(), right - bx}, {by, bx}, plane,
                                      a.planes.in_stride_h, a.planes.in_h, a.planes.in_w, a.border,
                                      from_acc<T>(a.value), ShardRows{a.peers, at.n, ci}, {a.channels, a.in_pixel});
    __syncthreads();
  }

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, y = y0 + warp * shape.rows;
  const LaneOutput<T, O, W> out{.row = a.planes.out_at<O>(at.n, at.c, y, 0),
                                .y = y,
                                .tile = x0,
                                .bias = bias,
                                .stage = shared_bytes + shape.shared_bytes(sizeof(T), sizeof(O), w) -
                                         2 * (warp + 1) * shape.stage_bytes(sizeof(O))};
  const int top = warp * shape.rows * kStride, column = shape.pad + kStride * LaneRow<T, W>::column(lane, 0);
  if constexpr (w.words) sum_words<T, W>(a, box, top, column, out, taps);
  else if constexpr (by_channels(sizeof(T), w)) sum_channels<T, W>(a, box, top, column, out, taps);
  else if constexpr (kOwn) sum_pixels<T, W>(a, box, top, column, out, taps);
  else if constexpr (in_shared) sum_in_groups<T, W>(a, box, top, column, out, taps);
  else sum_unrolled<T, W>(a, box, top, column, out, tap);
  if (a.border == Border::zero_output) clear_where_outside<W, O>(a);
}

}  // namespace torch_conv::direct2d
