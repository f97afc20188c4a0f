// MMA: a block's tile, its box of the image, and the matrices of taps.
#pragma once

#include "core/cuda/extend.cuh"
#include "core/cuda/round_pair.cuh"
#include "core/cuda/tma.cuh"
#include "core/cuda/unaligned_rows.cuh"
#include "core/taps.h"
#include "kernels/direct2d/mma/params.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace torch_conv::direct2d {

extern __shared__ __align__(128) unsigned char mma_shared[];

namespace mma {

// A block's outputs, and the box of the image under their windows in shared memory.
template <typename T, MmaPolicy P>
struct Tile {
  static constexpr MmaShape s = P.shape();
  static_assert(!P.bulk || (s.box_w() / s.pack() <= 256 && s.box_h() <= 256));  // the largest box of a bulk copy
  static constexpr int kThreads = 32 * s.warps();

  const MmaArgs& a;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, q = lane % 4;
  const TilePosition at;
  const unsigned ci;    // channel of the input
  const int x0, y0;     // the first output
  const int left, top;  // the first input of its window
  const int shift;      // columns of the matrices in front of a window; the same in all tiles
  const int start, bx;  // the matrices' and the box's first element of a row
  const T* const in;
  const PhasedRows<T, s.box_w(), P.bulk ? 1 : kRowStart> box;

  __device__ __forceinline__ explicit Tile(const MmaArgs& a)
      : a(a),
        at(a.order.at(blockIdx.x)),
        ci(a.multiplier.divide(at.c)),
        x0(int(at.x) * s.step(!P.aligned)),
        y0(int(at.y) * s.height),
        left(x0 - a.pad_x),
        top(y0 - a.pad_y),
        shift(s.shifts() ? left & 1 : 0),
        start((left - shift) * P.channels),
        bx(P.bulk ? start & -s.align : start),
        in(a.planes.in_plane<T>(at.n, ci)),
        box{reinterpret_cast<T*>(mma_shared),
            unsigned(reinterpret_cast<uintptr_t>(in) + (top * a.planes.in_stride_h + bx) * int(sizeof(T))),
            unsigned(a.planes.in_stride_h) * unsigned(sizeof(T))} {}

  static __device__ __forceinline__ float* taps() { return reinterpret_cast<float*>(mma_shared + s.taps_at()); }
  static __device__ __forceinline__ uint64_t* barrier() {
    return reinterpret_cast<uint64_t*>(mma_shared + s.barrier_at());
  }

  // Starts the copies of the box. wait_box() waits for them.
  __device__ __forceinline__ void load_box(const TensorMap& map) const {
    if constexpr (!P.bulk) {
      static_assert(s.align * sizeof(T) == kRowStart);
      PlaneGeometry rows = a.planes;
      rows.in_w *= P.channels;
      load_rows<s.box_w() * int(sizeof(T)), s.box_h(), s.warps()>(rows, in, box.data, bx, top);
    } else if (threadIdx.x == 0) {
      tma::barrier_init(barrier());
      tma::barrier_expect(barrier(), s.taps_at());
      tma::load_box(box.data, &map, barrier(), bx / s.pack(), top, ci, at.n);
    }
  }
  __device__ __forceinline__ void wait_box() const {
    if constexpr (P.bulk) {
      tma::barrier_wait(barrier(), 0);
    } else {
      async_wait_all();
      __syncthreads();
    }
  }

  // Fills the part of the box outside the image. Inputs of windows end at (right, bottom).
  __device__ __forceinline__ void extend(int right, int bottom) const {
    extend_box<kThreads>(box, {0, bottom - top, left * P.channels - bx, right * P.channels - bx}, {top, bx}, in,
                         a.planes.in_stride_h, a.planes.in_h, a.planes.in_w * P.channels, a.border,
                         from_acc<T>(a.value), ShardRows{a.peers, at.n, ci}, {P.channels, P.channels});
    // Matrices read elements outside all windows, and zeros times NaN are NaN. The block clears such elements: the
    // column before shifted windows, and rows below the last window.
    if (!P.bulk && left < 0)
      for (int r = threadIdx.x; r < s.box_h(); r += kThreads)
#pragma unroll 1
        for (int i = 0, end = r < bottom - top ? shift * P.channels : -bx; i < end; ++i)
          box.row(r)[i] = from_acc<T>(0.f);
    __syncthreads();
  }
};

// Rounds two numbers to elements of T in one word, and subtracts these from the numbers.
template <typename T>
__device__ __forceinline__ unsigned take_part(float (&two)[2]) {
  const unsigned word = round_pair<T>(two[0], two[1]);
  T parts[2];
  memcpy(parts, &word, sizeof(parts));
  two[0] -= to_acc<float>(parts[0]);
  two[1] -= to_acc<float>(parts[1]);
  return word;
}

// The lane's words of the right matrices. Column n of a matrix holds the taps at the position of output n, between
// zeros. The taps of neighbouring columns form a band.
template <typename T, MmaPolicy P>
struct Bands {
  static constexpr MmaShape s = P.shape();
  static constexpr bool kScaled = std::is_same_v<T, half_t> && !P.narrow;
  static constexpr int kParts = mma_parts(kScaled, P.narrow);

  float scale[P.windows], back[P.windows];  // of a window's taps, and of its sums
  unsigned words[P.windows][s.group][s.spans][kParts][2];

  // All threads write the windows' taps between zeros to shared memory, and compute the scales.
  __device__ __forceinline__ void place_taps(const Tile<T, P>& tile, const ParamTaps& from) {
    using Tap = std::conditional_t<P.narrow, T, float>;
    float* const taps = tile.taps();
    unsigned* const largest_of_warps = reinterpret_cast<unsigned*>(tile.barrier() + 1);
    [[maybe_unused]] unsigned largest[P.windows] = {};
#pragma unroll
    for (int window = 0; window < P.windows; ++window) {
      const Tap* all = from.first<Tap>() + tile.at.n * tile.a.taps_n + (tile.at.c + window) * tile.a.taps_c;
#pragma unroll 1
      for (unsigned e = threadIdx.x; e < s.all_taps(); e += tile.kThreads) {
        const int i = int(e / s.taps_w()) - (s.patch_h - 1), j = int(e % s.taps_w()) - s.patch_w;
        const float tap = i >= 0 && i < P.kh && j >= 0 && j < P.kw ? to_acc<float>(all[i * P.kw + j]) : 0.f;
        taps[window * s.all_taps() + e] = tap;
        largest[window] = max(largest[window], __float_as_uint(tap) & 0x7fffffff);
      }
      if constexpr (kScaled) {
        largest[window] = __reduce_max_sync(~0u, largest[window]);
        if (tile.lane == 0) largest_of_warps[window * s.warps() + tile.warp] = largest[window];
      }
    }
    __syncthreads();
#pragma unroll
    for (int window = 0; window < P.windows; ++window) {
      scale[window] = back[window] = 1;
      if constexpr (kScaled) {
#pragma unroll
        for (int i = 0; i < s.warps(); ++i)
          largest[window] = max(largest[window], largest_of_warps[window * s.warps() + i]);
        const int exponent = min(127 + 14 - int(largest[window] >> 23), 126);
        scale[window] = __uint_as_float(unsigned(127 + exponent) << 23);
        back[window] = __uint_as_float(unsigned(127 - exponent) << 23);
      }
    }
  }

  // Makes the words of a group of pairs of rows.
  __device__ __forceinline__ void make(const Tile<T, P>& tile, int group) {
    const float* lane_taps = tile.taps() + s.tap_of(group * s.group, 0, MmaLane::b_k(tile.q, 0), tile.g, tile.shift);
#pragma unroll
    for (int window = 0; window < P.windows; ++window)
#pragma unroll
      for (int pair = 0; pair < s.group; ++pair)
#pragma unroll
        for (int span = 0; span < s.spans; ++span)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const int further = s.tap_of(pair, span, MmaLane::b_k(0, r), 0, 0) - s.tap_of(0, 0, 0, 0, 0);
            const float* two_taps = lane_taps + window * s.all_taps() + further;
            float two[2] = {two_taps[0] * scale[window], two_taps[1] * scale[window]};
#pragma unroll
            for (int part = 0; part < kParts; ++part) words[window][pair][span][part][r] = take_part<T>(two);
          }
  }
};

}  // namespace mma

}  // namespace torch_conv::direct2d

#endif
