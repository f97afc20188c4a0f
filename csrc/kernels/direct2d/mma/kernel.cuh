// MMA: windows over 16-bit images on tensor cores (mma.sync m16n8k16, sums in float32).
//
// clang-format off
//  a tile: 256 x 24 or 32 outputs of a plane    8 columns of lane group g, window 5x5
//
//    <-          box_w          ->               . . . . . . . . . . . .    A patch of 2x4 outputs (0, 1) is row g or
//  +-------------------------------+ ^           . . . . . . . . . . . .    g + 8 of the left matrix. Its windows see
//  |  :       halo of rows      :  | |           . . 0 0 0 0 1 1 1 1 . .    6 x 8 pixels: three mma of 2 x 8 pixels.
//  |  +------+------+-----+-----+  | |           . . 0 0 0 0 1 1 1 1 . .
//  |  |warp 0|warp 1|  2  |  3  |  | | box_h     . . . . . . . . . . . .
//  |  +------+------+-----+-----+  | |           . . . . . . . . . . . .
//  |  :       halo of rows      :  | |
//  +-------------------------------+ v           outputs (16 patches x 8) +=
//                                                  pixels (16 patches x 16) * taps (16 pixels x 8 outputs)
// clang-format on
//
// The box starts on 32 bytes, and one bulk copy loads it. If rows are not aligned, single threads copy each row, and
// keep its offset from 32 bytes. Unaligned rows of outputs wait in shared memory and leave as vectors of 16 bytes.
//
// A lane reads the pixels of a pair of rows once, as words of two pixels. The lane multiplies the words with the taps
// of all rows of patches over the pair. With two to four interleaved channels, a lane reads the words of all channels
// and keeps sums for each. The warp puts whole pixels together in shared memory. Such tiles are 128 pixels wide, of two
// or four warps.
//
// A warp makes the matrices of taps while the box loads, and keeps them in registers. For a large window, a warp keeps
// three pairs of rows at a time, and the sums of all outputs. A tap is a sum of two or three parts of the image's
// dtype, which is as exact as float32 and takes as many mma. Taps of float16 are scaled by a power of two that brings
// the largest to 2^14.
//
// Device memory per output pixel: 1 read, 1 write; 2 KH KW flops. mma for 128 outputs and one part of the taps: 5x5 3,
// 7x7 5, 9x9 10, 15x15 18, 31x31 72. Half to four fifths of the matrices' elements are taps.
//
// Zeros of a matrix times Inf or NaN are NaN: a warp with such sums computes them again by the plain chain.
#pragma once

#include "core/cuda/extend.cuh"
#include "core/cuda/half_bits.cuh"
#include "core/cuda/mma.cuh"
#include "core/cuda/round_pair.cuh"
#include "core/cuda/tma.cuh"
#include "core/cuda/unroll.cuh"
#include "core/taps.h"
#include "kernels/direct2d/mma/outputs.cuh"
#include "kernels/direct2d/mma/taps.cuh"

namespace torch_conv::direct2d {

// Resident blocks, by the words of taps that a lane holds. With interleaved channels: resident warps, by the registers
// that taps, sums and pixels take (`held`). A few spilled words cost less than fewer warps. With patches of two rows,
// only 5x5 was measured with 16 warps.
//
//     float16 8192^2, one NVIDIA H200, us of blocks
//       20 words: 7x7 6 76.9, 7 77.7; 9x9 6 73.2, 7 74.5     40 words: 9x9 4 106.8, 5 109.8
//       36 words: 15x15 4 114.9, 5 124.2                     72 words: 15x15 3 177.2, 4 187.9
//     three channels, 16x1080x1920, one NVIDIA H100, us of 8, 12 and 16 warps (held)
//       float16   5x5 (72) -, 143, 154       7x7 (80) -, 162, 149           9x9 (148) 206, 191, -
//                 15x15 (180) 315, 305, -    31x31 (132) 1403, 1350, -      15x15, narrow taps (144) -, 208, 233
//       bfloat16  7x7 (90) -, 169, 162       15x15 (216) 398, 497, -
//     four channels of float16               7x7 (100) -, 152, 156          15x15 (216) 302, 383, -
//     a window for each of three channels, 8x1080x1920, us of 8 and 12 warps
//       5x5 (96) 78, 79    7x7 (120) 85, 86    9x9 (180) 146, 188, narrow taps (144) 112, 107    15x15 (132) 257, 241
//     a window for each of four channels, 6x1080x1920
//       5x5 (128) 78, 89    9x9, narrow taps (192) 108, 183    15x15 (176) 300, 356
template <typename T, MmaPolicy P>
constexpr int mma_min_blocks() {
  constexpr MmaShape s = P.shape();
  constexpr int kParts = mma_parts(std::is_same_v<T, half_t>, P.narrow);
  if (s.channels > 1) {
    const int held = s.held(kParts);
    return (held > (s.windows > 1 ? 125 : 200) ? 8 : held > 90 || s.patch_h == 2 ? 12 : 16) / s.warps();
  }
  constexpr int kWords = 2 * s.mmas() * kParts;
  const int most = s.groups() > 1 ? 60 : 40;
  if (s.height > 24 || s.groups() > 1) return kWords <= most ? 4 : 3;
  return kWords <= 30 ? 6 : 4;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace mma {

// Two neighbours of each of the interleaved channels, from `bits` behind `word` on. kOdd: the first pixel is odd, in a
// box of a bulk copy. At an odd number of channels it starts in the second half of `word`.
template <int channels, bool kBulk, bool kOdd>
__device__ __forceinline__ void load_pairs(const unsigned* word, int bits, unsigned (&pairs)[channels]) {
  constexpr bool kWhole = channels % 2 == 0, kSecond = kOdd && !kWhole;
  constexpr int kEach = !kBulk || !kWhole ? 1 : kOdd ? channels / 2 : channels;  // aligned words of one load
  unsigned words[channels + (!kBulk || kSecond)];
#pragma unroll
  for (int i = 0; i < int(sizeof(words)) / 4; i += kEach) {
    const auto some = load_pack<kEach>(word + i);
    memcpy(words + i, &some, sizeof(some));
  }
  if constexpr (!kBulk)
#pragma unroll
    for (int i = 0; i < channels; ++i) words[i] = __funnelshift_r(words[i], words[i + 1], bits);
  if constexpr (channels == 1 && !kSecond) pairs[0] = words[0];
  else unroll<0, channels, 1>([&](auto c) { pairs[c] = every<2, channels, decltype(c)::value + kSecond>(words); });
}

}  // namespace mma

#endif

template <typename T, MmaPolicy P>
__global__ void __launch_bounds__(32 * P.shape().warps(), mma_min_blocks<T, P>())
    direct2d_mma(const __grid_constant__ TensorMap map, const __grid_constant__ MmaArgs a,
                 const __grid_constant__ ParamTaps param_taps) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace mma;
  constexpr MmaShape s = P.shape();
  static_assert(!P.bulk || (s.box_w() / s.pack() <= 256 && s.box_h() <= 256));  // the largest box of a bulk copy
  constexpr bool kScaled = std::is_same_v<T, half_t> && !P.narrow;
  constexpr int kParts = mma_parts(kScaled, P.narrow), kThreads = 32 * s.warps(), kWords = 2 * s.sets();
  extern __shared__ __align__(128) unsigned char mma_shared[];
  float* const taps = reinterpret_cast<float*>(mma_shared + s.taps_at());
  uint64_t* const barrier = reinterpret_cast<uint64_t*>(mma_shared + s.barrier_at());
  unsigned* const largest_of_warps = reinterpret_cast<unsigned*>(barrier + 1);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, q = lane % 4;

  const TilePosition at = a.order.at(blockIdx.x);
  const unsigned ci = a.multiplier.divide(at.c);
  const int x0 = int(at.x) * s.step(!P.aligned), y0 = int(at.y) * s.height;  // the tile's first output
  const int left = x0 - a.pad_x, top = y0 - a.pad_y;                         // the first input of its window
  const int shift = s.shifts() ? left & 1 : 0;                               // the same in all tiles
  const int start = (left - shift) * P.channels, bx = P.bulk ? start & -s.align : start, first = start - bx;
  const T* const in = a.planes.in_plane<T>(at.n, ci);
  const PhasedRows<T, s.box_w(), P.bulk ? 1 : kRowStart> box{
      reinterpret_cast<T*>(mma_shared),
      unsigned(reinterpret_cast<uintptr_t>(in) + (top * a.planes.in_stride_h + bx) * int(sizeof(T))),
      unsigned(a.planes.in_stride_h) * unsigned(sizeof(T))};
  if constexpr (!P.bulk) {
    static_assert(s.align * sizeof(T) == kRowStart);
    PlaneGeometry rows = a.planes;
    rows.in_w *= P.channels;
    load_rows<s.box_w() * int(sizeof(T)), s.box_h(), s.warps()>(rows, in, box.data, bx, top);
  } else if (threadIdx.x == 0) {
    tma::barrier_init(barrier);
    tma::barrier_expect(barrier, s.taps_at());
    tma::load_box(box.data, &map, barrier, bx / s.pack(), top, ci, at.n);
  }

  // While the box loads: taps in shared memory, and the lane's elements of the right matrices.
  using Tap = std::conditional_t<P.narrow, T, float>;
  [[maybe_unused]] unsigned largest[P.windows] = {};
#pragma unroll
  for (int window = 0; window < P.windows; ++window) {
    const Tap* all = param_taps.first<Tap>() + at.n * a.taps_n + (at.c + window) * a.taps_c;
#pragma unroll 1
    for (unsigned e = threadIdx.x; e < s.all_taps(); e += kThreads) {
      const int i = int(e / s.taps_w()) - (s.patch_h - 1), j = int(e % s.taps_w()) - s.patch_w;
      const float tap = i >= 0 && i < P.kh && j >= 0 && j < P.kw ? to_acc<float>(all[i * P.kw + j]) : 0.f;
      taps[window * s.all_taps() + e] = tap;
      largest[window] = max(largest[window], __float_as_uint(tap) & 0x7fffffff);
    }
    if constexpr (kScaled) {
      largest[window] = __reduce_max_sync(~0u, largest[window]);
      if (lane == 0) largest_of_warps[window * s.warps() + warp] = largest[window];
    }
  }
  __syncthreads();
  float scale[P.windows], back[P.windows];
#pragma unroll
  for (int window = 0; window < P.windows; ++window) {
    scale[window] = back[window] = 1;
    if constexpr (kScaled) {
#pragma unroll
      for (int i = 0; i < s.warps(); ++i)
        largest[window] = max(largest[window], largest_of_warps[window * s.warps() + i]);
      const int exponent = scale_exponent(largest[window]);
      scale[window] = power_of_two(exponent), back[window] = power_of_two(-exponent);
    }
  }
  // The lane's words of the right matrices. Column n of a matrix holds the taps at the position of output n, between
  // zeros. The taps of neighbouring columns form a band.
  unsigned band[P.windows][s.group][s.spans][kParts][2];
  auto take_taps = [&](int group) {
    const float* lane_taps = taps + s.tap_of(group * s.group, 0, MmaLane::b_k(q, 0), g, shift);
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
            for (int part = 0; part < kParts; ++part) band[window][pair][span][part][r] = take_part<T>(two);
          }
  };
  take_taps(0);
  const float bias = a.bias ? a.bias[at.c] : 0.f;
  if constexpr (P.bulk) {
    tma::barrier_wait(barrier, 0);
  } else {
    async_wait_all();
    __syncthreads();
  }

  const int right = min(x0 + s.width(), a.planes.out_w) - a.pad_x + P.kw - 1;
  const int bottom = min(y0 + s.height, a.planes.out_h) - a.pad_y + P.kh - 1;
  const bool edge = left < 0 || top < 0 || right > a.planes.in_w || bottom > a.planes.in_h;
  const bool mask = edge && a.border == Border::zero_output;
  // A bulk copy's zeros outside the image are right.
  const bool zeros = P.bulk && (mask || (a.border == Border::constant && a.value == 0));
  if (edge && (!zeros || a.peers.holds(top, a.planes.in_h) || a.peers.holds(bottom - 1, a.planes.in_h))) {
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

  T* const plane = a.planes.out_plane<T>(at.n, at.c);
  constexpr int kWarpColumns = s.warp_w() * P.channels;
  const int x = x0 + warp * s.warp_w();
  if (P.aligned && x >= a.planes.out_w) return;
  T* const from = box.data + warp * kWarpColumns + first;

  // The lane's outputs of a step are pairs of neighbours in a row. Pairs of interleaved channels pass through the
  // warp's rows in shared memory.
  constexpr bool kTogether = P.aligned && P.channels > 1;
  const int lane_y = kTogether ? 0 : s.output_y(2 * q);
  const int column = kTogether ? x : x + 8 * g + (P.aligned && s.tiles() == 1 ? q % 2 * 4 : 0);
  const int rows = a.planes.out_h - y0 - lane_y;
  T* to = plane + (y0 + lane_y) * a.planes.out_stride_h + column * P.channels;
  T* const waiting_rows = reinterpret_cast<T*>(mma_shared + s.waiting_at());
  [[maybe_unused]] T* const step_rows = waiting_rows + warp * s.patch_h * s.step_pitch();
  [[maybe_unused]] const WaitingRows<T, s.waiting_pitch()> waiting{
      {waiting_rows,
       unsigned(reinterpret_cast<uintptr_t>(plane) + (y0 * a.planes.out_stride_h + x0 * P.channels) * int(sizeof(T))),
       unsigned(a.planes.out_stride_h) * unsigned(sizeof(T))}};
  float sum[s.steps()][s.sets()][4] = {};
  unsigned probe = 0;
  auto store = [&](int step) {
    const bool inside = step * s.patch_h < rows;
    unsigned word[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const float* two = &sum[step][i / 2][i % 2 * 2];
      const float scale_back = back[i / 2 % P.windows];
      word[i] = round_pair<T>(fmaf(two[0], scale_back, bias), fmaf(two[1], scale_back, bias));
      probe = add_zero_times<T>(word[i], probe);
    }
    if constexpr (!P.aligned || kTogether) {
      const int lane_column = (s.warp_w() / 8 * g + s.output_x(0, 0, 2 * q)) * P.channels, y = s.output_y(2 * q);
      unsigned* const staged = kTogether ? reinterpret_cast<unsigned*>(step_rows + y * s.step_pitch() + lane_column)
                                         : waiting.words(y + step * s.patch_h, warp * kWarpColumns + lane_column);
#pragma unroll
      for (int h = 0; h < s.tiles(); ++h)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          unsigned pairs[P.channels];
#pragma unroll
          for (int c = 0; c < P.channels; ++c) pairs[c] = word[2 * (h * P.channels + c) + half];
          put_pixels<kTogether>(staged + s.output_x(h, half * 8, 0) * P.channels / 2, pairs);
        }
      if constexpr (kTogether)
        store_step<T, s>(to, a.planes.out_stride_h, step_rows, rows - step * s.patch_h,
                         (a.planes.out_w - x) * P.channels);
    } else if constexpr (kWords == 2) {
      // Lanes 2 i and 2 i + 1 have halves of two patches each. After the exchange each has a patch's row.
      const unsigned other = __shfl_xor_sync(~0u, q % 2 ? word[0] : word[1], 1);
      store_words<T, 2>(to, {q % 2 ? other : word[0], q % 2 ? word[1] : other}, inside && column < a.planes.out_w);
    } else {
      store_words<T>(to, word, inside && column < a.planes.out_w);
    }
    to += s.patch_h * a.planes.out_stride_h;
  };

  // Row g and q's columns of the left matrices of a pair of rows, counted from the group's first.
  constexpr int kSets = s.sets();
  const T* pixels = from + (s.warp_w() / 8 * g + 2 * q) * P.channels;
  [[maybe_unused]] int first_row = 0;                               // of the group's
  [[maybe_unused]] const int bits[2] = {box.bits(0), box.bits(1)};  // of all even and of all odd rows
  auto load = [&](int pair, int span, unsigned(&left_matrix)[kSets][4]) {
#pragma unroll
    for (int h = 0; h < s.tiles(); ++h)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int m = MmaLane::a_m(0, r), k = MmaLane::a_k(0, r);
        const int row = 2 * pair + s.pixel_y(k);
        const T* two =
            pixels + row * s.box_w() + (s.pixel_x(h, m, k) + 8 * span) * P.channels - (P.odd && P.channels % 2);
        const unsigned* word = reinterpret_cast<const unsigned*>(two) + box.behind(first_row + row) / 4;
        unsigned pairs[P.channels];
        load_pairs<P.channels, P.bulk, P.odd>(word, bits[s.pixel_y(k)], pairs);
#pragma unroll
        for (int c = 0; c < P.channels; ++c) left_matrix[h * P.channels + c][r] = pairs[c];
      }
  };
  // Loads run a pair ahead where the loop stores outputs: the compiler does not move loads across stores.
  constexpr bool kAhead = s.ahead();
  constexpr int kEach = s.patch_h / 2, kLag = s.group - 1;
  unsigned matrix[kAhead ? 2 : 1][s.spans][kSets][4];
#pragma unroll 1
  for (int group = 0; group < s.groups(); ++group) {
    if (group > 0) take_taps(group);
#pragma unroll
    for (int pair = kAhead ? -1 : 0; pair < s.warp_pairs(); ++pair) {
      if (kAhead && pair + 1 < s.warp_pairs())
#pragma unroll
        for (int span = 0; span < s.spans; ++span) load(pair + 1, span, matrix[(pair + 1) % 2][span]);
      if (pair < 0) continue;
#pragma unroll
      for (int span = 0; span < s.spans; ++span) {
        if constexpr (!kAhead) load(pair, span, matrix[0][span]);
#pragma unroll
        for (int part = kParts - 1; part >= 0; --part)
#pragma unroll
          for (int step = 0; step < s.steps(); ++step) {
            const int group_pair = pair - step * kEach;
            if (group_pair < 0 || group_pair >= s.group) continue;
#pragma unroll
            for (int i = 0; i < kSets; ++i) {
              const auto& band_words = band[i % P.windows][group_pair][span][part];
              mma_add<T>(sum[step][i], matrix[kAhead ? pair % 2 : 0][span][i], band_words[0], band_words[1]);
            }
          }
      }
      // Stores the step whose windows end at this pair.
      if (s.groups() == 1 && pair >= kLag && (pair - kLag) % kEach == 0 && (pair - kLag) / kEach < s.steps())
        store((pair - kLag) / kEach);
    }
    pixels += 2 * s.group * s.box_w(), first_row += 2 * s.group;
  }
  if constexpr (s.groups() > 1) {
#pragma unroll
    for (int step = 0; step < s.steps(); ++step) store(step);
  }
  // Corrects outputs in memory, or in the waiting rows.
  auto windows = box;
  windows.data = from + shift * P.channels;
  if (P.bulk) windows.address = windows.stride = 0;
  const bool incorrect = __any_sync(~0u, (probe & 0x7fff7fff) != 0) || mask;
  if constexpr (P.aligned) {
    if (incorrect)
      correct_outputs<T, s>(a,
                            StoredRows<T>{plane + y0 * a.planes.out_stride_h + x * P.channels, a.planes.out_stride_h},
                            windows, taps, bias, x, y0, mask);
  } else {
    auto warp_rows = waiting;
    warp_rows.data += warp * kWarpColumns;
    if (incorrect) correct_outputs<T, s>(a, warp_rows, windows, taps, bias, x, y0, mask);
    __syncthreads();
    const int last = min(s.width(), a.planes.out_w - x0) * P.channels, count = min(s.height, a.planes.out_h - y0);
    const bool at_an_end = x0 == 0 || x0 + s.width() >= a.planes.out_w;
    T* row = plane + (y0 + warp) * a.planes.out_stride_h + x0 * P.channels;
    const T* staged = waiting.data + warp * s.waiting_pitch();
#pragma unroll 1
    for (int r = warp; r < count; r += s.warps()) {
      store_staged<s.width() * P.channels>(row, 0, last, at_an_end, reinterpret_cast<const unsigned*>(staged));
      row += s.warps() * a.planes.out_stride_h, staged += s.warps() * s.waiting_pitch();
    }
  }
#endif
}

}  // namespace torch_conv::direct2d
