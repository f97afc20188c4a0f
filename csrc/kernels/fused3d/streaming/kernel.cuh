// The magnitude of the gradient of a volume blurred by k x k x k taps, in one launch: a block streams along z.
//
//                   shift  67 + k - 1                   row results        blurred planes, 66 x 34
//                  |-----|--------------------|             67             +----+
//                 +----------------------------+ -       +--------+ -     |    |  z - 1, z, z + 1: under the gradient
//     plane t + 2 |  .   box: border is patched| |       |        |       +----+
//     plane t + 1 |  .   box -> row pass       | 34  ->  |        | 34 -> |    |  z + 2: column pass of the results of
//                 |  .                         | + k - 1 |        | + k-1 |    |  plane t, then k - 1 outputs along z
//                 +----------------------------+ -       +--------+ -     +----+
//     planes t + 3, t + 4 are being copied                                    |
//                                                                             v
//                                                                 64 x 32 outputs of plane z
//
// A thread owns 4 x 2 of the tile's blurred voxels and of the outputs; 196 threads also own one voxel of the rim. The z
// chains of the blur are a shift register: sum j holds taps 0 .. j of the output whose tap j was on the last plane. A
// plane has one barrier: an iteration reads the results of the previous one. Two resident blocks hide each other's
// waits.
//
// Each stage extends its input. The elements outside the image in y or x are the same in every plane: a block lists
// them once and patches them in shared memory, two planes ahead. Outside the blurred volume:
//
//     constant, zero_output            their value overwrites blurred voxels outside
//     replicate, reflect, symmetric    a row or column that the thread has read anyway; along z another plane of the
//                                      ring
//     circular                         a blur of the periodic input, which has the same bits
//
// Per output, k = 7: one read (1.5 with halos, which come from L2), one write; k + 1 more planes a chunk of z.
// Multiply-adds: row pass 9.8, column and depth pass 15.3, gradient 9 (66 with all taps). One NVIDIA H200, float32,
// 512^3: k = 7 563 us (45 % of a copy), 5 475 (53 %), 3 432 (58 %); with all taps k = 7 974, 5 833. Schedulers issue in
// 61 % of cycles; the registers allow four warps a scheduler.
#pragma once

#include <climits>

#include "kernels/fused3d/streaming/gradient.cuh"

namespace torch_conv::fused3d {

template <typename T, typename O, int K>
__global__ void __launch_bounds__(streaming_shape(sizeof(T), K).threads(), streaming_shape(sizeof(T), K).min_blocks)
    fused3d_streaming(const __grid_constant__ StreamingParams p, const __grid_constant__ TensorMap map) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr StreamingShape S = streaming_shape(sizeof(T), K);
  constexpr int R = S.rows, P = S.ring_pitch(), Q = S.result_pitch();
  constexpr int kStage = S.stage_bytes() / int(sizeof(T)), kResult = S.result_bytes() / 4, kPlane = S.ring_bytes() / 4;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ uint64_t arrived[kStages];
  __shared__ int not_finite;             // the last blurred plane with a voxel that is not finite
  __shared__ int plane_at[kMostPlanes];  // where plane t is read
  T* const stages = reinterpret_cast<T*>(shared);
  float* const results = reinterpret_cast<float*>(shared + kStages * S.stage_bytes());
  float* const ring = results + kResults * kResult;
  float* const taps = ring + kRing * kPlane;
  unsigned* const list = reinterpret_cast<unsigned*>(taps + 3 * kTapPitch);

  const StreamingGrid::Position tile = p.grid.at(blockIdx.x);
  const int c = tile.c, n = tile.n;
  const int x0 = tile.x * S.tile_w, y0 = tile.y * S.tile_h(), z0 = tile.chunk * p.chunk,
            z1 = min(z0 + p.chunk, p.volumes.in_d);
  const SharedOrigin at{y0 - S.halo_y(), x0 - S.halo_x() - S.shift()};
  const T* volume = p.volumes.in_volume<T>(n, c);

  // The blurred planes that the block makes; `fill` is the value of `constant` and `zero_output` outside. Replicate,
  // reflect and symmetric find the planes outside among those inside.
  const bool circular = p.border == Border::circular, extends = map_index(-1, p.volumes.in_d, p.border) >= 0;
  const bool mapped = extends && !circular;
  const PlaneRange blurred{mapped ? max(z0 - 1, 0) : z0 - 1, mapped ? min(z1 + 1, p.volumes.in_d) : z1 + 1};
  const float fill = p.border == Border::constant ? p.value : 0.f;
  const int margin = p.border == Border::zero_output ? K / 2 : 0;

  // Input plane t of the block is plane first_input + t of the volume. Only those in `loaded` are read; the others of a
  // constant border have one value.
  const int first_input = blurred.begin - K / 2, inputs = blurred.count() + K - 1;
  const PlaneRange loaded{extends ? 0 : max(-first_input, 0),
                          extends ? inputs : min(inputs, p.volumes.in_d - first_input)};
  auto fetch = [&](int t, int slot) {
    if (t >= loaded.end) return;
    tma::barrier_expect(&arrived[slot], S.box_bytes());
    tma::load_box(stages + slot * kStage, &map, &arrived[slot], at.x * int(sizeof(T)) / 4, at.y, plane_at[t], c, n);
  };

  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) tma::barrier_init(&arrived[i]);
    not_finite = INT_MIN;
  }
  for (int t = threadIdx.x; t < inputs; t += S.threads())
    plane_at[t] = map_index(first_input + t, p.volumes.in_d, p.border);
  load_taps<K, S.threads()>(taps, p.windows, p.taps, n, c);
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 0; i < kStages; ++i) fetch(loaded.begin + i, i);
  int count = 0;
  if (p.patch) {
    count = list_border<S>(list, at, S.shift() + kLead - 1, min(S.tile_h(), p.volumes.in_h - y0) + 2 * S.halo_y(),
                           min(S.tile_w, p.volumes.in_w - x0) + 2 * S.halo_y(), p.volumes.in_h, p.volumes.in_w,
                           p.border, [](unsigned patch, int, int) { return patch; });
    __syncthreads();
  }
  // A thread's first two patches stay in its registers; they are read before the column pass and written behind it.
  // Only a circular border finds elements that are not in the box.
  const T value = from_acc<T>(p.value);
  const int second = threadIdx.x + S.threads();
  const bool patches = int(threadIdx.x) < count, patches_more = second < count;
  const unsigned mine = patches ? list[threadIdx.x] : 0, more = patches_more ? list[second] : 0;
  struct Read {
    T first, second;
  };
  Turn patching;
  auto read_patches = [&](int t) {
    Read read{value, value};
    if (count == 0 || !loaded.has(t)) return read;
    tma::barrier_wait(&arrived[patching.slot], patching.phase);
    const T* stage = stages + patching.slot * kStage;
    if (circular) {
      const T* plane = volume + plane_at[t] * p.volumes.in_stride_d;
      read.first = patched(stage, mine, plane, far_element(mine, p, S, at), value);
      read.second = patched(stage, more, plane, far_element(more, p, S, at), value);
    } else {
      if (extends) read.first = stage[mine & 0xffff], read.second = stage[more & 0xffff];
    }
    return read;
  };
  auto write_patches = [&](int t, const Read& read) {
    if (count == 0 || !loaded.has(t)) return;
    T* stage = stages + patching.slot * kStage;
    if (patches) stage[mine >> 16] = read.first;
    if (patches_more) stage[more >> 16] = read.second;
#pragma unroll 1
    for (int i = second + S.threads(); i < count; i += S.threads())
      stage[list[i] >> 16] =
          patched(stage, list[i], volume + plane_at[t] * p.volumes.in_stride_d, far_element(list[i], p, S, at), value);
    patching.next();
  };

  // The row pass: segments of 8, at most two a thread; neighbouring lanes take neighbouring rows.
  const T* segment_from[2];
  float* segment_to[2];
  for (int i = 0; i < 2; ++i) {
    const int item = threadIdx.x + i * S.threads(), r = item % S.box_h(), segment = item / S.box_h() * kSegment;
    segment_from[i] = stages + r * S.pitch() + S.shift() - S.skip() + segment;
    segment_to[i] = results + r * Q + segment;
  }
  static_assert(S.items() > S.threads() && S.items() <= 2 * S.threads());
  static_assert(S.result_pitch() >= S.segments() * kSegment - 4 && S.threads() < (S.segments() - 1) * S.box_h());
  const bool second_segment = threadIdx.x + S.threads() < S.items();
  const bool whole = threadIdx.x + S.threads() < (S.segments() - 1) * S.box_h();
  Turn filtering;
  auto filter_rows = [&](int t) {
    if (!loaded.has(t)) return;
    tma::barrier_wait(&arrived[filtering.slot], filtering.phase);
    const int stage = filtering.slot * kStage, result = (t & (kResults - 1)) * kResult;
    row_pass<T, K>(segment_from[0] + stage, segment_to[0] + result, true, taps);
    if (second_segment) row_pass<T, K>(segment_from[1] + stage, segment_to[1] + result, whole, taps);
    filtering.next();
  };

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = warp * R, column = 2 * lane;
  const int x = x0 + column, y = y0 + row;
  const int stored = x < p.volumes.in_w ? min(R, p.volumes.in_h - y) : 0;  // rows
  const bool pair = x + 1 < p.volumes.in_w;
  float* const own = ring + (row + 1) * P + column + kLead;                   // the columns in a blurred plane, and ...
  const float* const own_results = results + (row + 1) * Q + column + kLead;  // the row results that make them

  // The voxel of the rim, if any: rows above and below, then the columns left and right. Warps without rows to filter
  // have them.
  const int rim_thread = threadIdx.x - (S.threads() - S.rim());
  const bool rims = rim_thread >= 0, warp_rims = rim_thread + 31 - lane >= 0;
  constexpr int kAcross = S.tile_w + 2;
  const int rim_index = max(rim_thread, 0), on_columns = rim_index - 2 * kAcross;
  const int rim_row = on_columns < 0 ? rim_index / kAcross * (S.plane_h() - 1) : 1 + on_columns % S.tile_h();
  const int rim_column = kLead - 1 + (on_columns < 0 ? rim_index % kAcross : on_columns / S.tile_h() * (kAcross - 1));
  float* const rim = ring + rim_row * P + rim_column;
  const float* const rim_results = results + rim_row * Q + rim_column;

  float sum[K - 1][2 * R] = {}, rim_sum[K - 1][1] = {};
  const float outside = column_of<K>(taps, p.value);  // a blurred-in-the-plane voxel of a plane outside
  // The thread's blurred voxels that are `fill`: a bit for each row, and one for the rim.
  auto inside = [&](int i, int size) { return i >= margin && i < size - margin; };
  constexpr int kAll = (2 << 2 * R) - 1;
  int filled = 0;
  if (!extends) {
    for (int o = 0; o < 2 * R; ++o)
      filled |= int(!inside(x + o % 2, p.volumes.in_w) || !inside(y + o / 2, p.volumes.in_h)) << o;
    filled |= int(!inside(x0 + rim_column - kLead, p.volumes.in_w) || !inside(y0 + rim_row - 1, p.volumes.in_h))
              << 2 * R;
  }
  const int first_whole = margin - blurred.begin,
            last_whole = p.volumes.in_d - margin - blurred.begin;  // planes that are not `fill` altogether

  // Plane t of the input: the column pass, its place in the k - 1 chains along z, and the blurred plane that ends
  // there.
  auto blur = [&](int t) {
    float plane_sums[2 * R], rim_plane_sum[1] = {}, tap[K];
    const int result = (t & (kResults - 1)) * kResult;
    read_taps<K>(tap, taps, 1);
    const float* v = own_results + result;
#pragma unroll
    for (int r = 0; r < R + K - 1; ++r) {
      const float2 two = *reinterpret_cast<const float2*>(v + r * Q);
#pragma unroll
      for (int o = 0; o < R; ++o)
        if (r >= o && r - o < K) {
          plane_sums[2 * o] = fmaf(tap[r - o], two.x, r == o ? 0.f : plane_sums[2 * o]);
          plane_sums[2 * o + 1] = fmaf(tap[r - o], two.y, r == o ? 0.f : plane_sums[2 * o + 1]);
        }
    }
    if (warp_rims) {
      column_pass(tap, rim_results + result, Q, rim_plane_sum);
    }
    if (!loaded.has(t)) {  // the values read are another plane's
#pragma unroll
      for (int o = 0; o < 2 * R; ++o) plane_sums[o] = outside;
      rim_plane_sum[0] = outside;
    }
    read_taps<K>(tap, taps, 2);
    float ended[2 * R], ended_rim[1] = {};
    depth_pass(tap, plane_sums, sum, ended);
    if (warp_rims) depth_pass(tap, rim_plane_sum, rim_sum, ended_rim);
    const int q = t - (K - 1);
    if (q < 0) return;
    const int slot = (q & (kRing - 1)) * kPlane;
    float zero = 0;
#pragma unroll
    for (int o = 0; o < R; ++o) {
      *reinterpret_cast<float2*>(own + slot + o * P) = {ended[2 * o], ended[2 * o + 1]};
      zero = fmaf(0.f, ended[2 * o + 1], fmaf(0.f, ended[2 * o], zero));
    }
    if (rims) {
      rim[slot] = ended_rim[0];
      zero = fmaf(0.f, ended_rim[0], zero);
    }
    if (zero != 0) atomicMax(&not_finite, q);
    const int now = !extends && (q < first_whole || q >= last_whole) ? kAll : filled;
    if (now) {
#pragma unroll
      for (int o = 0; o < 2 * R; ++o)
        if (now >> o & 1) own[slot + o / 2 * P + o % 2] = fill;
      if (rims && now >> 2 * R & 1) rim[slot] = fill;
    }
  };

  // Rows, columns and planes just outside the blurred volume are read elsewhere, unless they are there.
  NeighbourOffsets<R> around{};
  around.left = mapped && x == 0 ? map_index(-1, p.volumes.in_w, p.border) : -1;
  around.right = mapped && x + 2 == p.volumes.in_w ? map_index(p.volumes.in_w, p.volumes.in_w, p.border) - x : 2;
  around.top = y == 0;
  around.bottom = p.volumes.in_h - y;
  around.repeats_rows = mapped && (around.top || around.bottom <= R);
  around.reflects_top = map_index(-1, p.volumes.in_h, p.border) > 0;
  around.reflects_bottom = map_index(p.volumes.in_h, p.volumes.in_h, p.border) < p.volumes.in_h - 1;
  around.odd = sizeof(T) == 4 && p.volumes.in_w % 2 == 1;
  around.repeats_second =
      sizeof(T) == 4 && mapped && x + 1 == p.volumes.in_w;  // rows of narrower voxels are whole words
  around.reflects_right = map_index(p.volumes.in_w, p.volumes.in_w, p.border) < p.volumes.in_w - 1;
  const int before_first = map_index(-1, p.volumes.in_d, p.border);
  const int steps_back = p.volumes.in_d - 1 - map_index(p.volumes.in_d, p.volumes.in_d, p.border);
  O* out = p.volumes.out_volume<O>(n, c) + z0 * p.volumes.out_stride_d + y * p.volumes.out_stride_h + x;

  // Computes the gradient of blurred plane q.
  auto gradient = [&](int q) {
    const int before = q == 0 ? before_first : (q - 1) & (kRing - 1);
    const int behind = (q + 1 < blurred.count() ? q + 1 : q - steps_back) & (kRing - 1);
    around.planes[0] = own + before * kPlane;
    around.planes[1] = own + (q & (kRing - 1)) * kPlane;
    around.planes[2] = own + behind * kPlane;
    float magnitude[2 * R];
    if (p.difference && *static_cast<volatile int*>(&not_finite) < q - 1) difference<P>(around, p.gradient, magnitude);
    else all_taps<P>(around, p.gradient, magnitude);
    if (p.border == Border::zero_output) {
      const int z = blurred.begin + q;
      auto fits = [](int i, int size) { return i >= 1 && i + 1 < size; };
#pragma unroll
      for (int o = 0; o < 2 * R; ++o)
        if (!fits(z, p.volumes.in_d) || !fits(y + o / 2, p.volumes.in_h) || !fits(x + o % 2, p.volumes.in_w))
          magnitude[o] = 0;
    }
    if (p.number != 0)
#pragma unroll
      for (int o = 0; o < 2 * R; ++o) magnitude[o] += p.number;
    square_roots(magnitude);
    O* at_row = out;
    if (p.pairs) {
#pragma unroll
      for (int o = 0; o < R; ++o, at_row += p.volumes.out_stride_h)
        store_two_if(o < stored, at_row, from_acc<O>(magnitude[2 * o]), from_acc<O>(magnitude[2 * o + 1]));
    } else {
#pragma unroll
      for (int o = 0; o < R; ++o, at_row += p.volumes.out_stride_h) {
        store_if(o < stored, at_row, from_acc<O>(magnitude[2 * o]));
        store_if(o < stored && pair, at_row + 1, from_acc<O>(magnitude[2 * o + 1]));
      }
    }
    out += p.volumes.out_stride_d;
  };

  for (int t = 0; t < 2; ++t) write_patches(t, read_patches(t));
  __syncthreads();
  filter_rows(0);

  // An iteration reads the results of the previous one.
  const int begin_gradient = z0 - blurred.begin + K + 1, iterations = z1 - blurred.begin + K + 1;
  Turn emptied;
#pragma unroll 1
  for (int t = 0; t < iterations; ++t) {
    __syncthreads();
    if (loaded.has(t)) {  // its rows are filtered
      if (threadIdx.x == S.threads() - 32) {
        if (count > 0) tma::fence_before_copy();  // everybody's patches of that stage
        fetch(t + kStages, emptied.slot);
      }
      emptied.next();
    }
    const Read read = read_patches(t + 2);
    filter_rows(t + 1);
    if (t >= begin_gradient) gradient(t - K - 1);
    if (t < inputs) blur(t);
    write_patches(t + 2, read);
  }
#endif
}

}  // namespace torch_conv::fused3d
