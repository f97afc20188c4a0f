// All three passes of a k x k x k separable filter (k odd) in one launch: a block streams along z.
//
//                  shift  tile_w outputs + k - 1              row results of a plane
//                 |-----|------------------------|             tile_w
//                +--------------------------------+ -         +--------+ -        a thread owns one column of `rows`
//     plane t + 3|  .   box: its border is patched|  |        |        |          outputs: column pass from the results
//     plane t + 1|  .   box -> row pass           | tile_h -> |        | tile_h   of plane t, then the plane's value
//                |  .                             | + k - 1   |        | + k - 1  joins k - 1 outputs along z
//                +--------------------------------+ -         +--------+ -
//     planes t + 4, t + 5 are being copied
//
// A plane's box comes by one bulk copy, with zeros outside the image. Without kBulk, for unaligned rows, all threads
// copy single elements; elements outside the image are zero from the start.
//
// The z chains are a shift register: sum j holds taps 0 .. j of the output whose tap j was on the last plane. A new
// plane makes sum j = tap[j] * value + sum j - 1, from the last down; the sum that takes tap k - 1 is an output. Planes
// outside a constant border have one value, known without filtering.
//
// A warp that has finished plane t arrives at the barrier `done` and filters its rows of plane t + 2. Then it waits
// until all warps have arrived. So a plane has one barrier, and a row pass overlaps the wait. The elements outside an
// image in y or x are the same in every plane. A block lists them once and patches them in shared memory, three planes
// ahead.
//
// kPeers: the volume is a shard of one that is cut along z. Planes beyond its ends are read from the neighbour shards
// (core/shard_planes.h).
//
// Per output: one read, one write, 2 * k * (2 + rows of the box / tile_h) flops. Halos in y and x come from L2; a chunk
// of z reads k - 1 more planes.
#pragma once

#include "kernels/separable3d/streaming/common.cuh"

namespace torch_conv::separable3d {

// Rows of the box into rows of results; a warp takes item_rows() of them at a time.
template <typename T, int K, bool kFixed, bool kBulk>
__device__ __forceinline__ void row_pass(const T* box, float* results, const float* taps, int turn,
                                         const StreamingParams& p) {
  constexpr StreamingTile S = streaming_tile(sizeof(T), K, kBulk);
  constexpr int N = sizeof(T) == 4 ? 4 : 8, kFirst = S.shift() / N * N, kSkip = S.shift() % N;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // float32: the eight lanes that share a pass over the banks read 4 rows and segments s, s + 2; else few rows.
  constexpr bool kNarrow = S.tile_w == 32;
  const int high = lane / 16, row = sizeof(T) == 4 ? lane % 4 + (kNarrow ? high * 4 : 0) : lane / (kNarrow ? 4 : 8);
  const int segment =
      sizeof(T) == 4 ? lane / 4 % 2 * 2 + lane / 8 % 2 + (kNarrow ? 0 : high * 4) : lane % (kNarrow ? 4 : 8);
  // Rows do not divide evenly among warps: the warps with one item more change from plane to plane.
  constexpr int kAcross = S.tile_w == 32 ? 1 : S.tile_w / (8 * kSegment);
  for (int item = (warp + turn) % S.warps; item < S.result_rows() / S.item_rows() * kAcross; item += S.warps) {
    const int r = item / kAcross * S.item_rows() + row, first = (item % kAcross * 8 + segment) * kSegment;
    const T* from = box + min(r, S.box_h() - 1) * S.pitch() + kFirst + first;
    float tap[K], sum[kSegment];
    read_taps<K, kFixed>(tap, taps, p, 0);
    torch_conv::row_pass<N, kSkip>(from, tap, sum);
    float* to = results + r * S.result_pitch() + first;
#pragma unroll
    for (int e = 0; e < kSegment; e += 4)
      *reinterpret_cast<float4*>(to + e) = {sum[e], sum[e + 1], sum[e + 2], sum[e + 3]};
  }
}

// The input planes of a block: a ring of boxes in shared memory, patched outside the image.
template <typename T, int K, bool kBulk, class Map>
struct InputPlanes {
  static constexpr StreamingTile S = streaming_tile(sizeof(T), K, kBulk);
  // A thread's first two patches stay in its registers; they are read before the column pass and written behind it.
  struct Patches {
    T first, second;
  };
  const StreamingParams& p;
  const Map& map;
  unsigned char* const shared;
  Patch* const list;
  uint64_t* const arrived;
  int* const plane_at;  // where plane t is read
  const int n, c;
  const SharedOrigin at;
  const T* const volume;
  int begin, end;           // planes under the windows of the block's outputs
  int first, last, planes;  // those that are read: only a constant border leaves some out
  const T value;
  int count = 0;  // patches of a box
  bool has_first = false, has_second = false;
  Patch first_patch{}, second_patch{};

  __device__ InputPlanes(const StreamingParams& p, const Map& map, const StreamingGrid::Position& tile, SharedOrigin at,
                         unsigned char* shared, Patch* list, uint64_t* arrived, int* plane_at)
      : p(p),
        map(map),
        shared(shared),
        list(list),
        arrived(arrived),
        plane_at(plane_at),
        n(tile.n),
        c(tile.c),
        at(at),
        volume(p.volumes.in_volume<T>(tile.n, tile.c)),
        value(from_acc<T>(p.value)) {
    const int z0 = tile.chunk * p.chunk;
    begin = z0 - p.pad_z, end = begin + min(p.chunk, p.volumes.out_d - z0) + K - 1;
    const bool extends = map_index(-1, p.volumes.in_d, p.border) >= 0;
    first = extends ? begin : max(begin, first_plane(map));
    last = extends ? end : min(end, end_of_planes(map, p.volumes.in_d)), planes = last - first;
  }
  __device__ __forceinline__ T* stage(int t) const {
    return reinterpret_cast<T*>(shared + t % kStages * S.stage_bytes());
  }
  __device__ __forceinline__ const T* in_memory(int t) const {
    return plane_in_memory(map, volume, p.volumes.in_stride_d, plane_at[t], p.volumes.in_d, n, c);
  }
  __device__ __forceinline__ void wait(int t) const { tma::barrier_wait(arrived + t % kStages, t / kStages % 2); }
  __device__ __forceinline__ void fetch(int t) const {
    if (t >= planes) return;
    if constexpr (kBulk) {
      tma::barrier_expect(arrived + t % kStages, S.box_bytes());
      const PlaneOfShard from = plane_of_shard(map, plane_at[t], p.volumes.in_d);
      const TensorMap* const shard_map = map_of_shard(map, from.shard);
      tma::load_box(stage(t), shard_map, arrived + t % kStages, at.x * int(sizeof(T)) / 4, at.y, from.z, c, n);
    } else {
      copy_box<S>(stage(t), in_memory(t), at, p.volumes);
      tma::barrier_arrive_copied(arrived + t % kStages);
    }
  }
  // Lists the elements of the box outside the image, of the h x w that outputs need from column `left` on.
  __device__ __forceinline__ void list_patches(int left, int h, int w) {
    if (p.patch) {
      count = list_border<S>(list, at, left, h, w, p.volumes.in_h, p.volumes.in_w, p.border,
                             [&](unsigned what, int y, int x) {
                               return Patch{what, int(y * p.volumes.in_stride_h) + x};
                             });
      __syncthreads();
    }
    const int second = threadIdx.x + S.threads();
    has_first = int(threadIdx.x) < count, has_second = second < count;
    first_patch = has_first ? list[threadIdx.x] : Patch{};
    second_patch = has_second ? list[second] : Patch{};
  }
  __device__ __forceinline__ Patches read_patches(int t) const {
    Patches read{value, value};
    if (count == 0 || t >= planes) return read;
    wait(t);
    const T* plane = in_memory(t);
    if (has_first) read.first = patched(stage(t), first_patch, plane, value);
    if (has_second) read.second = patched(stage(t), second_patch, plane, value);
    return read;
  }
  __device__ __forceinline__ void write_patches(int t, const Patches& read) const {
    if (count == 0 || t >= planes) return;
    if (has_first) stage(t)[first_patch.what >> 16] = read.first;
    if (has_second) stage(t)[second_patch.what >> 16] = read.second;
#pragma unroll 1
    for (int i = threadIdx.x + 2 * S.threads(); i < count; i += S.threads())
      stage(t)[list[i].what >> 16] = patched(stage(t), list[i], in_memory(t), value);
  }
};

template <typename T, int K, bool kFixed, bool kBulk, bool kPeers = false>
__global__ void __launch_bounds__(streaming_tile(sizeof(T), K, kBulk).threads(),
                                  streaming_tile(sizeof(T), K, kBulk).min_blocks)
    separable3d_streaming(const __grid_constant__ StreamingParams p,
                          const __grid_constant__ std::conditional_t<kPeers, ShardMaps, TensorMap> map) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  static_assert(kBulk || sizeof(T) == 4);  // the least that an asynchronous copy brings
  using Map = std::conditional_t<kPeers, ShardMaps, TensorMap>;
  constexpr StreamingTile S = streaming_tile(sizeof(T), K, kBulk);
  constexpr int R = S.rows;
  extern __shared__ __align__(128) unsigned char shared[];
  float* const results = reinterpret_cast<float*>(shared + kStages * S.stage_bytes());
  float* const taps = results + kResults * S.result_bytes() / 4;
  Patch* const list = reinterpret_cast<Patch*>(taps + 3 * kTapPitch);
  uint64_t* const arrived = reinterpret_cast<uint64_t*>(list + S.most_patches());
  uint64_t* const done = arrived + kStages;
  int* const plane_at = reinterpret_cast<int*>(done + 1);

  const StreamingGrid::Position tile = p.grid.at(blockIdx.x);
  const int x0 = tile.x * S.tile_w - p.lead, y0 = tile.y * S.tile_h(), z0 = tile.chunk * p.chunk;
  InputPlanes<T, K, kBulk, Map> in(p, map, tile, {y0 - p.pad_y, x0 - p.pad_x - S.shift()}, shared, list, arrived,
                                   plane_at);
  const int planes = in.planes;
  auto result = [&](int t) { return results + t % kResults * (S.result_bytes() / 4); };
  auto filter_rows = [&](int t, int turn) { row_pass<T, K, kFixed, kBulk>(in.stage(t), result(t), taps, turn, p); };

  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) tma::barrier_init(arrived + i, kBulk ? 1 : S.threads());
    tma::barrier_init(done, S.warps * kWarpArrivals);
  }
  for (int t = threadIdx.x; t < planes; t += S.threads())
    plane_at[t] = map_plane(map, in.first + t, p.volumes.in_d, p.border);
  if constexpr (!kBulk)
    for (int i = threadIdx.x; i < kStages * S.stage_bytes() / 16; i += S.threads())
      reinterpret_cast<uint4*>(shared)[i] = {0, 0, 0, 0};
  load_taps<K, S.threads()>(taps, p.windows, p.taps, tile.n, tile.c);
  __syncthreads();
  const bool fetches = !kBulk || threadIdx.x == 0;
  if (fetches)
    for (int t = 0; t < kStages; ++t) in.fetch(t);
  const int skip = max(-x0, 0);  // columns left of the output
  in.list_patches(S.shift() + skip, min(S.tile_h(), p.volumes.out_h - y0) + K - 1,
                  min(S.tile_w, p.volumes.out_w - x0) - skip + K - 1);

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = warp / (S.tile_w / 32) * R, column = warp % (S.tile_w / 32) * 32 + lane;
  const int x = x0 + column, y = y0 + row;
  const int stored = x >= 0 && x < p.volumes.out_w ? min(R, p.volumes.out_h - y) : 0;  // rows
  T* out = p.volumes.out_volume<T>(tile.n, tile.c) + z0 * p.volumes.out_stride_d + y * p.volumes.out_stride_h + x;

  float sum[K - 1][R] = {};
  int z = z0 - (K - 1);  // the output that the next plane ends
  auto push = [&](const float(&value)[R]) {
    float tap[K];
    read_taps<K, kFixed>(tap, taps, p, 2);
    float ended[R];
    depth_pass(tap, value, sum, ended);
    if (z >= z0) {
      if (p.border == Border::zero_output) {
        const bool fits = z >= p.pad_z + first_plane(map) && z - p.pad_z + K <= end_of_planes(map, p.volumes.in_d) &&
                          x >= p.pad_x && x - p.pad_x + K <= p.volumes.in_w;
#pragma unroll
        for (int o = 0; o < R; ++o)
          if (!fits || y + o < p.pad_y || y + o - p.pad_y + K > p.volumes.in_h) ended[o] = 0;
      }
      T* to = out;
#pragma unroll
      for (int o = 0; o < R; ++o, to += p.volumes.out_stride_h) store_if(o < stored, to, from_acc<T>(ended[o]));
      out += p.volumes.out_stride_d;
    }
    ++z;
  };
  float outside[R];
  const float outside_sum = column_of<K>(taps, p.value);
#pragma unroll
  for (int o = 0; o < R; ++o) outside[o] = outside_sum;
#pragma unroll 1
  for (int t = in.begin; t < in.first; ++t) push(outside);

  for (int t = 0; t < 3; ++t) in.write_patches(t, in.read_patches(t));
  __syncthreads();
  in.wait(0);
  filter_rows(0, 0);
  __syncthreads();

  // A warp arrives at `done` at the end of turn t. It waits for the others in turn t + 1, after its rows of plane t +
  // 2.
#pragma unroll 1
  for (int t = 0; t < planes; ++t) {
    if (t + 1 < planes) {
      in.wait(t + 1);
      filter_rows(t + 1, 2 * t + 2);
    }
    if (t > 0) tma::barrier_wait(done, (t - 1) % 2);
    if (fetches) {
      if (kBulk && in.count > 0) tma::fence_before_copy();  // all threads' patches of that stage
      in.fetch(t + kStages);
    }
    const auto patches = in.read_patches(t + 3);
    float plane_sums[R], tap[K];
    read_taps<K, kFixed>(tap, taps, p, 1);
    column_pass(tap, result(t) + row * S.result_pitch() + column, S.result_pitch(), plane_sums);
    push(plane_sums);
    in.write_patches(t + 3, patches);
    tma::warp_arrive(done);
  }
#pragma unroll 1
  for (int t = in.last; t < in.end; ++t) push(outside);
#endif
}

}  // namespace torch_conv::separable3d
