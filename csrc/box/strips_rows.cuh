// The row warps of box_strips: a warp adds up the columns' sums of one row.
#pragma once

#include "box/kernel_common.cuh"
#include "box/strips_common.cuh"
#include "core/border.h"
#include "core/unroll.cuh"

namespace torch_conv::box {

// How a row's sums become outputs. Where pixels inside are counted, kernels are others.
template <bool kCounts>
struct RowFinish {
  const StripArgs& a;
  int rows;  // of the windows, inside the image

  __device__ RowFinish(const StripArgs& a, int y) : a(a), rows(overlap(y - a.pad_y, a.kh, a.in_h)) {}

  __device__ __forceinline__ float operator()(float sum, int x) const {
    if constexpr (kCounts) {
      const int columns = overlap(x - a.pad_x, a.kw, a.in_w), count = rows * columns;
      if (a.finish == Finish::mean) return count > 0 ? sum / float(count) : 0.0f;
      if (rows < a.kh || columns < a.kw) return 0.0f;
    }
    return mean_of_sum(sum, Reciprocal<float>{a.area_hi, a.area_lo});
  }
};

template <typename T, typename Out, Above kAbove, int kHigh, int kWide, int kShift, int kStages, bool kPolicies,
          bool kCounts>
__device__ __forceinline__ void row_warp(const StripArgs& a, const Strip& strip, const Pipeline& pipeline,
                                         unsigned char* shared) {
  constexpr bool kInPlace = sizeof(T) == 4;
  constexpr int kV = v_stages(sizeof(T), kStages);
  constexpr int kOwn = kWide > 32 ? 32 : kWide;          // s_kOwn is what a lane makes by itself
  constexpr int kLow = kWide > 32 ? kWide % 32 : kWide;  // and t of the bits of kw below, or all of them
  constexpr int kHalves = kWide >= 64 ? kWide / 32 : 0;  // chunks that the wider bits span, 64 and more
  constexpr int kValues = 32 + kOwn - 1, kQuads = (kValues + kShift + 3) / 4;
  const int lane = threadIdx.x % 32, r = threadIdx.x / 32 - kColumnWarps;
  const Policies l2 = policies<kPolicies>();
  Out* const out = static_cast<Out*>(a.out) + strip.out + strip.x;
  int stage = kInPlace ? start_batches<kAbove>(a.blocks) % kV : 0;
  for (int c = 0; c < strip.batches; ++c) {
    await(&pipeline.full[stage], use_of<kV>(c));
    float* const row = reinterpret_cast<float*>(shared) + (stage * kGroup + r) * kRowPitch;
    float* const own = row + lane * kChunkPitch;
    if (strip.mirrors) {
      const int begin = strip.column_begin(a), end = strip.column_end(a);
      for (int x = begin + lane; x < 0; x += 32)
        row[in_row(x - begin)] = row[in_row(map_index(x, a.in_w, a.border) - begin)];
      for (int x = a.in_w + lane; x < end; x += 32)
        row[in_row(x - begin)] = row[in_row(map_index(x, a.in_w, a.border) - begin)];
      __syncwarp();
    }
    float s[4 * kQuads], t[32];
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const Quad v = *reinterpret_cast<const Quad*>(own + q / 8 * kChunkPitch + q % 8 * 4);
      s[4 * q] = v.x, s[4 * q + 1] = v.y, s[4 * q + 2] = v.z, s[4 * q + 3] = v.w;
    }
    // s: s_m of column i at kShift + i. t: the sum by the bits up to m, of the columns behind the higher bits' ones.
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
    __syncwarp();
    const int y = strip.y + kGroup * c + r;
    const bool stored = y >= 0 && y < strip.y_end;
    const RowFinish<kCounts> finish(a, y);
    if constexpr (kHalves == 0) {
      if constexpr (kWide > 32) {
#pragma unroll
        for (int i = 0; i < 32; ++i) t[i] = s[kShift + i] + __shfl_down_sync(0xffffffff, t[i], 1);
      }
      // In place, and from there by whole rows.
#pragma unroll
      for (int i = 0; i < 8; ++i)
        *reinterpret_cast<Quad*>(own + 4 * i) = {t[4 * i], t[4 * i + 1], t[4 * i + 2], t[4 * i + 3]};
      __syncwarp();
      if (stored && !a.aligned_out) {
        Out* const to = out + y * a.out_stride_h + lane;
#pragma unroll 4
        for (int i = 0; i < 32; ++i)
          if (32 * i + lane < strip.valid)
            store_one<Out, kPolicies>(to + 32 * i, finish(row[i * kChunkPitch + lane], strip.x + 32 * i + lane),
                                      l2.pass);
      } else if (stored) {
        Out* const to = out + y * a.out_stride_h + 4 * lane;
        const float* const from = row + in_row(4 * lane);
        auto quad = [&](int i) {
          const Quad v = *reinterpret_cast<const Quad*>(from + 4 * i * kChunkPitch);
          const int x = strip.x + 128 * i + 4 * lane;
          return Quad{finish(v.x, x), finish(v.y, x + 1), finish(v.z, x + 2), finish(v.w, x + 3)};
        };
        const int whole = strip.valid & ~3, rest = strip.valid % 4;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const Quad v = quad(i);
          if (128 * i + 4 * lane < whole) store_quad<Out, kPolicies>(to + 128 * i, v, l2.pass);
        }
        if (rest > 0 && lane == whole / 4 % 32) {
          const Quad v = quad(whole / 128);
          Out* const last = to + whole / 128 * 128;
          last[0] = from_acc<Out>(v.x);
          if (rest > 1) last[1] = from_acc<Out>(v.y);
          if (rest > 2) last[2] = from_acc<Out>(v.z);
        }
      }
      arrive(&pipeline.empty[stage]);
    } else {
      // Register i comes to hold column 32 i + lane.
      float u[32];
#pragma unroll
      for (int i = 0; i < 32; i += 4)
        *reinterpret_cast<Quad*>(own + i) = {s[kShift + i], s[kShift + i + 1], s[kShift + i + 2], s[kShift + i + 3]};
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 32; ++i) u[i] = row[i * kChunkPitch + lane];
      if constexpr (kLow > 0) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 32; i += 4) *reinterpret_cast<Quad*>(own + i) = {t[i], t[i + 1], t[i + 2], t[i + 3]};
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 32; ++i) t[i] = row[i * kChunkPitch + lane];
      }
      arrive(&pipeline.empty[stage]);
      // What hangs over the strip is no output's.
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
      if (stored) {
        Out* const to = out + y * a.out_stride_h + lane;
#pragma unroll
        for (int i = 0; i <= 32 - kHalves; ++i) {
          if (32 * i + lane >= strip.valid) continue;
          const float v = finish(t[i], strip.x + 32 * i + lane);
          store_one<Out, kPolicies>(to + 32 * i, v, l2.pass);
        }
      }
    }
    stage = stage + 1 == kV ? 0 : stage + 1;
  }
}

}  // namespace torch_conv::box
