// The column warps of box_strips: a thread adds up 4 columns of a strip.
#pragma once

#include "box/strips_common.cuh"
#include "core/border.h"

namespace torch_conv::box {

// 4 elements as they lie in memory.
template <typename T>
using Cells4 = std::conditional_t<sizeof(T) == 4, Quad, Pack<4, T>>;

template <typename T>
__device__ __forceinline__ Quad unpack(const Cells4<T>& cells) {
  if constexpr (sizeof(T) == 4) return cells;
  else
    return {to_acc<float>(cells.v[0]), to_acc<float>(cells.v[1]), to_acc<float>(cells.v[2]), to_acc<float>(cells.v[3])};
}

template <typename T>
__device__ __forceinline__ Cells4<T> cells_of(T a, T b, T c, T d) {
  return {a, b, c, d};
}

// 4 aligned elements that no kernel writes to while this one runs, if `present`; else `cells` stays. Predicated: a branch
// would have its other side wait for the loads.
template <typename T, bool kPolicies>
__device__ __forceinline__ void load_cells4(Cells4<T>& cells, const T* from, bool present, uint64_t policy) {
  if constexpr (sizeof(T) == 4) {
    if constexpr (kPolicies)
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %6; }"
                   : "+f"(cells.x), "+f"(cells.y), "+f"(cells.z), "+f"(cells.w)
                   : "l"(from), "r"(int(present)), "l"(policy));
    else
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4]; }"
                   : "+f"(cells.x), "+f"(cells.y), "+f"(cells.z), "+f"(cells.w)
                   : "l"(from), "r"(int(present)));
  } else {
    uint2 word;
    memcpy(&word, &cells, sizeof(cells));
    if constexpr (kPolicies)
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.nc.L2::cache_hint.v2.b32 {%0, %1}, [%2], %4; }"
                   : "+r"(word.x), "+r"(word.y)
                   : "l"(from), "r"(int(present)), "l"(policy));
    else
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.nc.v2.b32 {%0, %1}, [%2]; }"
                   : "+r"(word.x), "+r"(word.y)
                   : "l"(from), "r"(int(present)));
    memcpy(&cells, &word, sizeof(cells));
  }
}

// An asynchronous copy of 4 aligned elements, or of zeros.
template <typename T, bool kPolicies>
__device__ __forceinline__ void copy_cells4(Cells4<T>* to, const T* from, bool present, uint64_t policy) {
  constexpr int kBytes = 4 * sizeof(T);
  const int bytes = present ? kBytes : 0;
  if constexpr (!kPolicies) async_copy<kBytes>(to, from, bytes);
  else if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared_address(to)), "l"(from),
                 "r"(bytes), "l"(policy)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], 8, %2, %3;" ::"r"(shared_address(to)), "l"(from),
                 "r"(bytes), "l"(policy)
                 : "memory");
}

// Four columns of a strip, from `first` of the extended image on.
template <typename T, bool kPolicies>
struct StripColumns {
  const T* plane;
  int64_t stride;
  int map[4];      // column of the image, -1: nothing is read, `outside` stands there
  bool pack;       // one aligned vector of the image
  bool scattered;  // a lane of the warp has columns that are neither that nor all outside
  T outside;
  bool zeros;  // that is what is outside
  int height;
  Border border;
  Policies l2;

  __device__ StripColumns(const StripArgs& a, const Strip& strip, int first)
      : stride(a.in_stride_h), height(a.in_h), border(a.border), l2(policies<kPolicies>()) {
    plane = static_cast<const T*>(a.in) + strip.in;
    const int end = strip.column_end(a);
    pack = first >= 0 && first + 4 <= a.in_w && first < end;
    bool any = false;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const int x = first + v;
      const bool inside = x >= 0 && x < a.in_w;
      map[v] = pack ? x : x < end && (inside || !strip.mirrors) ? map_index(x, a.in_w, a.border) : -1;
      any = any || map[v] >= 0;
    }
    scattered = __any_sync(0xffffffff, any && !pack);
    outside = from_acc<T>(float(a.outside));
    zeros = a.outside == 0;
  }

  // Where rows first .. first + 7 lie, -1: outside.
  __device__ __forceinline__ void map_rows(int first, int (&rows)[kGroup]) const {
    const int mapped = map_index(first + int(threadIdx.x % kGroup), height, border);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) rows[j] = __shfl_sync(0xffffffff, mapped, j);
  }
  __device__ __forceinline__ bool inside(int first) const { return first >= 0 && first + kGroup <= height; }

  __device__ __forceinline__ Cells4<T> fill() const { return cells_of(outside, outside, outside, outside); }

  __device__ __forceinline__ T element(int row, int v) const {
    if (row < 0 || map[v] < 0) return outside;
    const T* const from = plane + row * stride + map[v];
    if constexpr (sizeof(T) == 4) {
      return __ldg(from);
    } else {
      const unsigned short bits = __ldg(reinterpret_cast<const unsigned short*>(from));
      T x;
      memcpy(&x, &bits, sizeof(x));
      return x;
    }
  }

  // 8 rows into registers.
  __device__ __forceinline__ void load(int first, Cells4<T> (&to)[kGroup]) const {
    if (inside(first) && !scattered) {
      const T* from = plane + first * stride + max(map[0], 0);
#pragma unroll
      for (int j = 0; j < kGroup; ++j, from += stride) {
        to[j] = fill();
        load_cells4<T, kPolicies>(to[j], from, pack, l2.pass);
      }
      return;
    }
    int rows[kGroup];
    map_rows(first, rows);
    if (!scattered) {
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        to[j] = fill();
        load_cells4<T, kPolicies>(to[j], plane + max(rows[j], 0) * stride + max(map[0], 0), pack && rows[j] >= 0, l2.pass);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kGroup; ++j)
        to[j] = cells_of(element(rows[j], 0), element(rows[j], 1), element(rows[j], 2), element(rows[j], 3));
    }
  }

  // ... into shared memory, `pitch` apart, by asynchronous copies: the thread's own business until it has waited.
  __device__ __forceinline__ void copy(int first, Cells4<T>* to, int pitch) const {
    if (inside(first) && !scattered && zeros) {
      const T* from = plane + first * stride + max(map[0], 0);
#pragma unroll
      for (int j = 0; j < kGroup; ++j, from += stride)
        copy_cells4<T, kPolicies>(to + j * pitch, from, pack, l2.keep);
      return;
    }
    int rows[kGroup];
    map_rows(first, rows);
    if (!scattered && zeros) {
#pragma unroll
      for (int j = 0; j < kGroup; ++j)
        copy_cells4<T, kPolicies>(to + j * pitch, plane + max(rows[j], 0) * stride + max(map[0], 0),
                                  pack && rows[j] >= 0, l2.keep);
      return;
    }
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      const T* const row = plane + max(rows[j], 0) * stride;
      if (pack && rows[j] >= 0) {
        copy_cells4<T, kPolicies>(to + j * pitch, row + map[0], true, l2.keep);
      } else if constexpr (sizeof(T) == 4) {
        float* const cell = &to[j * pitch].x;
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          if (rows[j] >= 0 && map[v] >= 0) async_copy<4>(cell + v, row + map[v]);
          else cell[v] = outside;
        }
      } else {
        to[j * pitch] =
            cells_of(element(rows[j], 0), element(rows[j], 1), element(rows[j], 2), element(rows[j], 3));
      }
    }
  }
};

// The next slot of a ring.
__device__ __forceinline__ int next_slot(int slot, int slots) { return slot + 1 == slots ? 0 : slot + 1; }

template <typename T, Above kAbove, int kHigh, int kStages, bool kPolicies>
__device__ __forceinline__ void column_warp(const StripArgs& a, const Strip& strip, const Pipeline& pipeline,
                                            unsigned char* shared) {
  constexpr bool kInPlace = sizeof(T) == 4;
  constexpr int kV = v_stages(sizeof(T), kStages), kAhead = kStages - 1;
  constexpr bool kLeaving = kAbove == Above::ring || kAbove == Above::reread;
  constexpr int kRest = kLeaving ? kHigh : 0;
  const int id = threadIdx.x, batches = strip.batches, blocks = kLeaving ? a.blocks : 0;
  const int start = start_batches<kAbove>(blocks);

  Quad* const sums = reinterpret_cast<Quad*>(reinterpret_cast<float*>(shared) + in_row(4 * id));
  constexpr int kSumPitch = kRowPitch / 4;  // Quads a row
  unsigned char* const behind = shared + kV * kStageBytes + kStripSlack;
  Cells4<T>* const cells = kInPlace ? reinterpret_cast<Cells4<T>*>(sums) : reinterpret_cast<Cells4<T>*>(behind) + id;
  constexpr int kCellPitch = kInPlace ? kSumPitch : 32 * kColumnWarps;
  const int lanes = a.lanes;
  const bool owns = id < lanes;  // a place in the rings; the others' columns are nobody's
  Quad* const ring =
      reinterpret_cast<Quad*>(behind + (kInPlace ? 0 : kStages * kGroup * kCellPitch * int(sizeof(Cells4<T>)))) +
      min(id, lanes - 1);
  Quad* const rests = ring + blocks * lanes;

  const int first = strip.x - a.pad_x - a.shift + 4 * id;
  const StripColumns<T, kPolicies> columns(a, strip, first);
  const int top = strip.y - a.pad_y, bottom = top + a.kh - 1;

  // Entering rows of batch c, from c = -start on, come into slots in turn.
  auto fetch = [&](int c, int slot) {
    if (c < batches) columns.copy(bottom + kGroup * c, cells + slot * kGroup * kCellPitch, kCellPitch);
    async_commit();
  };
  int slot = 0;
  for (int i = 0; i < kAhead; ++i) fetch(i - start, i);
  // The slot before this batch's is free once the row warps have done with the batch before, if they read it.
  auto fetch_ahead = [&](int c) {
    const int b = c + kAhead, to = slot == 0 ? kStages - 1 : slot - 1;
    if (kInPlace && b >= kStages && b < batches) await(&pipeline.empty[to], use_of<kStages>(b - kStages));
    fetch(b, to);
    slot = next_slot(slot, kStages);
  };
  auto entering = [&](int j) { return unpack<T>(cells[(slot * kGroup + j) * kCellPitch]); };
  // Where batch c's V stand.
  auto v_stage = [&](int c) { return kInPlace ? slot : c % kV; };
  auto await_stage = [&](int c) {
    if (!kInPlace && c >= kV) await(&pipeline.empty[c % kV], use_of<kV>(c - kV));
  };
  auto put = [&](int c, int j, const Quad& v) { sums[(v_stage(c) * kGroup + j) * kSumPitch] = v; };

  if constexpr (!kLeaving) {
    // The kHigh - 1 rows before the batch stay in registers.
    constexpr int kKept = kHigh - 1;
    Quad kept[kKept > 0 ? kKept : 1];
    for (int c = -start; c < 0; ++c) {
      async_wait<kAhead - 1>();
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const Quad row = entering(j);
        if (kKept > 2 * kGroup - 1 - j && c == -2) kept[kKept > 2 * kGroup - 1 - j ? kKept - 2 * kGroup + j : 0] = row;
        if (kKept > kGroup - 1 - j && c == -1) kept[kKept > kGroup - 1 - j ? kKept - kGroup + j : 0] = row;
      }
      fetch_ahead(c);
    }
    for (int c = 0; c < batches; ++c) {
      Quad v[kGroup];
      if constexpr (kAbove == Above::kept) {
        v[kGroup - 1] = kept[kGroup - 1];
#pragma unroll
        for (int j = kGroup - 2; j >= 0; --j) v[j] = kept[j] + v[j + 1];
        if constexpr (kKept > kGroup) {
          Quad middle = kept[kGroup];
#pragma unroll
          for (int j = kGroup + 1; j < kKept; ++j) middle = middle + kept[j];
#pragma unroll
          for (int j = 0; j < kGroup; ++j) v[j] = v[j] + middle;
        }
#pragma unroll
        for (int j = 0; j < kKept - kGroup; ++j) kept[j] = kept[j + kGroup];
      }
      async_wait<kAhead - 1>();
      await_stage(c);
      if constexpr (kAbove == Above::kept) {
        Quad prefix;
#pragma unroll
        for (int j = 0; j < kGroup; ++j) {
          const Quad row = entering(j);
          prefix = j == 0 ? row : prefix + row;
          put(c, j, v[j] + prefix);
          kept[kKept - kGroup + j] = row;
        }
      } else {
        Quad rows[kGroup];
#pragma unroll
        for (int j = 0; j < kGroup; ++j) rows[j] = entering(j);
        auto row = [&](auto i) { return i < kKept ? kept[i < kKept ? i : 0] : rows[i < kKept ? 0 : i - kKept]; };
#pragma unroll
        for (int j = 0; j < kGroup; ++j) {
          Quad sum = row(j);
#pragma unroll
          for (int i = 1; i < kHigh; ++i) sum = sum + row(j + i);
          put(c, j, sum);
        }
#pragma unroll
        for (int j = 0; j < kKept; ++j) kept[j] = rows[kGroup - kKept + j];
      }
      arrive(&pipeline.full[v_stage(c)]);
      fetch_ahead(c);
    }
  } else {
    int oldest = 0, oldest_rest = 0;  // slots of the rings
    auto keep = [&](const Quad& block, const Quad& rest) {
      if (blocks > 0) {
        if (owns) ring[oldest * lanes] = block;
        oldest = next_slot(oldest, blocks);
      }
      if constexpr (kRest > 0 && kAbove == Above::ring) {
        if (owns) rests[oldest_rest * lanes] = rest;
        oldest_rest = next_slot(oldest_rest, blocks + 1);
      }
    };
    // V of a batch: `leaving` are its rows, and `next` will be those of the batch behind it.
    auto batch = [&](Cells4<T>(&leaving)[kGroup], Cells4<T>(&next)[kGroup], int c) {
      Quad v[kGroup];
#pragma unroll
      for (int j = kGroup - 1; j >= 0; --j) {
        v[j] = unpack<T>(leaving[j]);
        if (j < kGroup - 1) v[j] = v[j] + v[j + 1 < kGroup ? j + 1 : j];
      }
      // Only now: loads count at one scoreboard, and waiting for these rows would wait for those as well.
      asm volatile("" : "+f"(v[0].x), "+f"(v[0].y), "+f"(v[0].z), "+f"(v[0].w)::"memory");
      if constexpr (kAbove == Above::ring)
        if (c + 1 < batches) columns.load(top + kGroup * (c + 1), next);
      Quad middle;
      int left = blocks, at = oldest;
      if constexpr (kRest > 0 && kAbove == Above::ring) {
        middle = rests[oldest_rest * lanes];
      } else if constexpr (kRest > 0) {
        middle = unpack<T>(next[0]);
#pragma unroll
        for (int j = 1; j < kRest; ++j) middle = middle + unpack<T>(next[j]);
      } else if (left > 0) {
        middle = ring[at * lanes];
        at = next_slot(at, blocks), --left;
      }
      // The ring's end, then its start.
      const Quad* block = ring + at * lanes;
      const int until_end = min(left, blocks - at);
#pragma unroll 8
      for (int i = 0; i < until_end; ++i, block += lanes) middle = middle + *block;
      block = ring;
#pragma unroll 8
      for (int i = until_end; i < left; ++i, block += lanes) middle = middle + *block;
      if (kRest > 0 || blocks > 0) {
#pragma unroll
        for (int j = 0; j < kGroup; ++j) v[j] = v[j] + middle;
      }
      async_wait<kAhead - 1>();
      await_stage(c);
      Quad prefix, pair, half, first_half, rest;
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const Quad row = entering(j);
        prefix = j == 0 ? row : prefix + row;
        put(c, j, v[j] + prefix);
        pair = j % 2 == 0 ? row : pair + row;
        if (j % 4 == 1) half = pair;
        if (j % 4 == 3) half = half + pair;
        if (j == 3) first_half = half;
        if (j == kGroup - kRest) rest = row;
        if (j > kGroup - kRest) rest = rest + row;
      }
      arrive(&pipeline.full[v_stage(c)]);
      keep(first_half + half, rest);
      fetch_ahead(c);
      if constexpr (kAbove == Above::reread)
        if (c + 2 <= batches) columns.load(top + kGroup * (c + 2), leaving);
    };
    for (int c = -start; c < 0; ++c) {
      async_wait<kAhead - 1>();
      Quad row[kGroup];
#pragma unroll
      for (int j = 0; j < kGroup; ++j) row[j] = entering(j);
      Quad rest = row[kGroup - (kRest > 0 ? kRest : 1)];
#pragma unroll
      for (int j = kGroup - kRest + 1; j < kGroup; ++j) rest = rest + row[j];
      keep(block_sum(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]), rest);
      fetch_ahead(c);
    }
    Cells4<T> even[kGroup], odd[kGroup];  // take turns: copies from one to the other would wait for the loads
    columns.load(top, even);
    if constexpr (kAbove == Above::reread) columns.load(top + kGroup, odd);
    for (int c = 0; c < batches; c += 2) {
      batch(even, odd, c);
      if (c + 1 < batches) batch(odd, even, c + 1);
    }
  }
  async_wait<0>();
}

}  // namespace torch_conv::box
