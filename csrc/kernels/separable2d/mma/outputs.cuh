// The outputs of MMA: a box of 16 rows in shared memory, its copy to memory, and outputs that are
// computed again.
#pragma once

#include "core/cuda/half_bits.cuh"
#include "core/cuda/matrices.cuh"
#include "core/cuda/round_pair.cuh"
#include "kernels/separable2d/mma/rows.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace torch_conv::separable2d::mma {

// A box of outputs of a channel, in the layout of bulk copies. Interleaved channels are as in memory; 16 bytes in front
// of each row hold the end of the previous box.
template <typename T, MmaPolicy s>
struct OutputBox {
  unsigned char* data;
  int channel;

  // Byte `at` of row r of the vectors of 16 bytes that memory has. The four words in one are exchanged where two or
  // four channels are interleaved: else the lanes of a warp, which have every second or fourth value, would meet in
  // banks.
  static __device__ __forceinline__ int byte(int r, int at) {
    if constexpr (s.bulk_stores()) return r * s.out_pitch() + ((at / 16 ^ r % 8) * 16 + at % 16);
    else return r * s.out_pitch() + 16 + (s.channels % 2 == 0 ? at ^ (r & 3) * 4 : at);
  }
  __device__ __forceinline__ T& at(int r, int column) const {
    return *reinterpret_cast<T*>(data + byte(r, (column * s.channels + channel) * int(sizeof(T))));
  }
};

// A tile of outputs into a box. `probe` becomes NaN where there is one that is not finite (not of bytes).
template <typename T, MmaPolicy s, int count>
__device__ __forceinline__ void store_tile(const OutputBox<T, s>& box, int tile, int lane, const float (&out)[count][4],
                                           float back, unsigned& probe) {
  using Outputs = OutputBox<T, s>;
  const int g = lane / 4, q = lane % 4;
  // Elements of interleaved channels are stored one by one: those of every other tile are a multiple of 16 bytes
  // further.
  [[maybe_unused]] unsigned char* const element[2] = {
      box.data + Outputs::byte(g, (2 * q * s.channels + box.channel) * int(sizeof(T))),
      box.data + Outputs::byte(g, ((2 * q + 1) * s.channels + box.channel) * int(sizeof(T)))};
  if constexpr (sizeof(T) == 1) {
    unsigned char* const to = box.data + Outputs::byte(g, 16 * tile) + 2 * q;
#pragma unroll
    for (int of = 0; of < 2; ++of)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* two = &out[of][2 * half];
        if constexpr (s.channels == 1) {
          *reinterpret_cast<uint16_t*>(to + 8 * half * s.out_pitch() + 8 * of) =
              round_bytes(two[0] * back, two[1] * back);
        } else {
          const int further = (16 * tile + 8 * of) * s.channels + 8 * half * s.out_pitch();
          element[0][further] = round_byte(two[0] * back), element[1][further] = round_byte(two[1] * back);
        }
      }
  } else {
    unsigned word[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float scale = std::is_same_v<T, half_t> ? back : 1.f;
      word[half] = round_pair<T>(out[0][2 * half] * scale, out[0][2 * half + 1] * scale);
      probe = add_zero_times<T>(word[half], probe);
    }
    if constexpr (s.channels == 1) {
      store_rows(box.data + Outputs::byte(lane % 16, 16 * tile), word[0], word[1]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        *reinterpret_cast<uint16_t*>(element[i % 2] + 16 * tile * s.channels + 8 * (i / 2) * s.out_pitch()) =
            uint16_t(word[i / 2] >> 16 * (i % 2));
    }
  }
}

// The columns of a box in an image's plane: `x` is the first one's position; only those in [first, last) are stored.
struct BoxColumns {
  int x, first, last;
  bool begins, ends;
};

// Stores a box into unaligned rows by aligned vectors of 16 bytes, and by single elements at both ends of a segment. A
// vector that the box begins only moves in front of the next box. The warp of each channel stores a part of the rows'
// vectors.
template <typename T, MmaPolicy s>
__device__ __forceinline__ void store_words(unsigned char* box, int part, T* plane, int64_t stride, const BoxColumns& c,
                                            int y, int rows) {
  if (rows <= 0) return;
  using Outputs = OutputBox<T, s>;
  constexpr int size = sizeof(T), kPixel = s.channels * size;
  const int lane = threadIdx.x % 32;
  const int low = c.begins ? (c.first - c.x) * kPixel : -16, high = (c.last - c.x) * kPixel;
  const int64_t pitch = stride * size;
  char* const start = reinterpret_cast<char*>(plane) + y * pitch + int64_t(c.x) * kPixel;
  const int own = 16 * (8 * part + lane % 8);
  const auto store = [&](auto all) {
    char* row = start + lane / 8 * pitch;
#pragma unroll
    for (int i = 0; i < 4; ++i, row += 4 * pitch) {
      const int r = 4 * i + lane / 8;
      // Bytes of the box's row from `begin` on are a word of memory.
      const int phase = s.stores ? 0 : int(reinterpret_cast<uintptr_t>(row) & 15), begin = own - phase;
      Pack<4, unsigned> v;
      if constexpr (s.stores && s.channels % 2 == 1) {
        v = load_pack<4>(reinterpret_cast<const unsigned*>(box + Outputs::byte(r, own)));
      } else {
        const unsigned* const from = reinterpret_cast<const unsigned*>(box + Outputs::byte(r, 0));
        const auto word = [&](int n) {
          const int i = (begin >> 2) + n;
          return s.channels % 2 == 0 ? *reinterpret_cast<const unsigned*>(box + Outputs::byte(r, 4 * i)) : from[i];
        };
#pragma unroll
        for (int n = 0; n < 4; ++n) v.v[n] = word(n);
        if constexpr (!s.stores) {
          const unsigned last =
              word(phase > 0 ? 4 : 3);  // without a phase it counts for nothing, and may be elsewhere's
#pragma unroll
          for (int n = 0; n < 4; ++n) v.v[n] = __funnelshift_r(v.v[n], n < 3 ? v.v[n + 1] : last, -phase * 8);
        }
      }
      const bool within = all.value || (r < rows && begin >= low && begin + 16 <= high);
      store_pack_if(within, reinterpret_cast<unsigned*>(aligned_down(row + own)), v);
    }
  };
  if (rows == 16 && !c.begins && !c.ends) store(std::true_type{});
  else store(std::false_type{});
  if constexpr (!s.stores) {
    // Up to 16 bytes from `low` on, and as many before `high`.
    constexpr int count = 16 / size;
    const auto store_end = [&](bool at_end) {
#pragma unroll 1
      for (int e = lane; e < 16 * count; e += 32) {
        const int r = e / count;
        char* const row = start + r * pitch;
        const auto behind = [&](int at) { return int(reinterpret_cast<uintptr_t>(row + at) & 15); };
        const int begun = c.begins ? min(low + (-behind(low) & 15), high) : low;
        const int at = (at_end ? max(high - behind(high), begun) : low) + e % count * size;
        if (r < rows && at < (at_end ? high : begun))
          *reinterpret_cast<T*>(row + at) = *reinterpret_cast<const T*>(box + Outputs::byte(r, at));
      }
    };
    if (c.begins && part == 0) store_end(false);
    if (c.ends && part == s.channels - 1) store_end(true);
    __syncwarp();
    // A segment's last box has none behind it, and other warps may still read these.
    if (part == 0 && !c.ends && lane < 16)
      *reinterpret_cast<uint4*>(box + lane * s.out_pitch()) =
          *reinterpret_cast<const uint4*>(box + lane * s.out_pitch() + s.row_bytes());
  }
}

// One output by plain sums in the order of this family's other kernels: rows first. Pixels are `pixel_stride` elements
// apart.
template <typename T>
__device__ __forceinline__ T make_plainly(const BandArgs& a, const T* plane, int pixel_stride, const ShardRows& rows,
                                          const float* taps_x, const float* taps_y, int x, int y) {
  const float outside = to_acc<float>(from_acc<T>(a.value));
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < a.kh; ++i) {
    const int from = rows.map_row(y - a.pad_y + i, a.planes.in_h, a.border);
    const T* const row = rows.stands(from) ? rows.row(plane, a.planes.in_stride_h, from, a.planes.in_h) : nullptr;
    float row_sum = 0;
#pragma unroll 1
    for (int j = 0; j < a.kw; ++j) {
      const int column = map_index(x - a.pad_x + j, a.planes.in_w, a.border);
      row_sum = fmaf(taps_x[j], row && column >= 0 ? to_acc<float>(row[column * pixel_stride]) : outside, row_sum);
    }
    sum = fmaf(taps_y[i], row_sum, sum);
  }
  return from_acc<T>(sum);
}

// Outputs of a box in rows from y on that are not finite, or `all`, are made again. A warp.
template <typename T, MmaPolicy s>
__device__ __noinline__ void mend(const BandArgs& a, OutputBox<T, s> box, const float* taps_x, const float* taps_y,
                                  BoxColumns c, int y, TilePosition at, bool all) {
  __syncwarp();  // this lane reads elements that other lanes stored
  const unsigned channel = at.c + unsigned(box.channel);
  const T* const plane = a.planes.in_plane<T>(at.n, channel);
  const ShardRows rows{a.peers, at.n, channel};
#pragma unroll 1
  for (int e = threadIdx.x % 32; e < 16 * s.columns(); e += 32) {
    const int column = c.x + e % s.columns(), row = y + e / s.columns();
    if (column < c.first || column >= c.last || row >= a.planes.out_h) continue;
    T& to = box.at(e / s.columns(), e % s.columns());
    const float was = to_acc<float>(to);
    if (all || was - was != 0) to = make_plainly(a, plane, s.channels, rows, taps_x, taps_y, column, row);
  }
  __syncwarp();
}

// Clears the outputs of a box whose windows extend beyond the image (zero_output). One warp.
template <typename T, MmaPolicy s>
__device__ __noinline__ void clear_hanging(const BandArgs& a, OutputBox<T, s> box, int x, int y) {
  __syncwarp();
  constexpr int count = 16 / int(sizeof(T)), pieces = s.chunk / 16;
  const int begin = a.pad_x - x, end = a.planes.in_w - a.kw + a.pad_x + 1 - x;  // the columns whose windows fit
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < 16 * pieces; i += 32) {
    const int r = i / pieces, first = i % pieces * count, top = y + r - a.pad_y;
    const bool hangs = !a.peers.inside(top, top + a.kh - 1, a.planes.in_h);
    if (!hangs && first >= begin && first + count <= end) continue;
    if (s.channels == 1 && (hangs || first + count <= begin || first >= end)) {
      *reinterpret_cast<uint4*>(&box.at(r, first)) = {};
      continue;
    }
    for (int e = first; e < first + count; ++e)
      if (hangs || e < begin || e >= end) box.at(r, e) = from_acc<T>(0.f);
  }
  __syncwarp();
}

}  // namespace torch_conv::separable2d::mma

#endif
