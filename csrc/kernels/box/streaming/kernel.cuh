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

// The parts of shared memory.
template <typename T, typename Sum, int Rows, int Stages>
struct StreamingMemory {
  const int threads = blockDim.x, warps = threads / 32, columns = threads * kColumns<T>;
  // A prefix row has V planes, column c in plane c % V at c / V: V neighbouring columns of every lane are read
  // without bank conflicts from any offset. Outputs that are not stored read up to a segment too far.
  const int prefix_pitch = Rows * columns + 32 * kColumns<T>;
  Cells<T>* const ring;  // [Stages][2 Rows][threads], from the thread's own cells on
  Sum* const prefix;     // [2][prefix_pitch]
  Sum* const totals;     // [2][Rows][warps]
  Sum* const carry;      // [Rows][columns], if there is space for it

  __device__ explicit StreamingMemory(unsigned char* shared)
      : ring(reinterpret_cast<Cells<T>*>(shared) + threadIdx.x),
        prefix(reinterpret_cast<Sum*>(shared + Stages * 2 * Rows * threads * sizeof(Cells<T>))),
        totals(prefix + 2 * prefix_pitch),
        carry(totals + 2 * Rows * warps) {}
  __device__ __forceinline__ Cells<T>* slot(int stage) const { return ring + stage * 2 * Rows * threads; }
};

// A block's outputs: columns [x, x + valid) of rows [y, y_end). They come in chunks of Rows rows, behind the chunks
// of 2 Rows rows that start the sums.
template <typename T, int Rows>
struct BlockStrip {
  int x, valid, y, y_end;
  int64_t plane;
  // Column 0 of the block is aligned: column first_x of the extended image, `shift` columns left of output x's window.
  int shift, first_x;
  // A thread's windows end `bridge` warps on, or one more in the last columns of the segment.
  int ahead, bridge, rest;
  // Rows of the first window but its last one, read in the order of their number modulo kh: strips whose windows
  // overlap read a row at the same time, and memory sees it once.
  int start_row, start_rows, turn, start_chunks, chunks;

  __device__ BlockStrip(const IntegerArgs& a, int64_t work) {
    x = int(work % a.tiles) * a.tile_w, valid = min(a.tile_w, a.out_w - x);
    y = int(work / a.tiles % a.strips) * a.strip_h, y_end = min(y + a.strip_h, a.out_h);
    plane = work / a.tiles / a.strips;
    shift = floor_mod(x - a.pad_x, kColumns<T>), first_x = x - a.pad_x - shift;
    ahead = shift + a.kw, bridge = ahead / (32 * kColumns<T>), rest = ahead % (32 * kColumns<T>);
    start_row = y - a.pad_y, start_rows = a.kh - 1, turn = floor_mod(-start_row, a.kh);
    start_chunks = (start_rows + 2 * Rows - 1) / (2 * Rows);
    chunks = start_chunks + (y_end - y + Rows - 1) / Rows;
  }
  // Row r of a chunk, of 2 Rows starting rows, or of Rows entering and then Rows leaving ones: a row of the image, -1:
  // zeros.
  __device__ __forceinline__ int row(const IntegerArgs& a, int chunk, int r) const {
    int row;
    bool present;
    if (chunk < start_chunks) {
      const int i = chunk * 2 * Rows + r, turned = i + turn < start_rows ? i + turn : i + turn - start_rows;
      row = start_row + turned;
      present = i < start_rows;
    } else {
      const int at = y + (chunk - start_chunks) * Rows + r % Rows;
      row = r < Rows ? at - a.pad_y + a.kh - 1 : at - a.pad_y - 1;
      present = at < y_end && (r < Rows || at > y);  // the first row has nothing to leave
    }
    return present ? map_index(row, a.in_h, a.border) : -1;
  }
};

// The windows of a thread's V outputs, in prefix rows.
template <int V>
struct WindowEnds {
  int from[V], to[V];  // offsets of the prefixes of their first column and of the column behind them

  __device__ WindowEnds(int shift, int ahead, int threads) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      from[v] = (v + shift) % V * threads + (v + shift) / V;
      to[v] = (v + ahead) % V * threads + (v + ahead) / V;
    }
  }
};

template <typename T, typename Sum, typename Out, int Rows, int Stages>
struct StreamingSums {
  static constexpr int V = kColumns<T>, kSegment = 32 * V;
  static constexpr int kTogether = std::is_same_v<Out, General> ? 1 : Rows;  // rows of outputs in one piece of code
  using Chunk = Sum[Rows][V];  // column sums, then their prefix within the thread

  const IntegerArgs& a;
  const StreamingMemory<T, Sum, Rows, Stages>& memory;
  const BlockStrip<T, Rows>& strip;
  const ThreadColumns<T>& columns;
  const WindowEnds<V>& ends;
  const T* const in;
  const int64_t out;
  const bool mirrors, is_mirror, is_source;  // of the block's columns some repeat others; of the thread's
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  __device__ __forceinline__ void add() const {
    if (columns.source == ThreadColumns<T>::Source::outside || is_mirror)
      for (int slot = 0; slot < Stages * 2 * Rows; ++slot) memory.ring[slot * memory.threads] = Cells<T>{};
    Sum sums[V] = {};
    int stage = 0;
    for (int chunk = -Stages; chunk < strip.chunks; ++chunk) {  // those before 0 only start the first copies
      Cells<T>* const slot = memory.slot(stage);
      stage = next_slot(stage, Stages);
      async_wait<Stages - 1>();
      Chunk inclusive;
      if (chunk >= strip.start_chunks) add_rows(slot, sums, inclusive);
      else if (chunk >= 0) start(slot, sums);
      fetch(chunk + Stages, slot);
      if (chunk < strip.start_chunks) continue;

      const int number = chunk - strip.start_chunks;
      Sum* const prefix = memory.prefix + number % 2 * memory.prefix_pitch;
      Sum* const totals = memory.totals + number % 2 * Rows * memory.warps;
      if (mirrors) carry_over(inclusive, prefix);
      put_prefixes(inclusive, prefix, totals);
      __syncthreads();  // all prefix rows are written, and no thread reads the other buffer any more
      if (warp * kSegment < strip.valid) store_rows(strip.y + number * Rows, prefix, totals);
    }
    async_wait<0>();
    __syncthreads();
  }

 private:
  // Starts the copies of a chunk's rows. A lane maps one of them.
  __device__ __forceinline__ void fetch(int chunk, Cells<T>* slot) const {
    if (chunk < strip.chunks) {
      const int mapped = strip.row(a, chunk, lane % (2 * Rows));
      int rows[2 * Rows];
#pragma unroll
      for (int i = 0; i < 2 * Rows; ++i) rows[i] = __shfl_sync(0xffffffff, mapped, i);
      columns.fetch(slot, memory.threads, a, in, rows);
    }
    async_commit();
  }

  __device__ __forceinline__ void start(const Cells<T>* slot, Sum (&sums)[V]) const {
#pragma unroll
    for (int r = 0; r < 2 * Rows; ++r) {
      const Cells<T> row = load_cells(slot + r * memory.threads);
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] += to_sum<Sum>(row.v[v]);
    }
  }
  __device__ __forceinline__ void add_rows(const Cells<T>* slot, Sum (&sums)[V], Chunk& inclusive) const {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const Cells<T> entering = load_cells(slot + r * memory.threads),
                     leaving = load_cells(slot + (Rows + r) * memory.threads);
#pragma unroll
      for (int v = 0; v < V; ++v) inclusive[r][v] = sums[v] += to_sum<Sum>(entering.v[v]) - to_sum<Sum>(leaving.v[v]);
    }
  }

  // Copies column sums to the columns that repeat them. Without a buffer of their own they go through the one of the
  // prefixes, at one more barrier.
  __device__ __forceinline__ void carry_over(Chunk& inclusive, Sum* prefix) const {
    Sum* const over = a.carry ? memory.carry : prefix;
    if (is_source) {
#pragma unroll
      for (int r = 0; r < Rows; ++r)
#pragma unroll
        for (int v = 0; v < V; ++v) over[r * memory.columns + v * memory.threads + threadIdx.x] = inclusive[r][v];
    }
    __syncthreads();
    if (is_mirror) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const Sum* const column = over + columns.map[v] % V * memory.threads + columns.map[v] / V;
#pragma unroll
        for (int r = 0; r < Rows; ++r) inclusive[r][v] = column[r * memory.columns];
      }
    }
  }

  __device__ __forceinline__ void put_prefixes(Chunk& inclusive, Sum* prefix, Sum* totals) const {
    Sum before[Rows];
    scan_warp(inclusive, before);
    if (mirrors && !a.carry) __syncthreads();
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int v = 0; v < V; ++v)
        prefix[r * memory.columns + v * memory.threads + threadIdx.x] =
            v == 0 ? before[r] : before[r] + inclusive[r][v - (v > 0)];
      if (lane == 31) totals[r * memory.warps + warp] = before[r] + inclusive[r][V - 1];
    }
  }

  // Outputs of the rows from y on: differences of prefixes.
  __device__ __forceinline__ void store_rows(int y, const Sum* prefix, const Sum* totals) const {
    const int64_t step = std::is_same_v<Out, General> ? a.out_stride_w : 1;
    const int x = int(threadIdx.x) * V, stored = min(max(strip.valid - x, 0), V);  // x: within the tile
#pragma unroll 1
    for (int r0 = 0; r0 < Rows; r0 += kTogether) {
      Sum result[kTogether][V];
      add_windows(prefix + r0 * memory.columns, totals + r0 * memory.warps, result);
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
        const int row = y + r0 + r, count = row < strip.y_end ? stored : 0;
        real_t<Sum> values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
          const Sum sum = v < count ? result[r][v] : Sum(0);
          values[v] = finished<Out>(a, to_real<T>(sum), row, strip.x + x + v);
        }
        store_row<Out>(a, out + (strip.x + x) * step + row * a.out_stride_h, step, values, count);
      }
    }
  }

  __device__ __forceinline__ void add_windows(const Sum* prefix, const Sum* totals, Sum (&result)[kTogether][V]) const {
    Sum bridged[kTogether] = {};
#pragma unroll 1
    for (int w = 0; w < strip.bridge; ++w) {
#pragma unroll
      for (int r = 0; r < kTogether; ++r) bridged[r] += totals[r * memory.warps + warp + w];
    }
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const Sum* const row = prefix + r * memory.columns + threadIdx.x;
      const Sum* const total = totals + r * memory.warps;
      const Sum first = total[warp], one_more = total[min(warp + strip.bridge, memory.warps - 1)];
#pragma unroll
      for (int v = 0; v < V; ++v) {
        Sum between = bridged[r];
        if (lane * V + v + strip.rest >= kSegment) between += one_more;
        if (lane == 31 && v + strip.shift >= V) between -= first;
        result[r][v] = row[ends.to[v]] - row[ends.from[v]] + between;
      }
    }
  }
};

template <typename T, typename Sum, typename Out, int Rows = kChunkRows, int Stages = kStages>
__global__ void __launch_bounds__(kMaxThreads) box_streaming(const __grid_constant__ IntegerArgs a) {
  constexpr int V = kColumns<T>;
  extern __shared__ __align__(16) unsigned char shared[];
  const StreamingMemory<T, Sum, Rows, Stages> memory(shared);
  for (int64_t work = blockIdx.x; work < a.work; work += gridDim.x) {
    const BlockStrip<T, Rows> strip(a, work);
    const int own_x = strip.first_x + int(threadIdx.x) * V;
    const ThreadColumns<T> columns(a, own_x, strip.first_x, strip.shift + strip.valid + a.kw - 1);
    const bool is_mirror = columns.source == ThreadColumns<T>::Source::mirror, mirrors = __syncthreads_or(is_mirror);
    // A mirrored column is as far from the edge of the image as its source, give or take a vector.
    const int halo = max(a.pad_x, a.out_w - 1 - a.pad_x + a.kw - a.in_w) + V;
    const bool is_source = !is_mirror && (own_x <= halo || own_x + V >= a.in_w - halo);
    const WindowEnds<V> ends(strip.shift, strip.ahead, memory.threads);
    StreamingSums<T, Sum, Out, Rows, Stages>{
        a,       memory,    strip,    columns, ends, in_plane<T>(a, strip.plane), out_plane(a, strip.plane),
        mirrors, is_mirror, is_source}
        .add();
  }
}

}  // namespace torch_conv::box
