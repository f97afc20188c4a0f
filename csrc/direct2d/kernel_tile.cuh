// TILE: a block of four warps computes one tile from shared memory, and is done.
//
//        <- pad ->                          <- pad ->      KH - 1 + height rows of shared memory, brought by one bulk
//      +----------+------------------------+----------+    copy (or by plain loads); pixels outside the image arrive
//      |          :      halo of rows      :          |    as zeros, so zero borders are free, and blocks at an edge
//      |          +------------------------+          |    fill the halo for the other borders.
//      |   halo   | warp 0: `rows` rows    |   halo   |
//      |  before  | warp 1                 |  after   |    A lane owns `lane_pixels` columns of its warp's rows. An
//      |  KW / 2  | warp 2                 |  KW / 2  |    input row that it reads is added to all rows of outputs
//      |  columns | warp 3                 |  columns |    that see it: once for a small window, and for a larger one
//      |          +------------------------+          |    once for each group of its rows (tile_sums.cuh).
//      |          :                        :          |
//      +----------+------------------------+----------+    No pipeline inside a block: the 8 blocks resident on a
//                                                          multiprocessor overlap one another.
//
// Device memory per output pixel: 1 read (halos come from L2) and 1 write; 2 KH KW flops.
#pragma once

#include "core/extend.cuh"
#include "core/tma.cuh"
#include "direct2d/tile_sums.cuh"

namespace torch_conv::direct2d {

template <typename T, int KH, int KW>
constexpr int tile_min_blocks() {
  // Register caps: 7x7 float32 at 64 registers makes ptxas move the taps to uniform registers (83 -> 92 % of copy at
  // 8192^2 on one NVIDIA H200); the others are the most blocks without spills.
  constexpr int K = KH > KW ? KH : KW;
  if (K > 15) return 5;
  if (K > 7 && (sizeof(T) > 1 || !taps_in_registers(KH, KW))) return 8;
  if (sizeof(T) == 4) return K == 4 || K == 5 ? 7 : 8;
  if (sizeof(T) == 2) return K <= 3 ? 8 : K <= 5 ? 5 : 4;
  return K <= 5 ? 5 : 4;
}

template <typename T, int KH, int KW, bool kBulk, bool kAligned>
__global__ void __launch_bounds__(32 * TileShape::warps, tile_min_blocks<T, KH, KW>())
    direct2d_tile(const __grid_constant__ TensorMap map, const __grid_constant__ PlaneArgs a,
                  const __grid_constant__ ParamTaps param_taps) {
  using A = acc_t<T>;
  constexpr TileShape shape = tile_shape(sizeof(T), KH, KW);
  constexpr int N = shape.lane_pixels, L = middle_of(KW), R = KW - 1 - L, pitch = shape.shared_width();
  constexpr bool in_groups = !taps_in_registers(KH, KW);
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  T* shared = reinterpret_cast<T*>(shared_bytes);
  [[maybe_unused]] __shared__ uint64_t barrier;

  const TilePlace at = a.order.at(blockIdx.x);
  const int x0 = int(at.x * shape.width()) - a.lead, y0 = at.y * shape.height();   // the tile's first output
  const int bx = x0 + a.shift_x - shape.pad, by = y0 + a.shift_y - middle_of(KH);  // the box's first input
  const unsigned ci = at.c / a.multiplier;
  const T* plane = a.planes.in_plane<T>(at.n, ci);

  if constexpr (kBulk) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr int pack = tma::pack_of(sizeof(T));
    if (threadIdx.x == 0) {
      tma::barrier_init(&barrier);
      tma::barrier_expect(&barrier, shape.box_bytes(sizeof(T), KH));
      // bx is a multiple of 16 bytes (lead_columns), also where it is negative.
      tma::load_box(shared, &map, &barrier, bx / pack, by, ci, at.n);
    }
    __syncthreads();
#endif
  }

  // A small window stands in registers, a large one in shared memory behind the box.
  [[maybe_unused]] A tap[in_groups ? 1 : KH * KW];
  [[maybe_unused]] A* taps = reinterpret_cast<A*>(shared_bytes + shape.box_bytes(sizeof(T), KH));
  const int64_t first_tap = at.n * a.taps_n + at.c * a.taps_c;
  if constexpr (in_groups) {
    const A* all = param_taps.first<A>() + first_tap;
    for (int i = threadIdx.x; i < KH * KW; i += 32 * TileShape::warps)
      taps[i / KW * tile_tap_pitch(KW) + i % KW] = all[i];
    if constexpr (kBulk) __syncthreads();
  } else {
    param_taps.read(tap, first_tap);
  }
  const A bias = a.bias ? a.bias[at.c] : A(0);

  if constexpr (kBulk) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    tma::barrier_wait(&barrier, 0);
#endif
  } else {
    load_tile_plain<T, KH, KW>(a, plane, shared, bx, by);
    __syncthreads();
  }

  const int right = min(x0 + shape.width(), a.planes.out_w) + a.shift_x + R;
  const int bottom = min(y0 + shape.height(), a.planes.out_h) + a.shift_y + KH - 1 - middle_of(KH);
  const bool edge = bx + shape.pad - L < 0 || by < 0 || right > a.planes.in_w || bottom > a.planes.in_h;
  const bool mask = edge && a.border == Border::zero_output;
  const bool zeros = mask || (a.border == Border::constant && a.value == A(0));  // what the copy put outside is right
  if (edge && (!zeros || a.beside.holds(by, a.planes.in_h) || a.beside.holds(bottom - 1, a.planes.in_h))) {
    extend_box<32 * TileShape::warps>(shared, pitch, {0, bottom - by, shape.pad - L, right - bx}, {by, bx}, plane,
                                      a.planes.in_stride_h, a.planes.in_h, a.planes.in_w, a.border,
                                      from_acc<T>(a.value), ShardRows{a.beside, at.n, ci});
    __syncthreads();
  }

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int y = y0 + warp * shape.rows, x = x0 + lane * N;
  const T* from = shared + warp * shape.rows * pitch + shape.pad + lane * N;
  T* row = a.planes.out_at<T>(at.n, at.c, y, 0);
  const LaneOutput<T> out{row, y, x, bias, mask};
  if constexpr (in_groups) sum_in_groups<T, KH, KW, kAligned>(a, from, out, taps);
  else sum_unrolled<T, KH, KW, kAligned>(a, from, out, tap);
}

}  // namespace torch_conv::direct2d
