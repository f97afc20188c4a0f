// PLANES_MMA: small planes of 16-bit images on tensor cores; bulk copies move whole planes.
//
// clang-format off
//      a unit: S output rows x 8 columns                    D (16 x 8)    =     A (16 x 16)      *     B (16 x 8)
//
//      lead   8 columns                                    2 rows x 8        taps of window row i    16 pixels of
//     +----+--------+----+  an input row of the unit:      columns of        of the upper, i - 1     one input row,
//     |    |        |    |  16 pixels, of which            8 units           of the lower row,       of 8 units
//     |    | output |    |  kw neighbours make an                            shifted per column
//     |    |        |    |  output
//     +----+--------+----+  zeros: pixels outside the plane are cleared as they are read
// clang-format on
//
// A warp keeps the taps of one channel in registers, 4 (kh + 1) words. The warp computes 8 units at once, from their
// first row to their last: tiles of a row, strips of a plane, planes of several images. A lane reads an input row once.
// (kh + 1) / 2 mma a row of 8 units multiply it with the taps of every second output row. With 7 rows of taps, 4 mma
// make 64 outputs, and 56 of the 128 taps of a matrix are not padding.
//
// A step is the planes of shape.group channels of `images` images. One bulk copy an image loads them, one stores them.
// A block takes steps in order, first all images of the same channels, while copies of the next steps run. The grid has
// only as many blocks as fit at once. Device memory: 1 read, 1 write. 2 kh kw flops.
//
// A product of 0 and a pixel that is not finite is NaN: such a pixel changes all outputs of its units' rows. A chain of
// multiply-adds, as in all other variants, therefore computes outputs that are not finite again.
#pragma once

#include "core/cuda/tma.cuh"
#include "kernels/depthwise/planes_mma/params.h"
#include "kernels/depthwise/shared/mma.cuh"

namespace torch_conv::depthwise {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace planes_mma {

struct Unit {
  int image, y, x;  // of its first output
  int others;       // rows at its beginning that belong to the strip above
};

template <int S>
__device__ __forceinline__ Unit unit_at(const PlanesMmaArgs& a, int unit) {
  const int strip = unit * a.over_tiles >> 16, image = strip * a.over_strips >> 16;
  // The last strip overlaps the one above it where rows do not divide.
  const int begin = (strip - image * a.strips) * S, y = min(begin, a.h_out - S);
  return {image, y, (unit - strip * a.tiles) * 8, begin - y};
}

// Computes the outputs of 8 units that are not finite, or all outputs, as chains. `in` and `out` are the addresses of a
// channel's first planes.
template <typename T, int KH, int S, Activation kind>
__device__ __noinline__ void recompute(const PlanesMmaArgs& a, unsigned in, unsigned out, const T* window, float bias,
                                       int first_unit, int images, bool all) {
  __syncwarp();  // makes the outputs of other lanes visible
  auto read = [](unsigned at) {
    T value;
    const uint16_t bits = read_half(at);
    memcpy(&value, &bits, sizeof(value));
    return to_acc<float>(value);
  };
#pragma unroll 1
  for (int e = threadIdx.x % 32; e < 64 * S; e += 32) {
    const int index = first_unit + e / (8 * S), row = e / 8 % S, column = e % 8;
    if (index >= a.units) break;
    const Unit unit = unit_at<S>(a, index);
    const int y = unit.y + row, x = unit.x + column;
    if (unit.image >= images || x >= a.w_out || row < unit.others) continue;
    const unsigned to = out + unit.image * a.image_bytes_out + (y * a.w_out + x) * int(sizeof(T));
    const float before = read(to);
    if (before - before == 0 && !all) continue;
    const unsigned plane = in + unit.image * a.image_bytes;
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < KH; ++i)
#pragma unroll 1
      for (int j = 0; j < a.kw; ++j) {
        const int yy = y - a.pad_y + i, xx = x - a.pad_x + j;
        const bool inside = unsigned(yy) < unsigned(a.h) && unsigned(xx) < unsigned(a.w);
        const float pixel = inside ? read(plane + (yy * a.w + xx) * int(sizeof(T))) : 0.f;
        sum = fmaf(to_acc<float>(window[i * a.kw + j]), pixel, sum);
      }
    const T result = from_acc<T>(activated<kind>(sum + bias));
    write_half(to, result.bits);
  }
}

// Pixels of an input row as an operand of mma.
template <int kLoad>
__device__ __forceinline__ void load_row(unsigned row, unsigned (&b)[2]) {
  if constexpr (kLoad == 4) {
    const uint2 two = read_two(row);
    b[0] = two.x, b[1] = two.y;
  } else if constexpr (kLoad == 2) {
    b[0] = read_word(row), b[1] = read_word(row + 16);
  } else {
    b[0] = read_half(row) | read_half(row + 2) << 16, b[1] = read_half(row + 16) | read_half(row + 18) << 16;
  }
}

// The copies of a block's steps. All threads count the steps, and one thread of the last warp issues the copies.
template <typename T, PlanesMmaPolicy shape>
struct Copies {
  const PlanesMmaArgs& a;
  unsigned char* const stages;
  uint64_t* const full;  // a barrier for each stage
  const int end;
  int step, group, chunk;  // to load

  int stage_bytes() const { return a.images * a.image_bytes; }
  int channels(int of_group) const { return min(shape.group, a.c - of_group * shape.group); }
  // Bytes from an image's first plane to the first plane of a group.
  int64_t group_offset(int of_group, int plane) const { return int64_t(of_group) * (shape.group * plane); }
  static bool loads() { return threadIdx.x == 32 * (shape.group * shape.warps - 1); }

  __device__ __forceinline__ void load(int stage) {
    if (step >= end) return;
    if (loads()) {
      const int first = chunk * a.images, count = min(a.images, a.n - first), plane_bytes = a.h * a.w * int(sizeof(T));
      const int bytes = channels(group) * plane_bytes;
      const int64_t image = a.stride_n_in * int64_t(sizeof(T));
      const unsigned char* from =
          static_cast<const unsigned char*>(a.in) + group_offset(group, plane_bytes) + first * image;
      unsigned char* to = stages + stage * stage_bytes();
      tma::barrier_expect(&full[stage], count * bytes);
#pragma unroll 1
      for (int i = 0; i < count; ++i, from += image, to += a.image_bytes) tma::bulk_load(to, from, bytes, &full[stage]);
    }
    ++step;
    if (++chunk == a.chunks) chunk = 0, ++group;
  }

  // Loads the first stages.
  __device__ __forceinline__ void start() {
#pragma unroll 1
    for (int s = 0; s < a.stages; ++s) {
      if (loads()) tma::barrier_init(&full[s]);
      __syncwarp();  // or racecheck reports barrier_init and load, of the same lane, as a race
      load(s);
    }
  }

  // Stores the planes of `count` images from shared memory. Called by one thread.
  __device__ __forceinline__ void store(const unsigned char* from, int of_group, int of_chunk, int count) const {
    const int plane_bytes = a.h_out * a.w_out * int(sizeof(T)), bytes = channels(of_group) * plane_bytes;
    const int64_t image = a.stride_n_out * int64_t(sizeof(T));
    unsigned char* to =
        static_cast<unsigned char*>(a.out) + group_offset(of_group, plane_bytes) + of_chunk * a.images * image;
#pragma unroll 1
    for (int i = 0; i < count; ++i, to += image, from += a.image_bytes_out) tma::bulk_store(to, from, bytes);
    tma::store_commit();
  }
};

// A warp has one channel of a group, or shares it with other warps. It reads unit `quad` of a pass and writes units 2 q
// and 2 q + 1.
template <typename T, PlanesMmaPolicy shape, Activation kind>
struct WarpPlanes {
  static constexpr int KH = shape.kh, S = shape.rows, kLoad = shape.load, kBegin = shape.begin(), kEnd = shape.end();
  static constexpr int kShare = shape.warps, kRowsEach = (KH + kShare - 1) / kShare;
  static constexpr int kAhead = 2;  // rows: the compiler does not move loads across the stores of outputs
  static_assert(S <= 32);           // 16 bits of `writes` for either unit

  const PlanesMmaArgs& a;
  const int lane, quad, q;
  const int slot, first_pass;  // the channel of the group; the warp of the channel
  const int plane_bytes, plane_bytes_out;

  // The lane's addresses in a pass, in bytes from the begin of a step.
  int at_in, row_in, at_out[2], unit_image[2];
  unsigned keep[2];  // masks of columns inside the plane
  bool both[2];      // both columns of an output word are inside
  unsigned writes;   // a bit for each row that no other warp writes, 16 for either unit

  unsigned tap[KH + 1][4];
  float bias;
  bool recompute_all;  // a tap is not finite

  __device__ __forceinline__ WarpPlanes(const PlanesMmaArgs& args, int warp)
      : a(args),
        lane(threadIdx.x % 32),
        quad(lane / 4),
        q(lane % 4),
        slot(shape.group == 1 ? 0 : warp / kShare),
        first_pass(kShare == 1        ? 0
                   : shape.group == 1 ? warp
                                      : warp % kShare),
        plane_bytes(a.h * a.w * int(sizeof(T))),
        plane_bytes_out(a.h_out * a.w_out * int(sizeof(T))) {}

  __device__ __forceinline__ void set_position(int pass) {
    writes = 0;
    const Unit in = unit_at<S>(a, min(8 * pass + quad, a.units - 1));
    const int x = in.x - a.lead + (kLoad == 4 ? 4 : 2) * q;
    row_in = in.y - a.pad_y;
    at_in = in.image * a.image_bytes + slot * plane_bytes + ((row_in + kBegin) * a.w + x) * int(sizeof(T));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int first = x + half * (kLoad == 4 ? 2 : 8);
      keep[half] =
          (unsigned(first) < unsigned(a.w) ? 0xffffu : 0) | (unsigned(first + 1) < unsigned(a.w) ? 0xffff0000u : 0);
      const int index = 8 * pass + 2 * q + half;
      const Unit out = unit_at<S>(a, min(index, a.units - 1));
      const int to = out.x + quad % 4 * 2;
      unit_image[half] = index < a.units && to < a.w_out ? out.image : a.images;
      both[half] = to + 1 < a.w_out;
      const int first_row = (out.others + 1 - quad / 4) / 2;  // a lane has the even rows or the odd ones
      writes |= (0xffff & ~0u << first_row) << (16 * half);
      at_out[half] =
          out.image * a.image_bytes_out + slot * plane_bytes_out + ((out.y + quad / 4) * a.w_out + to) * int(sizeof(T));
    }
  }

  // Loads the bias, and the words of taps that this lane puts into the table. Word e of copy s of a table row
  // holds two taps, from 2 (e - 3) - s - (lead - pad) on. Lane 16 s + e loads it. The warps of a channel take turns.
  __device__ __forceinline__ void load_weights(int group, unsigned (&rows)[kRowsEach]) {
    const int channel = min(group * shape.group + slot, a.c - 1);
    const int j = 2 * (lane % 16 - 3) - lane / 16 - a.lead + a.pad_x;
    const uint16_t* from = static_cast<const uint16_t*>(a.weight) + (int64_t(channel) * KH + first_pass) * a.kw + j;
    const bool low = unsigned(j) < unsigned(a.kw), high = unsigned(j + 1) < unsigned(a.kw);
#pragma unroll
    for (int k = 0; k < kRowsEach; ++k) {
      const bool exists = KH % kShare == 0 || first_pass + k * kShare < KH;
      const uint16_t two[2] = {exists && low ? from[0] : uint16_t(0), exists && high ? from[1] : uint16_t(0)};
      rows[k] = two[0] | unsigned(two[1]) << 16;
      from += kShare * a.kw;
    }
    bias = a.bias ? to_acc<float>(static_cast<const T*>(a.bias)[channel]) : 0.f;
  }

  // Distributes the channel's taps by its table in shared memory, whose first and last row are zeros. Waits for all
  // threads of the block.
  __device__ __forceinline__ void share_taps(unsigned* table, const unsigned (&rows)[kRowsEach]) {
    if (first_pass == 0) table[lane] = table[(KH + 1) * 32 + lane] = 0;
#pragma unroll
    for (int k = 0; k < kRowsEach; ++k) {
      const int i = first_pass + k * kShare;
      if (KH % kShare == 0 || i < KH) table[(i + 1) * 32 + lane] = rows[k];
    }
    __syncthreads();  // for the table, and for the copies' barriers
    unsigned odd_taps = 0;
    const unsigned* from = table + (1 - quad / 4) * 32 + 3 - quad % 4 + (kLoad == 4 ? 2 * q : q);
#pragma unroll
    for (int i = 0; i <= KH; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        tap[i][2 * half] = from[i * 32 + half * (kLoad == 4 ? 1 : 4)];
        tap[i][2 * half + 1] = from[i * 32 + 16 + half * (kLoad == 4 ? 1 : 4)];
      }
    // A tap that is not finite makes NaN of the padding above and below a plane. `whole` planes leave these rows out.
    if constexpr (shape.inside == MmaRows::whole) {
#pragma unroll
      for (int i = 0; i <= KH; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) odd_taps = add_zero_times<T>(tap[i][e], odd_taps);
    }
    recompute_all = __any_sync(~0u, odd_taps & 0x7fff7fff);
  }

  // Reads row i of the footprint, which begins at `first_row` of the plane.
  __device__ __forceinline__ void read_row(int i, int first_row, unsigned row, unsigned (&b)[2]) const {
    constexpr int kPad = shape.pad();
    b[0] = b[1] = 0;
    const bool inside =
        (shape.inside != MmaRows::any && i >= kPad && i < S + kPad) || unsigned(first_row + i) < unsigned(a.h);
    if (inside) load_row<kLoad>(row, b);
  }

  // Rounds and stores rows 2 p and 2 p + 1 of the units.
  __device__ __forceinline__ void store_rows(int p, const float (&sum)[4], int count, unsigned (&out)[2],
                                             unsigned (&check)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned word = output_pair<T, kind>(sum[half] + bias, sum[half + 2] + bias);
      check[half] = add_zero_times<T>(word, check[half]);
      const bool stored = unit_image[half] < count && (2 * p + 1 < S || quad < 4) &&
                          (!shape.overlap || (writes >> (16 * half + p)) & 1);
      if constexpr (shape.pairs) {
        if (stored) write_word(out[half], word);
      } else {
        if (stored) write_half(out[half], word);
        if (stored && both[half]) write_half(out[half] + 2, word >> 16);
      }
      out[half] += 2 * a.w_out * int(sizeof(T));
    }
  }

  // Computes 8 units of `count` images. Returns whether they must be computed again.
  __device__ __forceinline__ bool compute(unsigned from, unsigned to, int count) const {
    unsigned row = from + at_in;
    unsigned out[2] = {to + at_out[0], to + at_out[1]};
    // The compiler would keep the results of all comparisons in registers over all passes: the asm makes it compare
    // anew.
    int first_row = row_in;
    asm volatile("" : "+r"(first_row));
    float sum[(S + 1) / 2][4];
    unsigned check[2] = {}, ahead[kAhead][2];
#pragma unroll
    for (int i = kBegin; i < kBegin + kAhead && i < kEnd; ++i, row += a.w * int(sizeof(T)))
      read_row(i, first_row, row, ahead[i % kAhead]);
#pragma unroll
    for (int i = kBegin; i < kEnd; ++i) {
      const unsigned b[2] = {ahead[i % kAhead][0] & keep[0], ahead[i % kAhead][1] & keep[1]};
      if (i + kAhead < kEnd) read_row(i + kAhead, first_row, row, ahead[i % kAhead]), row += a.w * int(sizeof(T));
#pragma unroll
      for (int p = 0; p < (S + 1) / 2; ++p) {
        const int j = i - 2 * p;
        if (i == (2 * p > kBegin ? 2 * p : kBegin)) mma_into<T>(sum[p], tap[j], b[0], b[1], 0.f, 0.f, 0.f, 0.f);
        else if (j >= 0 && j <= KH) mma_into<T>(sum[p], tap[j], b[0], b[1], sum[p][0], sum[p][1], sum[p][2], sum[p][3]);
        if (i == (2 * p + KH < kEnd - 1 ? 2 * p + KH : kEnd - 1)) store_rows(p, sum[p], count, out, check);
      }
    }
    // 0 in both halves, of either sign, unless there was a NaN.
    const bool bad =
        ((check[0] & 0x7fff7fff) && unit_image[0] < count) || ((check[1] & 0x7fff7fff) && unit_image[1] < count);
    return __any_sync(~0u, bad) || recompute_all;
  }

  // Computes the planes of a step, of channel `channel`. `from` and `to` are addresses in shared memory.
  __device__ __forceinline__ void step(unsigned from, unsigned to, int channel, int count) {
    const bool idle = channel >= a.c;  // the last channels may be fewer
    for (int pass = idle ? a.passes : first_pass; pass < a.passes; pass += kShare) {
      if constexpr (shape.many_passes) set_position(pass);
      if (!compute(from, to, count)) continue;
      const T* window = static_cast<const T*>(a.weight) + int64_t(channel) * KH * a.kw;
      recompute<T, KH, S, kind>(a, from + slot * plane_bytes, to + slot * plane_bytes_out, window, bias, 8 * pass,
                                count, recompute_all);
    }
  }
};

}  // namespace planes_mma

#endif

template <typename T, PlanesMmaPolicy shape, Activation kind>
__global__ void __launch_bounds__(32 * shape.group * shape.warps, shape.resident)
    depthwise_planes_mma(const __grid_constant__ PlanesMmaArgs a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace planes_mma;
  extern __shared__ __align__(128) unsigned char mma_stages[];
  __shared__ uint64_t full[kMmaMostStages];
  unsigned char* const stages = mma_stages + kMmaGuard;
  const int stage_bytes_out = a.images * a.image_bytes_out;
  unsigned char* const staged = stages + a.stages * (a.images * a.image_bytes);  // two steps' outputs

  int step = blockIdx.x * a.each + min(int(blockIdx.x), a.more);
  const int end = step + a.each + (int(blockIdx.x) < a.more);
  // The shuffles let the compiler see that the numbers are the same in all lanes.
  int group = __shfl_sync(~0u, step / a.chunks, 0), chunk = step - group * a.chunks;
  Copies<T, shape> copies{a, stages, full, end, step, group, chunk};
  WarpPlanes<T, shape, kind> warp(a, __shfl_sync(~0u, threadIdx.x / 32, 0));
  unsigned* const table =
      reinterpret_cast<unsigned*>(staged + 2 * stage_bytes_out) + warp.slot * (mma_table_bytes(shape.kh) / 4);

  int stage = 0, phase = 0, buffer = 0;
  bool first = true;
  while (step < end) {
    // The loads of taps begin before the loads of the first planes, which would delay the taps.
    unsigned rows[warp.kRowsEach];
    warp.load_weights(group, rows);
    if (first) {
      copies.start();
      warp.set_position(warp.first_pass);
      first = false;
    }
    warp.share_taps(table, rows);

    const int this_group = group;
    for (; step < end && group == this_group; ++step) {
      const int count = min(a.images, a.n - chunk * a.images);
      unsigned char* const outputs = staged + buffer * stage_bytes_out;
      tma::barrier_wait(&full[stage], phase);
      warp.step(shared_address(stages) + stage * copies.stage_bytes(), shared_address(outputs),
                group * shape.group + warp.slot, count);

      // All outputs are staged, and the stage is free for another step. The copy that reads the other buffer of outputs
      // has ended: the next step writes there.
      tma::fence_before_copy();
      if (threadIdx.x == 0) tma::store_wait_read();
      __syncthreads();
      if (threadIdx.x == 0) copies.store(outputs, group, chunk, count);
      copies.load(stage);
      buffer ^= 1;
      if (++stage == a.stages) stage = 0, phase ^= 1;
      if (++chunk == a.chunks) chunk = 0, ++group;
    }
  }
  if (threadIdx.x == 0) tma::store_wait_read();
#endif
}

}  // namespace torch_conv::depthwise
