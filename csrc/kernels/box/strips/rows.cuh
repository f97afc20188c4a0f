// The row warps of box_strips: a warp adds up the columns' sums of one row.
#pragma once

#include "core/border.h"
#include "core/cuda/unroll.cuh"
#include "kernels/box/strips/common.cuh"

namespace torch_conv::box {

// The step from a row's sums to outputs. kCounts: a mean divides by the number of pixels inside.
template <bool kCounts>
struct RowFinish {
  const StripArgs& a;
  int rows;  // of the windows, inside the image

  __device__ RowFinish(const StripArgs& a, int y) : a(a), rows(overlap(y - a.counted_pad_y, a.kh, a.counted_h)) {}

  __device__ __forceinline__ float operator()(float sum, int x) const {
    if constexpr (kCounts) {
      const int columns = overlap(x - a.pad_x, a.kw, a.in_w), count = rows * columns;
      if (a.finish == Finish::mean_inside) return count > 0 ? sum / float(count) : 0.0f;
      if (rows < a.kh || columns < a.kw) return 0.0f;
    }
    return mean_of_sum(sum, Reciprocal<float>{a.area_hi, a.area_lo});
  }
};

// The outputs of row y of a strip. kUnaligned: rows start anywhere, and are stored as aligned vectors of memory.
template <typename Out, int kSubtiles, bool kUnaligned, bool kPolicies, bool kCounts>
struct RowStore {
  static constexpr int C = kChannels<kSubtiles>;
  const StripArgs& a;
  const Strip<kSubtiles>& strip;
  RowFinish<kCounts> finish;
  Out* out;
  uint64_t pass;

  __device__ RowStore(const StripArgs& a, const Strip<kSubtiles>& strip, int y)
      : a(a), strip(strip), finish(a, y), pass(policies<kPolicies>().pass) {
    out = static_cast<Out*>(a.out) + y * a.out_stride_h;
    if constexpr (kSubtiles != 0) out += strip.only_subtile.out + strip.only_subtile.x * C;
  }
  // Outputs from a vector of memory to the row's first one.
  __device__ __forceinline__ int behind() const {
    return kUnaligned ? int(reinterpret_cast<uintptr_t>(out) / sizeof(Out) % 4) : 0;
  }
  __device__ __forceinline__ void quad(Out* to, const Quad& v, bool present) const {
    store_quad<Out, kPolicies>(to, v, present, pass);
  }
  __device__ __forceinline__ void one(Out* to, float v, bool present) const {
    store_one<Out, kPolicies>(to, v, present, pass);
  }
  // A column of the strip as one of the image.
  struct Column {
    Out* to;
    int x, left;  // left: outputs of the subtile from it on
  };
  __device__ __forceinline__ Column column(int i) const {
    if constexpr (kSubtiles == 0) {
      const int number = strip.number(a, i / 4), at = i - number * a.pitch;
      const Subtile& subtile = strip.subtile(number);
      return {out + subtile.out + (subtile.x + at), subtile.x + at, subtile.valid - at};
    } else {
      return {out + i, strip.only_subtile.x + i, strip.only_subtile.valid - i};
    }
  }

  // Register i holds column 32 i + lane. Positions come first, so that stores wait for no later loads.
  template <int kCount>
  __device__ __forceinline__ void columns(const float (&t)[kCount], int count) const {
#pragma unroll
    for (int first = 0; first < kCount; first += 8) {
      Column positions[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) positions[i] = column(32 * (first + i) + threadIdx.x % 32);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (first + i < count) one(positions[i].to, finish(t[first + i], positions[i].x), positions[i].left > 0);
    }
  }

  // Stores the outputs of a row's sums in shared memory. In unaligned planes, sum i + behind() is of output i.
  __device__ __forceinline__ void rows(const float* row) const {
    int lane = threadIdx.x % 32;
    if constexpr (kSubtiles != 1) asm volatile("" : "+r"(lane));  // positions kept over rows would spill 100 bytes
    if constexpr (C > 1) pixels(row, lane);
    else if constexpr (kUnaligned) unaligned_planes(row, lane);
    else planes(row, lane);
  }

 private:
  __device__ __forceinline__ void planes(const float* row, int lane) const {
    if (!a.aligned_out) {
#pragma unroll 4
      for (int i = 0; i < 32; ++i) {
        const Column at = column(32 * i + lane);
        one(at.to, finish(row[i * kChunkPitch + lane], at.x), at.left > 0);
      }
      return;
    }
    const float* const from = row + in_row(4 * lane);
    bool has_partial = false;
    // Quad by quad: all read before the first is stored took 204 us instead of 191 (float32 8192^2, 63x63).
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      const Column at = column(128 * q + 4 * lane);
      const Quad v = *reinterpret_cast<const Quad*>(from + q * 4 * kChunkPitch);
      const int x = at.x;
      quad(at.to, {finish(v.x, x), finish(v.y, x + 1), finish(v.z, x + 2), finish(v.w, x + 3)}, at.left >= 4);
      has_partial = has_partial || (at.left > 0 && at.left < 4);
    }
    if (!__any_sync(0xffffffff, has_partial)) return;
    for (int q = 0; q < 8; ++q) {
      const Column at = column(128 * q + 4 * lane);
      for (int v = 0; at.left < 4 && v < at.left; ++v)
        at.to[v] = from_acc<Out>(finish(from[q * 4 * kChunkPitch + v], at.x + v));
    }
  }

  __device__ __forceinline__ void unaligned_planes(const float* row, int lane) const {
    const int valid = strip.only_subtile.valid, behind = this->behind();
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      const int i = 128 * q + 4 * lane - behind, x = strip.only_subtile.x + i;
      const Quad v = *reinterpret_cast<const Quad*>(row + in_row(4 * lane) + q * 4 * kChunkPitch);
      quad(out + i, {finish(v.x, x), finish(v.y, x + 1), finish(v.z, x + 2), finish(v.w, x + 3)},
           i >= 0 && i + 4 <= valid);
    }
    const int i = beside_vectors(lane, valid, behind);
    if (i >= 0) one(out + i, finish(row[in_row(i + behind)], strip.only_subtile.x + i), true);
  }
  // The output that this lane stores alone: one of the at most 3 at each end that no whole vector holds, or -1.
  static __device__ __forceinline__ int beside_vectors(int lane, int valid, int behind) {
    const int head = min(-behind & 3, valid), tail = max(((valid + behind) & ~3) - behind, head);
    const int i = lane < 4 ? lane : tail + lane - 4;
    return lane < 8 && i < (lane < 4 ? head : valid) ? i : -1;
  }

  // Number i of a row of pixels: its channel's subtile holds its sum.
  __device__ __forceinline__ int offset_of(int i) const { return in_row(i % C * a.pitch + i / C); }
  __device__ __forceinline__ void pixels(const float* row, int lane) const {
    const int valid = strip.only_subtile.valid * C, behind = this->behind();
    const int vectors_end = kUnaligned ? valid - 3 : a.aligned_out ? valid & ~3 : 0;  // vectors start before it
    if (kUnaligned || a.aligned_out) {
      // 128 C numbers are 128 pixels: every C quads a lane is at the same channel again, 4 chunks further.
#pragma unroll
      for (int first = 0; first < (C < 8 ? C : 8); ++first) {
        int at[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int i = 128 * first + 4 * lane + e;
          // Numbers before the row's first one have offsets, too: those of 128 pixels on, 4 chunks back.
          at[e] = kUnaligned ? offset_of(i - behind + 128 * C) - 4 * kChunkPitch : offset_of(i);
        }
#pragma unroll
        for (int q = first; q < 8; q += C) {
          const int i = 128 * q + 4 * lane - behind, x = strip.only_subtile.x;
          const float* const from = row + q / C * 4 * kChunkPitch;
          const bool present = i < vectors_end && (!kUnaligned || i >= 0);
          Quad v{};
          if (present) v = {from[at[0]], from[at[1]], from[at[2]], from[at[3]]};
          quad(out + i,
               {finish(v.x, x + i / C), finish(v.y, x + (i + 1) / C), finish(v.z, x + (i + 2) / C),
                finish(v.w, x + (i + 3) / C)},
               present);
        }
      }
    }
    if constexpr (kUnaligned) {
      const int i = beside_vectors(lane, valid, behind);
      if (i >= 0) one(out + i, finish(row[offset_of(i)], strip.only_subtile.x + i / C), true);
    } else {
#pragma unroll 4
      for (int i = vectors_end + lane; i < valid; i += 32)
        one(out + i, finish(row[offset_of(i)], strip.only_subtile.x + i / C), true);
    }
  }
};

// The sums of a row warp's rows, a row of each batch. Lane i makes the outputs of chunk i.
template <typename T, typename Out, StripPolicy kTraits>
struct RowSums {
  static constexpr int kWide = kTraits.wide, kShift = kTraits.shift, kSubtiles = kTraits.subtiles;
  static constexpr bool kVectors = kTraits.vectors;
  static constexpr int kV = v_stages(sizeof(T), kChannels<kSubtiles>, kTraits.stages);
  static constexpr int kOwn = kWide > 32 ? 32 : kWide;              // a lane computes s_kOwn alone
  static constexpr int kLow = kWide > 32 ? kWide % 32 : kWide;      // and t of the bits of kw below, or all of them
  static constexpr int kHalves = kWide >= 64 ? kWide / 32 : 0;      // chunks that the wider bits span, 64 and more
  static constexpr bool kRegisters = kHalves > 0 && kSubtiles < 2;  // outputs are stored from there
  using Store = RowStore<Out, kSubtiles, !kVectors && kSubtiles != 0, kTraits.policies, kTraits.counts>;
  static constexpr int kValues = 32 + kOwn - 1, kQuads = (kValues + kShift + 3) / 4;
  using Own = float[4 * kQuads];  // s_m of column i of the chunk at kShift + i
  using Sums = float[32];         // t: of each column of the chunk

  const StripArgs& a;
  const Strip<kSubtiles>& strip;
  const int lane = threadIdx.x % 32;

  __device__ __forceinline__ void add(const Barriers& barriers, unsigned char* shared) const {
    const int r = threadIdx.x / 32 - kColumnWarps;
    int stage = sums_in_place(sizeof(T), kChannels<kSubtiles>) ? start_batches<kTraits.above>(a.blocks) % kV : 0;
    bool mirrors = false;
    for (int i = 0; i < (kSubtiles == 0 ? a.subtiles : 1); ++i) mirrors = mirrors || strip.subtile(i).mirrors;
    for (int c = 0; c < strip.batches; ++c) {
      await(&barriers.full[stage], c / kV);
      float* const row = reinterpret_cast<float*>(shared) + (stage * kGroup + r) * kRowPitch;
      if (mirrors) mirror(row);
      Own s;
      Sums t;
      read(row, s);
      add_own(s, t);
      __syncwarp();
      const int y = strip.y + kGroup * c + r;
      if constexpr (kHalves > 0) add_halves(row, s, t);
      else put_sums(row, s, t, y);
      const bool stored = y >= 0 && y < strip.y_end;
      const Store store(a, strip, y);
      if constexpr (kRegisters) {
        arrive(&barriers.empty[stage]);
        if (stored) store.columns(t, 32 - kHalves + 1);
      } else {
        if (stored) store.rows(row);
        arrive(&barriers.empty[stage]);
      }
      stage = next_slot(stage, kV);
    }
  }

 private:
  // For every subtile the columns before the image, then the columns behind it.
  __device__ __forceinline__ void mirror(float* row) const {
    const int subtiles = kSubtiles == 0 ? a.subtiles : kSubtiles, each = a.kw - 1 + a.shift;
    for (int i = lane; i < subtiles * each; i += 32) {
      const int number = kSubtiles == 1 ? 0 : i / each, k = i - number * each;
      const Subtile& subtile = strip.subtile(number);
      const int begin = subtile.begin<kSubtiles>(a), before = max(-begin, 0),
                x = k < before ? begin + k : a.in_w + (k - before);
      const int start = number * a.pitch - begin;
      if (subtile.mirrors && x < subtile.end(a))
        row[in_row(start + x)] = row[in_row(start + map_index(x, a.in_w, a.border))];
    }
    __syncwarp();
  }

  __device__ __forceinline__ void read(const float* row, Own& s) const {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      // Behind the last chunk is another warp's row. The values that the last lanes compute from it are no
      // outputs.
      const float* const chunk = row + (q < 8 ? lane : min(lane + q / 8, 31)) * kChunkPitch;
      const Quad v = *reinterpret_cast<const Quad*>(chunk + q % 8 * 4);
      s[4 * q] = v.x, s[4 * q + 1] = v.y, s[4 * q + 2] = v.z, s[4 * q + 3] = v.w;
    }
  }

  // Makes s_kOwn, and t by the bits of kLow, of the columns behind the higher bits' ones.
  static __device__ __forceinline__ void add_own(Own& s, Sums& t) {
    unroll<0, 6>([&](auto bit) {
      constexpr int m = 1 << bit, behind = kLow & ~(2 * m - 1);
      if constexpr ((kLow & m) != 0) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          const float next = s[kShift + behind + i];
          t[i] = kLow & (m - 1) ? next + t[i] : next;
        }
      }
      if constexpr (2 * m <= kOwn) {
#pragma unroll
        for (int i = 0; i <= kValues - 2 * m; ++i) s[kShift + i] = s[kShift + i] + s[kShift + i + m];
      }
    });
  }

  // Writes a lane's numbers from `first` on back in place. Whole rows are read from there.
  template <int kCount>
  __device__ __forceinline__ void put(float* row, const float (&values)[kCount], int first) const {
#pragma unroll
    for (int i = 0; i < 32; i += 4)
      *reinterpret_cast<Quad*>(row + lane * kChunkPitch + i) = {values[first + i], values[first + i + 1],
                                                                values[first + i + 2], values[first + i + 3]};
    __syncwarp();
  }

  // Windows of less than 64 columns.
  __device__ __forceinline__ void put_sums(float* row, const Own& s, Sums& t, int y) const {
    if constexpr (kWide > 32) {
#pragma unroll
      for (int i = 0; i < 32; ++i) t[i] = s[kShift + i] + __shfl_down_sync(0xffffffff, t[i], 1);
    }
    if constexpr (kSubtiles == 1 && !kVectors) {
      // Shifts the row to the starts of vectors in memory: a lane's last elements become the next lane's first.
      float moved[35];
#pragma unroll
      for (int i = 0; i < 3; ++i) moved[i] = __shfl_up_sync(0xffffffff, t[29 + i], 1);
#pragma unroll
      for (int i = 0; i < 32; ++i) moved[3 + i] = t[i];
      const int behind = Store(a, strip, y).behind();
      unroll<0, 4>([&](auto i) {
        if (behind == i) put(row, moved, 3 - i);
      });
    } else {
      put(row, t, 0);
    }
  }

  // Wider windows: a lane comes to own columns 32 apart, register i column 32 i + lane. Elements beyond the strip are
  // no outputs.
  __device__ __forceinline__ void add_halves(float* row, const Own& s, Sums& t) const {
    Sums u;
    const auto read_transposed = [&](Sums& to) {
#pragma unroll
      for (int i = 0; i < 32; ++i) to[i] = row[i * kChunkPitch + lane];
      __syncwarp();
    };
    put(row, s, kShift);
    read_transposed(u);
    if constexpr (kLow > 0) {
      put(row, t, 0);
      read_transposed(t);
    }
    unroll<0, 5>([&](auto bit) {
      constexpr int m = 1 << bit;
      if constexpr ((kHalves & m) != 0) {
        constexpr bool kAny = kLow > 0 || (kHalves & (m - 1)) != 0;
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          if constexpr (!kAny) t[i] = u[i];
          else if (i + m < 32) t[i] = u[i] + t[(i + m) % 32];
        }
      }
      if constexpr (2 * m <= kHalves) {
#pragma unroll
        for (int i = 0; i < 32 - m; ++i) u[i] = u[i] + u[i + m];
      }
    });
    if constexpr (kSubtiles > 1) {
#pragma unroll
      for (int i = 0; i <= 32 - kHalves; ++i) row[i * kChunkPitch + lane] = t[i];
      __syncwarp();
    }
  }
};

}  // namespace torch_conv::box
