// Box sums of integers, of any window at the same cost: a block streams down a strip of output rows with running column
// sums.
//
//                  tile_w outputs + kw - 1 halo columns
//                +--------------------------------------+
//     leaving    |- - - - - - - - - - - - - - - - - - - |  row y - 1 - pad_y      column sums += entering - leaving
//                |   window of output row y, kh rows    |                         E = exclusive prefix of column sums
//     entering   |+ + + + + + + + + + + + + + + + + + + |  row y - pad_y + kh-1   output x = E[x + kw] - E[x]
//                +--------------------------------------+
//
// A thread owns V neighbouring columns of the strip and maps them once; the lanes of a warp map one row of a chunk
// each. Columns that a border repeats are not read again: their threads copy the column sums of the repeated columns.
// The copies cost one or two more barriers a chunk in blocks at the image's edges.
//
// Rows come by asynchronous copies into a ring in which a thread writes and reads only its own columns, without
// barriers. A slot is refilled as soon as its rows have been added, so copies overlap scans, barriers and stores. The
// same ring brings the kh - 1 rows that start the sums.
//
// Prefix sums run over the 32 V columns of one warp; the totals of the warps between add the rest. The prefix rows are
// double buffered, so one barrier a chunk is enough.
//
// Per output: (2 + kh / strip_h) * (1 + kw / tile_w) element reads, one write, about 10 additions. About one read is
// from device memory, where the leaving rows are still in L2.
#pragma once

#include "kernels/box/streaming/columns.cuh"

namespace torch_conv::box {

// The first `count` of V neighbouring outputs.
template <typename Out, int V, typename Real>
__device__ __forceinline__ void store_row(const IntegerArgs& a, int64_t index, int64_t step, const Real (&values)[V],
                                          int count) {
  if constexpr (!std::is_same_v<Out, General>) {
    if (a.out_packs && count == V) {
      Pack<V, Out> pack;
#pragma unroll
      for (int v = 0; v < V; ++v) pack.v[v] = from_acc<Out>(values[v]);
      typename VectorOf<sizeof(pack)>::type word;
      memcpy(&word, &pack, sizeof(pack));
      *reinterpret_cast<decltype(word)*>(static_cast<Out*>(a.out) + index) = word;
      return;
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (v < count) store<Out>(a, index + v * step, values[v]);
}

// Sums of columns become their prefix within the thread, and `before` the sum of the threads before it in the warp.
template <int Rows, int V, typename Sum>
__device__ __forceinline__ void scan_warp(Sum (&inclusive)[Rows][V], Sum (&before)[Rows]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int v = 1; v < V; ++v) inclusive[r][v] += inclusive[r][v - 1];
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
}

template <typename T, typename Sum, typename Out, int Rows = kChunkRows, int Stages = kStages>
__global__ void __launch_bounds__(kMaxThreads) box_streaming(const __grid_constant__ IntegerArgs a) {
  constexpr int V = kColumns<T>, kSegment = 32 * V;
  constexpr int kTogether = std::is_same_v<Out, General> ? 1 : Rows;  // rows of outputs in one piece of code

  extern __shared__ __align__(16) unsigned char shared[];
  const int threads = blockDim.x, warps = threads / 32, columns = threads * V;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Cells<T>* const ring = reinterpret_cast<Cells<T>*>(shared) + threadIdx.x;  // [Stages][2 Rows][threads]
  Sum* const prefix =
      reinterpret_cast<Sum*>(shared + Stages * 2 * Rows * threads * sizeof(Cells<T>));  // [2][prefix_pitch]
  // A prefix row has V planes, column c in plane c % V at c / V: V neighbouring columns of every lane are read
  // without bank conflicts from any offset. Outputs that are not stored read up to a segment too far.
  const int prefix_pitch = Rows * columns + kSegment;
  Sum* const totals = prefix + 2 * prefix_pitch;  // [2][Rows][warps]
  Sum* const carry = totals + 2 * Rows * warps;   // [Rows][columns], if there is room for it

  for (int64_t work = blockIdx.x; work < a.work; work += gridDim.x) {
    const int x0 = int(work % a.tiles) * a.tile_w, valid = min(a.tile_w, a.out_w - x0);
    const int strip = int(work / a.tiles % a.strips) * a.strip_h, y_end = min(strip + a.strip_h, a.out_h);
    const int64_t plane = work / a.tiles / a.strips;
    const T* const in = in_plane<T>(a, plane);
    const int64_t out = out_plane(a, plane);

    // Column 0 of the block is aligned: `shift` columns left of output x0's window.
    const int shift = floor_mod(x0 - a.pad_x, V);
    const int block_x = x0 - a.pad_x - shift;
    const ThreadColumns<T> thread_columns(a, block_x + int(threadIdx.x) * V, block_x, shift + valid + a.kw - 1);
    const bool is_mirror = thread_columns.source == ThreadColumns<T>::Source::mirror,
               mirrors = __syncthreads_or(is_mirror);
    // A mirrored column is as far from the edge of the image as its source, give or take a vector.
    const int halo = max(a.pad_x, a.out_w - 1 - a.pad_x + a.kw - a.in_w) + V, own_x = block_x + int(threadIdx.x) * V;
    const bool is_source = !is_mirror && (own_x <= halo || own_x + V >= a.in_w - halo);
    if (thread_columns.source == ThreadColumns<T>::Source::outside || is_mirror)
      for (int slot = 0; slot < Stages * 2 * Rows; ++slot) ring[slot * threads] = Cells<T>{};

    // The windows of a thread's outputs end `bridge` warps on, or one more (in the last columns of the segment).
    const int ahead = shift + a.kw, bridge = ahead / kSegment, rest = ahead % kSegment;
    int from[V], to[V];  // offsets of the prefixes of their first column and of the column behind them
#pragma unroll
    for (int v = 0; v < V; ++v) {
      from[v] = (v + shift) % V * threads + (v + shift) / V;
      to[v] = (v + ahead) % V * threads + (v + ahead) / V;
    }
    const int64_t step = std::is_same_v<Out, General> ? a.out_stride_w : 1;
    const int x = int(threadIdx.x) * V;  // within the tile
    const int64_t out_x = out + (x0 + x) * step;
    const int stored = min(max(valid - x, 0), V);

    // Rows of the first window but its last one, read in the order of their number modulo kh: strips whose windows
    // overlap read a row at the same time, and memory sees it once.
    const int start_row = strip - a.pad_y, start_rows = a.kh - 1;
    const int turn = floor_mod(-start_row, a.kh);
    const int start_chunks = (start_rows + 2 * Rows - 1) / (2 * Rows);
    const int chunks = start_chunks + (y_end - strip + Rows - 1) / Rows;

    auto fetch_chunk = [&](int chunk, Cells<T>* slot) {
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
          const int y = strip + (chunk - start_chunks) * Rows + r % Rows;
          row = r < Rows ? y - a.pad_y + a.kh - 1 : y - a.pad_y - 1;
          present = y < y_end && (r < Rows || y > strip);  // the first row has nothing to leave
        }
        const int mapped = present ? map_index(row, a.in_h, a.border) : -1;
        int rows[2 * Rows];
#pragma unroll
        for (int i = 0; i < 2 * Rows; ++i) rows[i] = __shfl_sync(0xffffffff, mapped, i);
        thread_columns.fetch(slot, threads, a, in, rows);
      }
      async_commit();
    };

    Sum sums[V] = {};
    int stage = 0;
    for (int chunk = -Stages; chunk < chunks; ++chunk) {  // those before 0 only start the first copies
      Cells<T>* const slot = ring + stage * 2 * Rows * threads;
      stage = stage + 1 < Stages ? stage + 1 : 0;
      async_wait<Stages - 1>();

      Sum inclusive[Rows][V];  // column sums, then their prefix within the thread
      if (chunk >= start_chunks) {
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          const Cells<T> entering = load_cells(slot + r * threads), leaving = load_cells(slot + (Rows + r) * threads);
#pragma unroll
          for (int v = 0; v < V; ++v)
            inclusive[r][v] = sums[v] += to_sum<Sum>(entering.v[v]) - to_sum<Sum>(leaving.v[v]);
        }
      } else if (chunk >= 0) {
#pragma unroll
        for (int r = 0; r < 2 * Rows; ++r) {
          const Cells<T> row = load_cells(slot + r * threads);
#pragma unroll
          for (int v = 0; v < V; ++v) sums[v] += to_sum<Sum>(row.v[v]);
        }
      }
      fetch_chunk(chunk + Stages, slot);
      if (chunk < start_chunks) continue;

      const int streaming = chunk - start_chunks, y0 = strip + streaming * Rows;
      Sum* const prefix_rows = prefix + streaming % 2 * prefix_pitch;
      Sum* const total_rows = totals + streaming % 2 * Rows * warps;
      if (mirrors) {
        // Without a buffer of their own the column sums come over in the one of the prefixes, at one more barrier.
        Sum* const over = a.carry ? carry : prefix_rows;
        if (is_source) {
#pragma unroll
          for (int r = 0; r < Rows; ++r)
#pragma unroll
            for (int v = 0; v < V; ++v) over[r * columns + v * threads + threadIdx.x] = inclusive[r][v];
        }
        __syncthreads();
        if (is_mirror) {
#pragma unroll
          for (int v = 0; v < V; ++v) {
            const Sum* const column = over + thread_columns.map[v] % V * threads + thread_columns.map[v] / V;
#pragma unroll
            for (int r = 0; r < Rows; ++r) inclusive[r][v] = column[r * columns];
          }
        }
      }
      Sum before[Rows];
      scan_warp(inclusive, before);
      if (mirrors && !a.carry) __syncthreads();
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
#pragma unroll
        for (int v = 0; v < V; ++v)
          prefix_rows[r * columns + v * threads + threadIdx.x] =
              v == 0 ? before[r] : before[r] + inclusive[r][v - (v > 0)];
        if (lane == 31) total_rows[r * warps + warp] = before[r] + inclusive[r][V - 1];
      }

      __syncthreads();  // all prefix rows are written, and no thread reads the other buffer any more

      if (warp * kSegment >= valid) continue;
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
            values[v] = finished<Out>(a, to_real<T>(sum), y, x0 + x + v);
          }
          store_row<Out>(a, out_x + y * a.out_stride_h, step, values, count);
        }
      }
    }

    async_wait<0>();
    __syncthreads();
  }
}

}  // namespace torch_conv::box
