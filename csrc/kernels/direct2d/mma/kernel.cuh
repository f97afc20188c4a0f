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

#include "core/cuda/half_bits.cuh"
#include "core/cuda/mma.cuh"
#include "core/cuda/round_pair.cuh"
#include "core/cuda/unroll.cuh"
#include "kernels/direct2d/mma/outputs.cuh"
#include "kernels/direct2d/mma/tile.cuh"

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

// A warp's outputs: `height` rows of warp_w() columns of the tile.
template <typename T, MmaPolicy P>
struct WarpOutputs {
  static constexpr MmaShape s = P.shape();
  static constexpr int kSets = s.sets(), kWords = 2 * kSets, kColumns = s.warp_w() * P.channels;
  // Pairs of interleaved channels pass through the warp's rows in shared memory, which hold a step's outputs.
  static constexpr bool kTogether = P.aligned && P.channels > 1;
  using LeftMatrices = unsigned[kSets][4];

  const Tile<T, P>& tile;
  Bands<T, P>& bands;
  const MmaArgs& a = tile.a;
  const int warp = tile.warp, g = tile.g, q = tile.q;
  const float bias;
  const int x;  // of the first output
  T* const plane = a.planes.out_plane<T>(tile.at.n, tile.at.c);
  T* const from = tile.box.data + warp * kColumns + tile.start - tile.bx;  // the first output's pixels
  // The lane's outputs of a step are pairs of neighbours in a row.
  const int lane_y = kTogether ? 0 : s.output_y(2 * q);
  const int column = kTogether ? x : x + 8 * g + (P.aligned && s.tiles() == 1 ? q % 2 * 4 : 0);
  const int rows = a.planes.out_h - tile.y0 - lane_y;
  T* to = plane + (tile.y0 + lane_y) * a.planes.out_stride_h + column * P.channels;
  T* const waiting_rows = reinterpret_cast<T*>(mma_shared + s.waiting_at());
  T* const step_rows = waiting_rows + warp * s.patch_h * s.step_pitch();
  const WaitingRows<T, s.waiting_pitch()> waiting{
      {waiting_rows,
       unsigned(reinterpret_cast<uintptr_t>(plane) +
                (tile.y0 * a.planes.out_stride_h + tile.x0 * P.channels) * int(sizeof(T))),
       unsigned(a.planes.out_stride_h) * unsigned(sizeof(T))}};
  float sum[s.steps()][kSets][4] = {};
  unsigned probe = 0;  // its bits, but for signs, are 0 if all outputs are finite

  // Loads row g and q's columns of the left matrices of a span of a pair of rows. `pixels`: of the lane in the group's
  // first row, which is row `first_row` of the box. `bits`: box.bits() of even and of odd rows.
  __device__ __forceinline__ void load(const T* pixels, int first_row, const int (&bits)[2], int pair, int span,
                                       LeftMatrices& left) const {
#pragma unroll
    for (int h = 0; h < s.tiles(); ++h)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int m = MmaLane::a_m(0, r), k = MmaLane::a_k(0, r);
        const int row = 2 * pair + s.pixel_y(k);
        const T* two =
            pixels + row * s.box_w() + (s.pixel_x(h, m, k) + 8 * span) * P.channels - (P.odd && P.channels % 2);
        const unsigned* word = reinterpret_cast<const unsigned*>(two) + tile.box.behind(first_row + row) / 4;
        unsigned pairs[P.channels];
        load_pairs<P.channels, P.bulk, P.odd>(word, bits[s.pixel_y(k)], pairs);
#pragma unroll
        for (int c = 0; c < P.channels; ++c) left[h * P.channels + c][r] = pairs[c];
      }
  }

  // Adds a span of a pair of rows to the sums of all steps whose windows hold the pair.
  __device__ __forceinline__ void add(int pair, int span, const LeftMatrices& left) {
#pragma unroll
    for (int part = bands.kParts - 1; part >= 0; --part)
#pragma unroll
      for (int step = 0; step < s.steps(); ++step) {
        const int group_pair = pair - step * (s.patch_h / 2);
        if (group_pair < 0 || group_pair >= s.group) continue;
#pragma unroll
        for (int i = 0; i < kSets; ++i) {
          const auto& band = bands.words[i % P.windows][group_pair][span][part];
          mma_add<T>(sum[step][i], left[i], band[0], band[1]);
        }
      }
  }

  // Computes and stores all outputs.
  __device__ __forceinline__ void run() {
    // Loads run a pair ahead where the loop stores outputs: the compiler does not move loads across stores.
    constexpr bool kAhead = s.ahead();
    constexpr int kEach = s.patch_h / 2, kLag = s.group - 1;
    const T* pixels = from + (s.warp_w() / 8 * g + 2 * q) * P.channels;
    int first_row = 0;
    const int bits[2] = {tile.box.bits(0), tile.box.bits(1)};
    LeftMatrices left[kAhead ? 2 : 1][s.spans];
#pragma unroll 1
    for (int group = 0; group < s.groups(); ++group) {
      if (group > 0) bands.make(tile, group);
#pragma unroll
      for (int pair = kAhead ? -1 : 0; pair < s.warp_pairs(); ++pair) {
        if (kAhead && pair + 1 < s.warp_pairs())
#pragma unroll
          for (int span = 0; span < s.spans; ++span)
            load(pixels, first_row, bits, pair + 1, span, left[(pair + 1) % 2][span]);
        if (pair < 0) continue;
#pragma unroll
        for (int span = 0; span < s.spans; ++span) {
          if constexpr (!kAhead) load(pixels, first_row, bits, pair, span, left[0][span]);
          add(pair, span, left[kAhead ? pair % 2 : 0][span]);
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
  }

  // Stores a step's outputs in memory, or in the waiting rows.
  __device__ __forceinline__ void store(int step) {
    const bool inside = step * s.patch_h < rows;
    unsigned word[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const float* two = &sum[step][i / 2][i % 2 * 2];
      const float back = bands.back[i / 2 % P.windows];
      word[i] = round_pair<T>(fmaf(two[0], back, bias), fmaf(two[1], back, bias));
      probe = add_zero_times<T>(word[i], probe);
    }
    if constexpr (!P.aligned || kTogether) {
      const int lane_column = (s.warp_w() / 8 * g + s.output_x(0, 0, 2 * q)) * P.channels, y = s.output_y(2 * q);
      put(word, kTogether ? reinterpret_cast<unsigned*>(step_rows + y * s.step_pitch() + lane_column)
                          : waiting.words(y + step * s.patch_h, warp * kColumns + lane_column));
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
  }
  __device__ __forceinline__ void put(const unsigned (&word)[kWords], unsigned* staged) const {
#pragma unroll
    for (int h = 0; h < s.tiles(); ++h)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        unsigned pairs[P.channels];
#pragma unroll
        for (int c = 0; c < P.channels; ++c) pairs[c] = word[2 * (h * P.channels + c) + half];
        put_pixels<kTogether>(staged + s.output_x(h, half * 8, 0) * P.channels / 2, pairs);
      }
  }

  // Corrects outputs in memory, or in the waiting rows.
  __device__ __forceinline__ void correct(bool mask) const {
    auto windows = tile.box;
    windows.data = from + tile.shift * P.channels;
    if (P.bulk) windows.address = windows.stride = 0;
    const bool incorrect = __any_sync(~0u, (probe & 0x7fff7fff) != 0) || mask;
    if constexpr (P.aligned) {
      const int64_t stride = a.planes.out_stride_h;
      if (incorrect)
        correct_outputs<T, s>(a, StoredRows<T>{plane + tile.y0 * stride + x * P.channels, stride}, windows, tile.taps(),
                              bias, x, tile.y0, mask);
    } else {
      auto warp_rows = waiting;
      warp_rows.data += warp * kColumns;
      if (incorrect) correct_outputs<T, s>(a, warp_rows, windows, tile.taps(), bias, x, tile.y0, mask);
    }
  }

  // Stores the waiting rows of all warps.
  __device__ __forceinline__ void store_waiting() const {
    __syncthreads();
    const int x0 = tile.x0, y0 = tile.y0;
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
};

}  // namespace mma

#endif

template <typename T, MmaPolicy P>
__global__ void __launch_bounds__(32 * P.shape().warps(), mma_min_blocks<T, P>())
    direct2d_mma(const __grid_constant__ TensorMap map, const __grid_constant__ MmaArgs a,
                 const __grid_constant__ ParamTaps param_taps) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const mma::Tile<T, P> tile(a);
  tile.load_box(map);
  mma::Bands<T, P> bands;
  bands.place_taps(tile, param_taps);  // while the box loads
  bands.make(tile, 0);
  const float bias = a.bias ? a.bias[tile.at.c] : 0.f;
  tile.wait_box();

  const int right = min(tile.x0 + tile.s.width(), a.planes.out_w) - a.pad_x + P.kw - 1;
  const int bottom = min(tile.y0 + tile.s.height, a.planes.out_h) - a.pad_y + P.kh - 1;
  const bool edge = tile.left < 0 || tile.top < 0 || right > a.planes.in_w || bottom > a.planes.in_h;
  const bool mask = edge && a.border == Border::zero_output;
  // A bulk copy's zeros outside the image are right.
  const bool zeros = P.bulk && (mask || (a.border == Border::constant && a.value == 0));
  if (edge && (!zeros || a.peers.holds(tile.top, a.planes.in_h) || a.peers.holds(bottom - 1, a.planes.in_h)))
    tile.extend(right, bottom);

  const int x = tile.x0 + tile.warp * tile.s.warp_w();
  if (P.aligned && x >= a.planes.out_w) return;
  mma::WarpOutputs<T, P> outputs{.tile = tile, .bands = bands, .bias = bias, .x = x};
  outputs.run();
  outputs.correct(mask);
  if constexpr (!P.aligned) outputs.store_waiting();
#endif
}

}  // namespace torch_conv::direct2d
