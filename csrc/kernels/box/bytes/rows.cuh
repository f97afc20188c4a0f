// The row warps of box_bytes: a warp makes the outputs of one row, a lane 32 of them.
#pragma once

#include "core/cuda/unroll.cuh"
#include "kernels/box/bytes/finish.cuh"

namespace torch_conv::box {

// The sums of a lane's 32 outputs, by steps of one pixel: of each channel a chain from the left end and one from the
// right. `own` are the chunk's column sums, `left` and `right` the column sums one window before them.
template <int kWide, int kChannels>
struct ByteWindows {
  static constexpr int kSpan = kWide * kChannels,
                       kChunks = (kSpan + 31) / 32;     // columns between an entering and its leaving column
  static constexpr int kOffset = 32 * kChunks - kSpan;  // where in that chunk
  static constexpr int kSkipped = kOffset / 8 * 4;      // words of it that are not needed
  static constexpr int kLeft = 16 - kSkipped;           // words from there on
  static constexpr int kRight = kChunks == 1 ? 0 : (kOffset + 7) / 8 * 4;  // words of the next one, unless it is `own`
  uint32_t own[16], left[kLeft], right[kRight > 0 ? kRight : 1];

  // A row's sums start at `row`. Lanes whose windows begin before the strip have no outputs: they read any memory.
  __device__ __forceinline__ void load(const unsigned char* row, int lane) {
    const auto quads = [](auto& to, int at, const unsigned char* from) {
      const uint4 v = *reinterpret_cast<const uint4*>(from);
      to[at] = v.x, to[at + 1] = v.y, to[at + 2] = v.z, to[at + 3] = v.w;
    };
    const unsigned char* const chunk = row + lane * kByteChunkPitch;
#pragma unroll
    for (int i = 0; i < 4; ++i) quads(own, 4 * i, chunk + 16 * i);
    const unsigned char* const before = row + max(lane - kChunks, 0) * kByteChunkPitch;
#pragma unroll
    for (int i = 0; i < kLeft / 4; ++i) quads(left, 4 * i, before + 4 * kSkipped + 16 * i);
    if constexpr (kRight > 0) {
      const unsigned char* const next = row + max(lane - kChunks + 1, 0) * kByteChunkPitch;
#pragma unroll
      for (int i = 0; i < kRight / 4; ++i) quads(right, 4 * i, next + 16 * i);
    }
  }

  // The sum of column j of a chunk, or of a column before the chunk.
  static constexpr int channel_of(int j) { return (j + 32 * kChannels) % kChannels; }

  // The windows that end with the chunk's last pixel.
  __device__ __forceinline__ void last_windows(int (&windows)[kChannels]) const {
    // The sums of the chunk for each channel: of its first kOffset columns, and of the columns behind them.
    uint32_t head[kChannels] = {}, tail[kChannels] = {};
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int j = 2 * i, low = channel_of(j), high = channel_of(j + 1);
      if (kChannels == 1 && (j >= kOffset || j + 1 < kOffset)) {
        if (j >= kOffset) tail[0] = add_halves(own[i], 0x0101, tail[0]);
        else if (kChunks > 1) head[0] = add_halves(own[i], 0x0101, head[0]);
        continue;
      }
      if (j >= kOffset) tail[low] = add_halves(own[i], 0x0001, tail[low]);
      else if (kChunks > 1) head[low] = add_halves(own[i], 0x0001, head[low]);
      if (j + 1 >= kOffset) tail[high] = add_halves(own[i], 0x0100, tail[high]);
      else if (kChunks > 1) head[high] = add_halves(own[i], 0x0100, head[high]);
    }
    // The tail of the chunk kChunks - 1 before, and whole chunks from there on, by doubling. A channel's number is
    // another one in every chunk.
    const auto before = [](const uint32_t(&of)[kChannels], int c, auto chunks) {
      const uint32_t v = of[channel_of(c + 32 * chunks)];
      return chunks == 0 ? v : __shfl_up_sync(0xffffffff, v, chunks);
    };
    uint32_t sum[kChannels], run[kChannels];
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      sum[c] = before(tail, c, std::integral_constant<int, kChunks - 1>{}), run[c] = head[c] + tail[c];
    unroll<0, 6>([&](auto bit) {
      constexpr int m = 1 << bit, done = (kChunks - 1) & (m - 1);
      if constexpr (((kChunks - 1) & m) != 0) {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) sum[c] += before(run, c, std::integral_constant<int, done>{});
      }
      if constexpr (2 * m <= kChunks - 1) {
        uint32_t twice[kChannels];
#pragma unroll
        for (int c = 0; c < kChannels; ++c) twice[c] = run[c] + before(run, c, std::integral_constant<int, m>{});
#pragma unroll
        for (int c = 0; c < kChannels; ++c) run[c] = twice[c];
      }
    });
#pragma unroll
    for (int i = 0; i < kChannels; ++i) windows[i] = int(sum[channel_of(32 - kChannels + i)]);
  }

  __device__ __forceinline__ int enters(int sum, int j, bool backwards) const {
    return add_halves(own[j / 2], j % 2 ? (backwards ? 0xff00 : 0x0100) : (backwards ? 0x00ff : 0x0001), sum);
  }
  __device__ __forceinline__ int leaves(int sum, int j, bool backwards) const {
    const int at = kOffset + j, i = at / 2;
    const uint32_t word = at < 32      ? left[at < 32 ? i - kSkipped : 0]
                          : kRight > 0 ? right[kRight > 0 && at >= 32 ? i - 16 : 0]
                                       : own[at >= 32 ? i - 16 : 0];
    return add_halves(word, at % 2 ? (backwards ? 0x0100 : 0xff00) : (backwards ? 0x0001 : 0x00ff), sum);
  }

  // finish(sums of outputs j .. j + 3, j) makes a word of bytes.
  template <class Finish4>
  __device__ __forceinline__ void outputs(int (&before)[kChannels], int (&last)[kChannels], uint32_t (&bytes)[8],
                                          const Finish4& finish) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int forward[4], backward[4];
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        const int j = 4 * i + v, k = 31 - j;
        int &from_left = before[j % kChannels], &from_right = last[(k - 32 + 32 * kChannels) % kChannels];
        from_left = enters(leaves(from_left, j, false), j, false);
        forward[v] = from_left;
        backward[3 - v] = from_right;
        from_right = leaves(enters(from_right, k, true), k, true);
      }
      bytes[i] = finish(forward, 4 * i);
      bytes[7 - i] = finish(backward, 28 - 4 * i);
    }
  }
};

template <BytePolicy kTraits>
__device__ __forceinline__ void add_rows(const ByteArgs& a, const ByteStrip& strip, const Barriers& barriers,
                                         unsigned char* shared) {
  constexpr int kChannels = kTraits.channels, kShift = kTraits.shift;
  constexpr Rounding kRounding = kTraits.rounding;
  constexpr Finish kFinish = kTraits.finish;
  constexpr bool kAligned = kTraits.aligned_out;
  const int lane = threadIdx.x % 32, r = threadIdx.x / 32 - kByteColumnWarps;
  uint8_t* const out = a.out + strip.out + strip.x;
  const int first = 32 * lane - a.lead;  // among the strip's outputs: the lane's first one
  int stage = 0;
  for (int c = 0; c < strip.batches; ++c) {
    await(&barriers.full[stage], c / kByteStages);
    unsigned char* const row = shared + (stage * kByteRows + r) * kByteRowPitch;
    if (strip.mirrors) {
      const auto copy = [&](int x) {
        const int from = map_column(x, a.in_w, kChannels, a.border);
        *reinterpret_cast<uint16_t*>(row + in_byte_row(x - strip.begin)) =
            *reinterpret_cast<const uint16_t*>(row + in_byte_row(from - strip.begin));
      };
      for (int x = strip.first + lane; x < 0; x += 32) copy(x);
      for (int x = a.in_w + lane; x < strip.end; x += 32) copy(x);
      __syncwarp();
    }
    ByteWindows<kTraits.wide, kChannels> windows;
    windows.load(row, lane);
    if constexpr (kAligned) arrive(&barriers.empty[stage]);

    int last[kChannels], before[kChannels];
    windows.last_windows(last);
    const int less = is_centred(kRounding) ? 128 * a.kh * a.kw : 0;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if constexpr (is_centred(kRounding)) last[i] -= less;
      before[i] = __shfl_up_sync(0xffffffff, last[i], 1);
    }
    const int y = strip.y + kByteRows * c + r;
    uint32_t bytes[8];
    const int rows = kFinish == Finish::scale ? a.kh : overlap(y - a.counted_pad_y, a.kh, a.counted_h);
    // Among the lane's outputs: from where to where windows fit.
    const int fit = a.pad_x * kChannels - strip.x - first, fit_end = fit + a.in_w - (a.kw - 1) * kChannels;
    const CountedMean<kChannels> mean(a, rows, strip.x + first);
    windows.outputs(before, last, bytes, [&](const int(&sums)[4], int j) {
      if constexpr (kFinish == Finish::mean_inside) {  // windows beyond the image are few, but at its top and bottom
        const bool is_output = first + j + 3 >= 0 && first + j < strip.valid;
        if (__any_sync(0xffffffff, rows < a.kh || (is_output && (j < fit || j + 4 > fit_end))))
          return pack4({mean(sums[0] + less, j), mean(sums[1] + less, j + 1), mean(sums[2] + less, j + 2),
                        mean(sums[3] + less, j + 3)});
      }
      return finish4<kRounding>(a, sums);
    });
    if constexpr (kFinish == Finish::interior) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        bytes[i] = rows < a.kh ? 0 : bytes[i] & bytes_from(fit - 4 * i) & ~bytes_from(fit_end - 4 * i);
    }
    uint8_t* const to = out + y * a.out_stride_h;
    if constexpr (kAligned) {
      uint32_t words[8];
      shift_outputs<kShift>(bytes, words);
      if (y < strip.y_end && first - kShift >= 0)
        store_lane(to + first - kShift, words, strip.valid - (first - kShift));
    } else {
      if (y < strip.y_end) store_row(a, strip, row, to, bytes);
      arrive(&barriers.empty[stage]);
    }
    stage = next_slot(stage, kByteStages);
  }
}

}  // namespace torch_conv::box
