// Box sums of any window at the same cost: a block marches down a strip of output rows with running column sums.
//
//                tile_w outputs + kw - 1 halo columns
//              +--------------------------------------+
//     leaving  |- - - - - - - - - - - - - - - - - - - |  row y - 1 - pad_y      column sums += entering - leaving
//              |   window of output row y, kh rows    |                         E = exclusive prefix of the column sums
//    entering  |+ + + + + + + + + + + + + + + + + + + |  row y - pad_y + kh-1   output x = E[x + kw] - E[x]
//              +--------------------------------------+
//
// A thread owns V neighbouring columns for the whole march: where they lie is mapped once, the rows of a chunk are
// mapped by the lanes of a warp side by side, and so every border and radius costs the same. The rows come by
// asynchronous copies into a ring in which a thread writes and reads only its own columns (no barrier); a slot is
// refilled as soon as its rows have been added, so the copies of the next chunks fly during scans, barriers and stores.
// The same stream brings the kh - 1 rows that start the sums.
//
// Prefix sums run over the 32 V columns of one warp, the totals of the warps between bridge the rest: shorter sums than
// a prefix over the block, and one barrier a chunk (the prefix rows are double buffered).
//
// Traffic: (2 + kh / strip_h) * (1 + kw / tile_w) element reads an output, of which memory sees about one where the
// leaving rows are still in L2, and one write. Arithmetic: about 10 additions an output.
//
// Running sums would smear NaN and Inf (and huge values whose prefix overflows). An output that is not finite therefore
// sends its chunk and the next one to plain_row, and the march starts afresh behind them.
#pragma once

#include "box/kernel_plain.cuh"
#include "box/plan.h"
#include "core/device.cuh"

namespace torch_conv::box {

template <typename T>
constexpr int kColumns = columns_per_thread(sizeof(T));

// The elements of one row that one thread owns.
template <typename T>
using Cells = Pack<kColumns<T>, T>;

// Where a row of them arrives: as Cells, or at the image's edges as one 4-byte word around each element.
using Slot = Pack<4, unsigned>;
static_assert(sizeof(Slot) == kSlotBytes);

// Copies Bytes (4, 8 or 16), or writes zeros where nothing is `present`.
template <int Bytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool present) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int size = present ? Bytes : 0;
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(size) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(Bytes), "r"(size)
                 : "memory");
}

__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Pending>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// Where one thread's columns lie in the image.
template <typename T>
struct Columns {
  static constexpr int V = kColumns<T>;
  // outside: zeros; pack: one aligned vector; words: one word around each element; scattered: element by element
  enum class Lie { outside, pack, words, scattered } lie = Lie::outside;
  int map[V];  // -1: outside

  // Columns first .. first + V - 1 of the extended image.
  __device__ Columns(const Args& a, int first, bool used) {
    bool any = false;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      map[v] = map_index(first + v, a.in_w, a.border);
      any |= map[v] >= 0;
    }
    if (!used || !any) return;
    if (a.pack_pitch > 0 && first >= 0 && first + V <= a.in_w) lie = Lie::pack;
    else lie = sizeof(T) >= 4 || a.in_stride_h * sizeof(T) % 4 == 0 ? Lie::words : Lie::scattered;
  }

  // Starts the copies of N rows into slots `pitch` apart; row -1 is a row of zeros. Elements outside are not written:
  // their slots hold zeros from the start.
  template <int N>
  __device__ __forceinline__ void fetch(Slot* slot, int pitch, const Args& a, const T* in, const int (&rows)[N]) const {
    if (lie == Lie::pack) {
      const char* const first = reinterpret_cast<const char*>(in + map[0]);
#pragma unroll
      for (int i = 0; i < N; ++i)
        copy_async<sizeof(Cells<T>)>(slot + i * pitch, first + int64_t(rows[i]) * a.pack_pitch, rows[i] >= 0);
    } else if (lie == Lie::words) {
      constexpr int kBytes = sizeof(T) < 4 ? 4 : sizeof(T);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (map[v] < 0) continue;
        const char* const column = reinterpret_cast<const char*>(in + map[v] * a.in_stride_w) - skipped(a, in, v);
#pragma unroll
        for (int i = 0; i < N; ++i)
          copy_async<kBytes>(reinterpret_cast<char*>(slot + i * pitch) + v * kBytes,
                             column + rows[i] * a.in_stride_h * int64_t(sizeof(T)), rows[i] >= 0);
      }
    } else if (lie == Lie::scattered) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        Cells<T> cells;
#pragma unroll
        for (int v = 0; v < V; ++v) {
          const bool present = rows[i] >= 0 && map[v] >= 0;
          cells.v[v] = present ? __ldg(in + rows[i] * a.in_stride_h + map[v] * a.in_stride_w) : T(0);
        }
        *reinterpret_cast<Cells<T>*>(slot + i * pitch) = cells;
      }
    }
  }

  // Picks the elements out of words that have arrived, in place.
  template <int N>
  __device__ __forceinline__ void arrive(Slot* slot, int pitch, const Args& a, const T* in) const {
    if constexpr (sizeof(T) < 4) {
      if (lie != Lie::words) return;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const Slot words = slot[i * pitch];
        Slot picked{};
#pragma unroll
        for (int v = 0; v < V; ++v) {
          constexpr unsigned kMask = (1u << 8 * sizeof(T)) - 1;
          const int bit = v * 8 * sizeof(T);
          const unsigned element = map[v] < 0 ? 0 : words.v[v] >> 8 * skipped(a, in, v) & kMask;
          picked.v[bit / 32] |= element << bit % 32;
        }
        memcpy(slot + i * pitch, &picked, sizeof(Cells<T>));
      }
    }
  }

 private:
  // Bytes between the start of a word and element v in it: the same in every row.
  __device__ __forceinline__ int skipped(const Args& a, const T* in, int v) const {
    return sizeof(T) < 4 ? int(reinterpret_cast<uintptr_t>(in + map[v] * a.in_stride_w) % 4) : 0;
  }
};

template <typename T>
__device__ __forceinline__ Cells<T> cells(const Slot* slot) {
  return load_pack<kColumns<T>>(reinterpret_cast<const T*>(slot));
}

// The first `count` of V neighbouring outputs.
template <typename Out, int V, typename Real>
__device__ __forceinline__ void store_row(const Args& a, int64_t index, int64_t step, const Real (&values)[V],
                                          int count) {
  if constexpr (!std::is_same_v<Out, General>) {
    if (a.out_packs && count == V) {
      Pack<V, Out> pack;
#pragma unroll
      for (int v = 0; v < V; ++v) pack.v[v] = from_acc<Out>(values[v]);
      typename WordOf<sizeof(pack)>::type word;
      memcpy(&word, &pack, sizeof(pack));
      *reinterpret_cast<decltype(word)*>(static_cast<Out*>(a.out) + index) = word;
      return;
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (v < count) store<Out>(a, index + v * step, values[v]);
}

template <typename T, typename Sum, typename Out, int Rows = kChunkRows, int Stages = kStages>
__global__ void __launch_bounds__(kMaxThreads) box_march(const __grid_constant__ Args a) {
  constexpr int V = kColumns<T>, kSegment = 32 * V;
  constexpr bool kFloats = std::is_floating_point_v<Sum>;
  constexpr int kTogether = std::is_same_v<Out, General> ? 1 : Rows;  // rows of outputs in one piece of code

  extern __shared__ __align__(16) unsigned char shared[];
  const int threads = blockDim.x, warps = threads / 32, columns = threads * V;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Slot* const ring = reinterpret_cast<Slot*>(shared) + threadIdx.x;              // [Stages][2 Rows][threads]
  Sum* const prefix = reinterpret_cast<Sum*>(shared + Stages * 2 * Rows * threads * sizeof(Slot));  // [2][prefix_pitch]
  // A prefix row stands in V planes, column c in plane c % V at c / V: V neighbouring columns of every lane are read
  // without bank conflicts from any offset. Outputs that are not stored read up to a segment too far.
  const int prefix_pitch = Rows * columns + kSegment;
  Sum* const totals = prefix + 2 * prefix_pitch;  // [2][Rows][warps]

  for (int64_t work = blockIdx.x; work < a.work; work += gridDim.x) {
    const int x0 = int(work % a.tiles) * a.tile_w, valid = min(a.tile_w, a.out_w - x0);
    const int strip = int(work / a.tiles % a.strips) * a.strip_h, y_end = min(strip + a.strip_h, a.out_h);
    const int64_t plane = work / a.tiles / a.strips;
    const T* const in = in_plane<T>(a, plane);
    const int64_t out = out_plane(a, plane);

    // Column 0 of the block is aligned: `shift` columns left of output x0's window.
    const int shift = floor_mod(x0 - a.pad_x, V);
    const Columns<T> own(a, x0 - a.pad_x - shift + int(threadIdx.x) * V,
                         int(threadIdx.x) * V < shift + valid + a.kw - 1);
    if (own.lie != Columns<T>::Lie::pack)
      for (int slot = 0; slot < Stages * 2 * Rows; ++slot) ring[slot * threads] = Slot{};

    // The windows of a thread's outputs end `bridge` warps on, or one more (in the last columns of the segment).
    const int ahead = shift + a.kw, bridge = ahead / kSegment, rest = ahead % kSegment;
    int from[V], to[V];  // where the prefixes of their first column and of the column behind them stand
#pragma unroll
    for (int v = 0; v < V; ++v) {
      from[v] = (v + shift) % V * threads + (v + shift) / V;
      to[v] = (v + ahead) % V * threads + (v + ahead) / V;
    }
    const int64_t step = std::is_same_v<Out, General> ? a.out_stride_w : 1;
    const int x = int(threadIdx.x) * V;  // within the tile
    const int64_t out_x = out + (x0 + x) * step;
    const int stored = min(max(valid - x, 0), V);

    for (int y_begin = strip; y_begin < y_end;) {
      // Rows of the first window but its last one, read in the order of their number modulo kh: strips whose windows
      // overlap read a row at the same time, and memory sees it once.
      const int start_row = y_begin - a.pad_y, start_rows = a.kh - 1;
      const int turn = floor_mod(-start_row, a.kh);
      const int start_chunks = (start_rows + 2 * Rows - 1) / (2 * Rows);
      const int chunks = start_chunks + (y_end - y_begin + Rows - 1) / Rows;

      auto fetch_chunk = [&](int chunk, Slot* slot) {
        if (chunk < chunks) {
          // Lane r maps row r of the chunk: 2 Rows starting rows, or Rows entering and then Rows leaving ones.
          const int r = lane % (2 * Rows);
          int row;
          bool present;
          if (chunk < start_chunks) {
            const int i = chunk * 2 * Rows + r, turned = i + turn < start_rows ? i + turn : i + turn - start_rows;
            row = start_row + turned;
            present = i < start_rows;
          } else {
            const int y = y_begin + (chunk - start_chunks) * Rows + r % Rows;
            row = r < Rows ? y - a.pad_y + a.kh - 1 : y - a.pad_y - 1;
            present = y < y_end && (r < Rows || y > y_begin);  // the first row has nothing to leave
          }
          const int mapped = present ? map_index(row, a.in_h, a.border) : -1;
          int rows[2 * Rows];
#pragma unroll
          for (int i = 0; i < 2 * Rows; ++i) rows[i] = __shfl_sync(0xffffffff, mapped, i);
          own.fetch(slot, threads, a, in, rows);
        }
        copies_commit();
      };

      Sum sums[V] = {};
      bool bad = false;
      int stage = 0, next = y_end, redo_begin = y_end, redo_end = y_end;
      for (int chunk = -Stages; chunk < chunks; ++chunk) {  // those before 0 only start the first copies
        Slot* const slot = ring + stage * 2 * Rows * threads;
        stage = stage + 1 < Stages ? stage + 1 : 0;
        copies_wait<Stages - 1>();
        if (chunk >= 0) own.template arrive<2 * Rows>(slot, threads, a, in);

        Sum inclusive[Rows][V];  // prefix within the thread
        if (chunk >= start_chunks) {
#pragma unroll
          for (int r = 0; r < Rows; ++r) {
            const Cells<T> entering = cells<T>(slot + r * threads), leaving = cells<T>(slot + (Rows + r) * threads);
#pragma unroll
            for (int v = 0; v < V; ++v) {
              sums[v] += to_sum<Sum>(entering.v[v]) - to_sum<Sum>(leaving.v[v]);
              inclusive[r][v] = v == 0 ? sums[v] : inclusive[r][v - (v > 0)] + sums[v];
            }
          }
        } else if (chunk >= 0) {
#pragma unroll
          for (int r = 0; r < 2 * Rows; ++r) {
            const Cells<T> row = cells<T>(slot + r * threads);
#pragma unroll
            for (int v = 0; v < V; ++v) sums[v] += to_sum<Sum>(row.v[v]);
          }
        }
        fetch_chunk(chunk + Stages, slot);
        if (chunk < start_chunks) continue;

        const int march = chunk - start_chunks, y0 = y_begin + march * Rows;
        Sum before[Rows];  // of the threads before this one in the warp
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          before[r] = __shfl_up_sync(0xffffffff, inclusive[r][V - 1], 1);
          before[r] = lane == 0 ? Sum(0) : before[r];
        }
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
#pragma unroll
          for (int r = 0; r < Rows; ++r) {
            const Sum left = __shfl_up_sync(0xffffffff, before[r], distance);
            if (lane >= distance) before[r] += left;
          }
        }
        Sum* const prefix_rows = prefix + march % 2 * prefix_pitch;
        Sum* const total_rows = totals + march % 2 * Rows * warps;
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
#pragma unroll
          for (int v = 0; v < V; ++v)
            prefix_rows[r * columns + v * threads + threadIdx.x] =
                v == 0 ? before[r] : before[r] + inclusive[r][v - (v > 0)];
          if (lane == 31) total_rows[r * warps + warp] = before[r] + inclusive[r][V - 1];
        }

        // All prefix rows stand, and nobody reads the other buffer any more. `bad` is the last chunk's.
        if constexpr (kFloats) {
          if (__syncthreads_or(bad)) {
            redo_begin = y0 - Rows, redo_end = next = min(y0 + Rows, y_end);
            bad = false;
            break;
          }
        } else {
          __syncthreads();
        }

        if (warp * kSegment >= valid) continue;
        Sum poison = 0;  // NaN once an output was not finite
#pragma unroll 1
        for (int r0 = 0; r0 < Rows; r0 += kTogether) {
          Sum bridged[kTogether] = {}, result[kTogether][V];
#pragma unroll 1
          for (int w = 0; w < bridge; ++w) {
#pragma unroll
            for (int r = 0; r < kTogether; ++r) bridged[r] += total_rows[(r0 + r) * warps + warp + w];
          }
#pragma unroll
          for (int r = 0; r < kTogether; ++r) {
            const Sum* const row = prefix_rows + (r0 + r) * columns + threadIdx.x;
            const Sum* const total = total_rows + (r0 + r) * warps;
            const Sum first = total[warp], one_more = total[min(warp + bridge, warps - 1)];
#pragma unroll
            for (int v = 0; v < V; ++v) {
              Sum between = bridged[r];
              if (lane * V + v + rest >= kSegment) between += one_more;
              if (lane == 31 && v + shift >= V) between -= first;
              result[r][v] = row[to[v]] - row[from[v]] + between;
            }
          }
#pragma unroll
          for (int r = 0; r < kTogether; ++r) {
            const int y = y0 + r0 + r, count = y < y_end ? stored : 0;
            real_t<Sum> values[V];
#pragma unroll
            for (int v = 0; v < V; ++v) {
              const Sum sum = v < count ? result[r][v] : Sum(0);
              if constexpr (kFloats) poison += sum * Sum(0);  // of the sum: outputs may overflow their type
              values[v] = finished<Out>(a, to_real<T>(sum), y, x0 + x + v);
            }
            store_row<Out>(a, out_x + y * a.out_stride_h, step, values, count);
          }
        }
        if constexpr (kFloats) bad = poison != Sum(0);
      }

      copies_wait<0>();
      if constexpr (kFloats) {
        if (__syncthreads_or(bad)) redo_begin = y_begin + (chunks - start_chunks - 1) * Rows;
        for (int y = redo_begin; y < redo_end; ++y) plain_row<T, Sum, Out>(a, in, out, y, x0, x0 + valid, prefix);
      } else {
        __syncthreads();
      }
      y_begin = next;
    }
  }
}

}  // namespace torch_conv::box
