// TILE: a block of four warps computes one tile from shared memory.
//
//        <- pad ->                          <- pad ->      The box has the window's rows less 1 + height rows. One bulk
//      +----------+------------------------+----------+    copy loads it, or copies of single threads where rows start
//      |          :      halo of rows      :          |    anywhere. Pixels outside the image arrive as zeros: zero
//      |          +------------------------+          |    borders are free. For other borders, blocks at an edge fill
//      |   halo   | warp 0: `rows` rows    |   halo   |    the halo.
//      |  before  | warp 1                 |  after   |
//      |  left()  | warp 2                 | right()  |    A lane owns `lane_values` columns of its warp's rows. It
//      |  columns | warp 3                 |  columns |    reads an input row once, and adds it to all output rows
//      |          +------------------------+          |    that see it. With a larger window, it reads the row once
//      |          :                        :          |    for each group of the window's rows (sums.cuh).
//      +----------+------------------------+----------+
//                                                          A block has no pipeline: the 8 resident blocks of a
//                                                          multiprocessor overlap one another.
//
// A column is a value of a row. If channels are interleaved (HWC images), the next tap is `channels` columns
// further. With many channels the next pixel would be outside the tile. A group of channels is then a separate image,
// and a box holds the group's values of neighbouring pixels.
//
// Channels that have a window each: all lanes must use the same taps. A lane owns whole pixels of a few channels (three
// channels of bytes: 12 values, four pixels), or the block computes one channel after the other. In groups, lanes own
// 4-byte words of channels and hold the windows of these channels.
//
// Device memory per output pixel: 1 read (halos come from L2) and 1 write; 2 kh kw flops.
#pragma once

#include "core/cuda/extend.cuh"
#include "core/cuda/tma.cuh"
#include "kernels/direct2d/tile/sums.cuh"

namespace torch_conv::direct2d {

// Constants of a kernel that the functions in sums.cuh take. T, O: the elements of the input and of the output.
template <typename T, typename O, TilePolicy P>
struct TileTraits {
  static constexpr PlaneWindow window = P.window();
  static constexpr PlaneTileShape shape = tile_shape(sizeof(T), sizeof(O), window, P.bulk, P.aligned);
  static constexpr bool spread =
      P.channel_windows ? by_channels(sizeof(T), window) : spread_columns(sizeof(T), sizeof(O), P.aligned);
  static constexpr bool bulk = P.bulk, aligned = P.aligned, bias = P.bias, groups = P.groups;
  static_assert(!groups || (bulk && aligned), "groups are stored as words straight from registers");

  // Blocks of all groups of a tile run together: a bulk copy brings whole lines of 128 bytes to L2, which serves the
  // other groups. float32 5x5 on 1x64x1080x1920, one NVIDIA H200, us: all groups together 305, one group after the
  // other 552.
  static __device__ __forceinline__ TilePosition position(const TileOrder& order) {
    return groups ? order.at_together(blockIdx.x) : order.at(blockIdx.x);
  }
  // Elements from a row's first value to column x of an image.
  static __device__ __forceinline__ int offset(int x, [[maybe_unused]] int pixel) {
    if constexpr (groups) return x / P.dilation_x * pixel + x % P.dilation_x;
    else return x;
  }
};

// Resident blocks. Eight leave 64 registers to a thread, for which ptxas moves the taps to uniform registers: three
// vector operands would slow a multiply-add. Fewer blocks are resident where 64 registers spill. Percent of copy,
// 8192^2, one NVIDIA H200, taps in vector registers and in uniform registers:
//
//     float32 7x7 83, 90; uint8 3x3 68, 84; float16 5x5 60, 81
//
template <typename T>
constexpr int tile_min_blocks(const PlaneWindow& w, bool bulk) {
  const int k = w.kh > w.kw ? w.kh : w.kw, far = k > 5 && w.dilation_x > 7;  // neighbours share none of a row's values
  if (w.by_words) return int(4 / sizeof(T)) * w.kh * w.kw > 18 ? 4 : 6;
  if (k > 7 && w.stride > 1) return 4;
  if (k > 15) return 5;
  if (k > 7) return 8 - far;
  if ((k > 5 && (sizeof(T) < 4 || !bulk)) || (!bulk && sizeof(T) < 4 && w.dilation_x > 1)) return 6 - far;
  const bool many_taps = w.channel_windows == 4 && !by_channels(sizeof(T), w);
  return 8 - (far || many_taps);
}

template <typename T, typename O, TilePolicy P>
__global__ void __launch_bounds__(32 * PlaneTileShape::warps, tile_min_blocks<T>(P.window(), P.bulk))
    direct2d_tile(const __grid_constant__ TensorMap map, const __grid_constant__ PlaneArgs a,
                  const __grid_constant__ ParamTaps param_taps) {
  using W = TileTraits<T, O, P>;
  constexpr PlaneWindow w = W::window;
  constexpr PlaneTileShape shape = W::shape;
  constexpr int kBoxBytes = shape.box_bytes(sizeof(T), w), kTaps = P.kh * P.kw;
  constexpr bool kInShared = taps_in_shared(w);
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  T* shared = reinterpret_cast<T*>(shared_bytes);
  [[maybe_unused]] __shared__ uint64_t barrier;

  const TilePosition at = W::position(a.order);
  const int x0 = int(at.x * shape.width()) - a.lead, y0 = at.y * shape.height();  // the tile's first output
  const int bx = x0 * P.stride + a.shift_x - shape.pad,
            by = y0 * P.stride + a.shift_y - w.above();  // the box's first input
  const unsigned ci = at.c / a.multiplier;
  const T* plane = a.planes.in_plane<T>(at.n, ci);

  if constexpr (P.bulk) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr int kPack = tma::pack_of(sizeof(T));
    if (threadIdx.x == 0) {
      tma::barrier_init(&barrier);
      tma::barrier_expect(&barrier, kBoxBytes);
      // bx is a multiple of 16 bytes (lead_columns), and of whole pixels of groups, also where it is negative.
      if constexpr (P.groups) tma::load_box(shared, &map, &barrier, at.c * P.dilation_x, bx / P.dilation_x, by, at.n);
      else tma::load_box(shared, &map, &barrier, bx / kPack, by, ci, at.n);
    }
    __syncthreads();
#endif
  }

  // Taps of a small window stay in registers. Shared memory holds the taps of larger windows, and of a window for each
  // channel, after the box.
  [[maybe_unused]] float tap[kInShared ? 1 : kTaps];
  [[maybe_unused]] float* taps = reinterpret_cast<float*>(shared_bytes + kBoxBytes);
  const int64_t first_tap = at.n * a.taps_n + int64_t(at.c) * (w.by_words ? w.channel_windows : 1) * a.taps_c;
  if constexpr (kInShared) {
    const float* all = param_taps.first<float>() + first_tap;
    for (int e = threadIdx.x; e < max(w.channel_windows, 1) * kTaps; e += 32 * PlaneTileShape::warps) {
      const int c = w.channel_windows ? e / kTaps : 0, i = e - c * kTaps;
      taps[w.by_words ? i * w.channel_windows + c : (c * P.kh + i / P.kw) * tile_tap_pitch(P.kw) + i % P.kw] =
          all[c * a.taps_c + i];
    }
    if constexpr (P.bulk) __syncthreads();
  } else {
    param_taps.read(tap, first_tap);
  }
  const float bias = P.bias ? a.bias[at.c] : 0.f;

  const PhasedRows<T, shape.pitch(), P.bulk ? 1 : kRowStart> box{
      shared, unsigned(reinterpret_cast<uintptr_t>(plane) + (by * a.planes.in_stride_h + bx) * int(sizeof(T))),
      unsigned(a.planes.in_stride_h) * unsigned(sizeof(T))};
  if constexpr (P.bulk) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    tma::barrier_wait(&barrier, 0);
#endif
  } else {
    load_rows<shape.pitch() * sizeof(T), shape.box_rows(w), PlaneTileShape::warps>(a.planes, plane, shared, bx, by);
    async_wait_all();
    __syncthreads();
  }

  // A register for the windows' start would make ptxas keep the taps of uint8 in vector registers. 3x3 on 8192^2, one
  // NVIDIA H200, us: 45 with the register, 40 without.
  const int right = (min(x0 + shape.covered(), a.planes.out_w) - 1) * P.stride + 1 + a.shift_x + w.right();
  const int bottom = (min(y0 + shape.height(), a.planes.out_h) - 1) * P.stride + a.shift_y - w.above() + w.rows();
  const bool edge = bx + shape.pad - w.left() < 0 || by < 0 || right > a.planes.in_w || bottom > a.planes.in_h;
  const bool clear = edge && a.border == Border::zero_output;
  // A bulk copy's zeros outside the image are right.
  const bool zeros = P.bulk && (clear || (a.border == Border::constant && a.value == 0.f));
  if (edge && (!zeros || a.peers.holds(by, a.planes.in_h) || a.peers.holds(bottom - 1, a.planes.in_h))) {
    extend_box<32 * PlaneTileShape::warps>(
        box, {0, bottom - by, shape.pad - w.left(), right - bx}, {by, bx}, plane, a.planes.in_stride_h, a.planes.in_h,
        a.planes.in_w, a.border, from_acc<T>(a.value), ShardRows{a.peers, at.n, ci}, {a.channels, a.in_pixel});
    __syncthreads();
  }

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, y = y0 + warp * shape.rows;
  const LaneOutput<T, O, W> out{.row = a.planes.out_at<O>(at.n, at.c, y, 0),
                                .y = y,
                                .tile = x0,
                                .bias = bias,
                                .stage = shared_bytes + shape.shared_bytes(sizeof(T), sizeof(O), w) -
                                         2 * (warp + 1) * shape.stage_bytes(sizeof(O))};
  const int top = warp * shape.rows * P.stride, column = shape.pad + P.stride * LaneRow<T, W>::column(lane, 0);
  if constexpr (w.by_words) sum_words<T, W>(a, box, top, column, out, taps);
  else if constexpr (by_channels(sizeof(T), w)) sum_channels<T, W>(a, box, top, column, out, taps);
  else if constexpr (P.channel_windows) sum_pixels<T, W>(a, box, top, column, out, taps);
  else if constexpr (kInShared) sum_in_groups<T, W>(a, box, top, column, out, taps);
  else sum_unrolled<T, W>(a, box, top, column, out, tap);
  if (a.border == Border::zero_output) clear_where_outside<W, O>(a);
}

}  // namespace torch_conv::direct2d
