// The columns of a block's threads, and the copies of their rows to shared memory.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "core/cuda/device.cuh"
#include "kernels/box/shared/integers.cuh"
#include "kernels/box/streaming/params.h"

namespace torch_conv::box {

template <typename T>
constexpr int kColumns = columns_per_thread(sizeof(T));

// The elements of one row that one thread copies.
template <typename T>
using Cells = Pack<kColumns<T>, T>;

// The columns of one thread.
template <typename T>
struct ThreadColumns {
  static constexpr int V = kColumns<T>;
  // outside: zeros; pack: one aligned vector of the image; scattered: element by element;
  // mirror: outside the image, but the block sums the repeated columns anyway
  enum class Source { outside, pack, scattered, mirror } source = Source::outside;
  int map[V];  // column of the image, -1: outside; of the block for mirrors

  // Columns first .. first + V - 1 of the extended image; the block uses [block, block + used).
  __device__ ThreadColumns(const IntegerArgs& a, int first, int block, int used) {
    bool any = false, row = true, in_block = first >= a.in_w || first + V <= 0;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      map[v] = map_index(first + v, a.in_w, a.border);
      any |= map[v] >= 0;
      row &= map[v] == map[0] + v;
      in_block &= map[v] >= block && map[v] < block + used;
    }
    if (first >= block + used || !any) return;
    source = a.pack_pitch > 0 && row && map[0] >= 0 && map[0] % V == 0 ? Source::pack : Source::scattered;
    if (!in_block || source == Source::pack) return;
    source = Source::mirror;
#pragma unroll
    for (int v = 0; v < V; ++v) map[v] -= block;
  }

  // Starts the copies of N rows into slots `pitch` apart; row -1 is a row of zeros.
  template <int N>
  __device__ __forceinline__ void fetch(Cells<T>* slot, int pitch, const IntegerArgs& a, const T* in,
                                        const int (&rows)[N]) const {
    if (source == Source::pack) {
      const char* const first = reinterpret_cast<const char*>(in + map[0]);
#pragma unroll
      for (int i = 0; i < N; ++i)
        async_copy<sizeof(Cells<T>)>(slot + i * pitch, first + int64_t(rows[i]) * a.pack_pitch,
                                     rows[i] >= 0 ? int(sizeof(Cells<T>)) : 0);
    } else if (source == Source::scattered) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const T* const from = in + max(rows[i], 0) * a.in_stride_h;
        Cells<T> cells;
#pragma unroll
        for (int v = 0; v < V; ++v) {
          const T* const element = from + max(map[v], 0) * a.in_stride_w;
          const bool present = rows[i] >= 0 && map[v] >= 0;
          if constexpr (sizeof(T) >= 4)
            async_copy<sizeof(T)>(&slot[i * pitch].v[v], element, present ? int(sizeof(T)) : 0);
          else cells.v[v] = present ? __ldg(element) : T{};  // asynchronous copies move at least 4 bytes
        }
        if constexpr (sizeof(T) < 4) slot[i * pitch] = cells;
      }
    }
  }
};

template <int N, typename T>
__device__ __forceinline__ Pack<N, T> load_cells(const Pack<N, T>* slot) {
  return load_pack<N>(slot->v);
}

}  // namespace torch_conv::box
