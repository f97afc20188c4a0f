// What a column warp's thread reads of a strip's image, and how: 4 columns, wherever they lie.
#pragma once

#include <climits>

#include "box/strips_common.cuh"
#include "core/border.h"

namespace torch_conv::box {

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

// Four columns of a strip. kAnywhere: some warps at the image's edges, whose code stands apart so that the others' is
// short. Else every lane's columns lie side by side in the image, or all are outside and 0. kVectors: rows start on
// whole vectors, which come by copies of the thread's own columns. Else a warp's lanes copy every 32nd of its 128
// columns, so that a copy touches no more lines than it must; they wait for each other then.
template <typename T, int kLots, bool kVectors, bool kPolicies, bool kAnywhere>
struct StripColumns {
  const T* plane;
  int64_t stride;
  int map[4];     // elements from the start of the image's row, -1: nothing is read, `outside` stands there
  bool whole;     // side by side
  bool apart;     // neither that nor all outside, where zeros stand
  int spread[4];  // as map[0], of column 32 v + lane of the warp; -1: outside
  T outside;
  int height;
  Border border;
  Policies l2;

  __device__ StripColumns(const StripArgs& a, const Strip<kLots>& strip)
      : stride(a.in_stride_h), height(a.in_h), border(a.border), l2(policies<kPolicies>()) {
    constexpr int C = kChannels<kLots>;
    const int number = strip.number(a, threadIdx.x);
    const Lot& lot = strip.lot(number);
    plane = static_cast<const T*>(a.in) + lot.in;
    const int first = lot.begin<kLots>(a) * C - (C > 1 ? a.shift : 0) + 4 * int(threadIdx.x) - number * a.pitch;
    const int end = lot.valid > 0 ? lot.end(a) * C : INT_MIN;
    whole = first >= 0 && first + 4 <= a.in_w * C && first < end;
    bool any = false;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const int x = first + v;
      const bool inside = x >= 0 && x < a.in_w * C;
      map[v] = whole ? x : x < end && (inside || !lot.mirrors) ? map_column(x, a.in_w * C, C, a.border) : -1;
      any = any || map[v] >= 0;
    }
    outside = from_acc<T>(float(a.outside));
    apart = a.outside != 0 || (any && !whole);
    if constexpr (!kVectors && !kAnywhere) {
      const int lane = threadIdx.x % 32;
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        const int owner = __shfl_sync(0xffffffff, whole ? map[0] : -4, 8 * v + lane / 4);
        spread[v] = owner < 0 ? -1 : owner + lane % 4;
      }
    }
  }

  // Where rows first .. first + 7 lie, -1: outside.
  __device__ __forceinline__ void map_rows(int first, int (&rows)[kGroup]) const {
    const int mapped = map_index(first + int(threadIdx.x % kGroup), height, border);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) rows[j] = __shfl_sync(0xffffffff, mapped, j);
  }
  __device__ __forceinline__ bool inside(int first) const { return first >= 0 && first + kGroup <= height; }

  __device__ __forceinline__ T element(int row, int v) const {
    return row < 0 || map[v] < 0 ? outside : load_read_only(plane + row * stride + map[v]);
  }
  __device__ __forceinline__ Cells4<T> gather(int row) const {
    return cells_of(element(row, 0), element(row, 1), element(row, 2), element(row, 3));
  }
  __device__ __forceinline__ void load_one(Cells4<T>& to, const T* from, bool present) const {
    if constexpr (kVectors) load_cells4<T, kPolicies>(to, from, present, l2.pass);
    else load_single4(to, from, present);
  }

  // 8 rows into registers.
  __device__ __forceinline__ void load(int first, Cells4<T> (&to)[kGroup]) const {
    if constexpr (!kAnywhere) {
      if (inside(first)) {
        const T* from = plane + first * stride + max(map[0], 0);
#pragma unroll
        for (int j = 0; j < kGroup; ++j, from += stride) load_one(to[j], from, whole);
        return;
      }
    }
    int rows[kGroup];
    map_rows(first, rows);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      if constexpr (kAnywhere) to[j] = gather(rows[j]);
      else load_one(to[j], plane + max(rows[j], 0) * stride + max(map[0], 0), whole && rows[j] >= 0);
    }
  }

  // Rows that come into shared memory by asynchronous copies: the thread's own business until it has waited. Rows of
  // the image can be copied one by one between other work.
  struct Rows {
    const T* from;
    bool one_by_one;
  };
  __device__ __forceinline__ Rows rows(int first) const {
    return {plane + first * stride, kVectors && !kAnywhere && inside(first)};
  }
  __device__ __forceinline__ void copy_one(Rows& rows, Cells4<T>* to) const {
    copy_cells4<T, kPolicies>(to, rows.from + max(map[0], 0), whole, l2.keep);
    rows.from += stride;
  }
  __device__ __forceinline__ void wait_for_lanes() const {
    if constexpr (!kVectors) lanes_meet();
  }
  // Any rows.
  __device__ __forceinline__ void copy(int first, Cells4<T>* to, int pitch) const {
    if constexpr (kAnywhere) {
#pragma unroll 1
      for (int j = 0; j < kGroup; ++j, to += pitch) {
        const int row = map_index(first + j, height, border);
        const T* const from = plane + max(row, 0) * stride;
        if (kVectors && whole && row >= 0) {
          copy_cells4<T, kPolicies>(to, from + map[0], true, l2.keep);
        } else if constexpr (sizeof(T) == 4) {
          float* const cell = &to->x;
#pragma unroll
          for (int v = 0; v < 4; ++v) {
            if (row >= 0 && map[v] >= 0) async_copy<4>(cell + v, from + map[v]);
            else cell[v] = outside;
          }
        } else {
          *to = gather(row);
        }
      }
    } else if constexpr (!kVectors) {
      int rows[kGroup];
      map_rows(first, rows);
      const int lane = threadIdx.x % 32;
      constexpr bool kInPlace = sums_in_place(sizeof(T), kChannels<kLots>);
      constexpr int kStep = kInPlace ? kChunkPitch : 32;
      // From the thread's own columns to the first of those that it copies.
      const int place = kInPlace ? lane - (lane / 8 * kChunkPitch + lane % 8 * 4) : -3 * lane;
#pragma unroll
      for (int j = 0; j < kGroup; j += 4) {
        T values[4][4];
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const int row = rows[j + i / 4], v = i % 4;
          const bool present = row >= 0 && spread[v] >= 0;
          const T* const from = plane + max(row, 0) * stride + max(spread[v], 0);
          if constexpr (sizeof(T) == 4)
            async_copy<4>(reinterpret_cast<T*>(to + (j + i / 4) * pitch) + place + v * kStep, from, present ? 4 : 0);
          else values[i / 4][v] = present ? load_read_only(from) : T{};
        }
        if constexpr (sizeof(T) == 2) {
#pragma unroll
          for (int i = 0; i < 16; ++i)
            reinterpret_cast<T*>(to + (j + i / 4) * pitch)[place + i % 4 * kStep] = values[i / 4][i % 4];
        }
      }
    } else if (inside(first)) {
      Rows coming = rows(first);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) copy_one(coming, to + j * pitch);
    } else {
      int rows[kGroup];
      map_rows(first, rows);
#pragma unroll
      for (int j = 0; j < kGroup; ++j)
        copy_cells4<T, kPolicies>(to + j * pitch, plane + max(rows[j], 0) * stride + max(map[0], 0),
                                  whole && rows[j] >= 0, l2.keep);
    }
  }
};

}  // namespace torch_conv::box
