// STREAMING: the ring of planes in shared memory (layout of a plane, borders, bulk copies, plain loads).
#pragma once

#include "core/border.h"
#include "core/cuda/async_copy.cuh"
#include "core/cuda/tma.cuh"
#include "kernels/direct3d/streaming/params.h"

namespace torch_conv::direct3d {

// One plane in shared memory: elements (r, i) of row r and column i, -side <= i < width + side.
template <typename T, int K, VolumeTile S>
struct RingStage {
  static constexpr int side = 16 / sizeof(T), rows = S.rows_in(K), width = S.width();
  static constexpr int left = S.main_bytes(sizeof(T), K) / sizeof(T);  // elements before the left sides
  static constexpr int right = left + S.side_bytes(K) / sizeof(T);
  static constexpr int elements = S.stage_bytes(sizeof(T), K) / sizeof(T);
  static constexpr int copied = S.main_bytes(sizeof(T), K) + 2 * rows * 16;  // bytes of the bulk copies
  static __device__ __forceinline__ int at(int r, int i) {
    return i < 0 ? left + r * side + side + i : i < width ? r * width + i : right + r * side + i - width;
  }
};

// The first output of a block's tile, planes of its chunk, channel and sample.
struct VolumePosition {
  int x, y, z, planes, c, n;
};

__device__ __forceinline__ VolumePosition streaming_position(const VolumeArgs& a, int width, int height) {
  const StreamingGrid::Position tile = a.grid.at(blockIdx.x);
  const int z = tile.chunk * a.chunk;
  return {tile.x * width - a.lead, tile.y * height, z, min(a.chunk, a.volumes.out_d - z), tile.c, tile.n};
}

// The columns and rows that a block at an edge replaces, the same in every plane. The border mostly repeats elements of
// the tile itself.
template <int K, int Rows>
struct Patches {
  static constexpr int outside = -1, far = -2;  // the border's value; a pixel outside the tile
  int columns, rows;
  int column[2 * K], column_from[2 * K], column_in_plane[2 * K];  // columns of the tile, and of the plane
  int row[Rows], row_from[Rows], row_in_plane[Rows];
  int top, bottom;  // rows [top, bottom) are inside the plane
};

// One thread computes the border map, once for all planes.
template <typename T, int K, VolumeTile S>
__device__ void find_patches(const VolumeArgs& a, int bx, int by, Patches<K, S.rows_in(K)>& to) {
  using P = Patches<K, S.rows_in(K)>;
  constexpr int R = K / 2, kRows = S.rows_in(K), kWidth = S.width();
  to.top = min(max(0, -by), kRows), to.bottom = max(to.top, min(kRows, a.volumes.in_h - by));
  const int left = min(max(-R, -bx), kWidth + R), right = max(left, min(kWidth + R, a.volumes.in_w - bx));
  to.columns = to.rows = 0;
  // Only elements in the footprint of stored outputs.
  const int first = max(-R, a.shift_x - bx - R), end = min(kWidth + R, a.volumes.out_w + a.shift_x - bx + R);
  for (int i = first; i < end; ++i) {
    if (i == left) i = right;
    if (i >= end) break;
    const int m = map_index(bx + i, a.volumes.in_w, a.border), from = m - bx, e = to.columns++;
    to.column[e] = i, to.column_in_plane[e] = m;
    to.column_from[e] = m < 0 ? P::outside : from >= left && from < right ? from + R : P::far;
  }
  const int end_y = min(kRows, a.volumes.out_h + a.shift_y - by + R);
  for (int r = 0; r < end_y; ++r) {
    if (r == to.top) r = to.bottom;
    if (r >= end_y) break;
    const int m = map_index(by + r, a.volumes.in_h, a.border), from = m - by, e = to.rows++;
    to.row[e] = r, to.row_in_plane[e] = m;
    to.row_from[e] = m < 0 ? P::outside : from >= to.top && from < to.bottom ? from : P::far;
  }
}

// A circular border repeats the plane's far side, mostly outside the tile. A warp reads these elements into registers
// while the plane's copy runs. 3^3 float32 512^3 on one NVIDIA H200: 550 us if the warp reads these elements after the
// copy; other borders 284. The first K / 2 columns and rows are all that a centred window needs.
template <typename T, int K, VolumeTile S>
struct FarSide {
  using At = RingStage<T, K, S>;
  using Patches = direct3d::Patches<K, S.rows_in(K)>;
  static constexpr int R = K / 2, batches_down = ceil_div(At::rows, 32), batches = ceil_div(At::width + 2 * R, 32);
  T column[R][batches_down], row[R][batches];

  static __device__ __forceinline__ bool has_column(const Patches& patches, int e) {
    return e < R && e < patches.columns && patches.column_from[e] == Patches::far;
  }
  static __device__ __forceinline__ bool has_row(const Patches& patches, int e) {
    return e < R && e < patches.rows && patches.row_from[e] == Patches::far;
  }
  // Calls in_column(element, e, row in the tile) and in_row(element, e, column in the tile) for the lane's elements.
  template <class InColumn, class InRow>
  __device__ __forceinline__ void each(const Patches& patches, const InColumn& in_column, const InRow& in_row) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int e = 0; e < R; ++e) {
      if (has_column(patches, e))
#pragma unroll
        for (int u = 0; u < batches_down; ++u)
          if (const int r = patches.top + lane + 32 * u; r < patches.bottom) in_column(column[e][u], e, r);
      if (has_row(patches, e))
#pragma unroll
        for (int u = 0; u < batches; ++u)
          if (const int i = lane - R + 32 * u; i < At::width + R) in_row(row[e][u], e, i);
    }
  }
  __device__ __forceinline__ void read(const VolumeArgs& a, const T* plane, int bx, int by, const Patches& patches) {
    const int64_t stride = a.volumes.in_stride_h;
    each(
        patches, [&](T& element, int e, int r) { element = plane[(by + r) * stride + patches.column_in_plane[e]]; },
        [&](T& element, int e, int i) {
          element = plane[patches.row_in_plane[e] * stride + map_index(bx + i, a.volumes.in_w, Border::circular)];
        });
  }
  __device__ __forceinline__ void write(T* shared, const Patches& patches) {
    each(
        patches, [&](T element, int e, int r) { shared[At::at(r, patches.column[e])] = element; },
        [&](T element, int e, int i) { shared[At::at(patches.row[e], i)] = element; });
  }
};

// One warp replaces the zeros outside the plane by the border's elements: first columns of rows inside the plane, then
// whole rows. With `far_side` the warp leaves out the elements that FarSide writes.
template <typename T, int K, VolumeTile S>
__device__ __forceinline__ void patch_plane(const VolumeArgs& a, const T* plane, T* shared, int bx, int by,
                                            const Patches<K, S.rows_in(K)>& patches, bool far_side) {
  using At = RingStage<T, K, S>;
  using P = Patches<K, S.rows_in(K)>;
  constexpr int R = K / 2, kVector = 16 / sizeof(T);
  const int lane = threadIdx.x % 32;
  const T outside = from_acc<T>(a.value);
#pragma unroll 2
  for (int e = 0; e < patches.columns; ++e) {
    if (far_side && FarSide<T, K, S>::has_column(patches, e)) continue;
    const int i = patches.column[e], from = patches.column_from[e];
    for (int r = patches.top + lane; r < patches.bottom; r += 32)
      shared[At::at(r, i)] = from == P::outside ? outside
                             : from == P::far
                                 ? plane[int64_t(by + r) * a.volumes.in_stride_h + patches.column_in_plane[e]]
                                 : shared[At::at(r, from - R)];
  }
  __syncwarp();
  for (int e = 0; e < patches.rows; ++e) {
    if (far_side && FarSide<T, K, S>::has_row(patches, e)) continue;
    const int r = patches.row[e], from = patches.row_from[e];
    if (from >= 0) {
      // Vectors of 16 bytes: the tile's columns, then its sides.
      for (int i = lane * kVector; i < At::width; i += 32 * kVector)
        *reinterpret_cast<uint4*>(shared + r * At::width + i) =
            *reinterpret_cast<const uint4*>(shared + from * At::width + i);
      if (lane < 2) {
        T* side = shared + (lane ? At::right : At::left);
        *reinterpret_cast<uint4*>(side + r * At::side) = *reinterpret_cast<const uint4*>(side + from * At::side);
      }
    } else {
      const T* row = plane + int64_t(patches.row_in_plane[e]) * a.volumes.in_stride_h;
#pragma unroll 6
      for (int i = lane - R; i < At::width + R; i += 32) {
        const int x = bx + i;
        const int mx = from == P::outside             ? -1
                       : x >= 0 && x < a.volumes.in_w ? x
                                                      : map_index(x, a.volumes.in_w, a.border);
        shared[At::at(r, i)] = mx < 0 ? outside : row[mx];
      }
    }
  }
}

// All warps load a plane into the layout of the bulk copies, with zeros outside. The caller makes a barrier after it.
// Unaligned rows arrive element by element, many loads at once. The figures are us with many loads at once and with one
// row after the other:
//
//     3^3 on 189 x 233 x 197, one NVIDIA H200   float32 88, 122; uint8 75, 95
//
template <typename T, int K, VolumeTile S>
__device__ __forceinline__ void load_plane_plain(const VolumeArgs& a, const T* plane, T* shared, int bx, int by) {
  using At = RingStage<T, K, S>;
  constexpr int kVector = 16 / sizeof(T), R = K / 2, kWarps = S.warps() + S.loaders, kEach = At::width / 32;
  constexpr int kBatch = kEach > 8 ? 1 : 2;  // rows
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int side = lane < R ? lane - R : At::width + lane - R;
  if (!a.vector_in && sizeof(T) == 4) {
    for (int r = warp; r < At::rows; r += kWarps) {
      const int y = by + r;
      const bool inside_y = y >= 0 && y < a.volumes.in_h;
      const T* row = plane + int64_t(inside_y ? y : 0) * a.volumes.in_stride_h;
      const auto copy = [&](T* to, int x) {
        const bool inside = inside_y && x >= 0 && x < a.volumes.in_w;
        async_copy<4>(to, row + (inside ? x : 0), inside ? 4 : 0);
      };
#pragma unroll
      for (int k = 0; k < kEach; ++k) copy(shared + r * At::width + lane + 32 * k, bx + lane + 32 * k);
      if (lane < 2 * R) copy(shared + At::at(r, side), bx + side);
    }
    async_wait_all();
    return;
  }
  for (int first = warp; first < At::rows; first += kBatch * kWarps) {
    T pixel[kBatch][kEach + 1];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int r = first + u * kWarps, y = by + r;
      const bool inside_y = y >= 0 && y < a.volumes.in_h && r < At::rows;
      const T* row = plane + int64_t(inside_y ? y : 0) * a.volumes.in_stride_h;
      const auto read = [&](int x) {
        return inside_y && x >= 0 && x < a.volumes.in_w ? row[x] : from_acc<T>(acc_t<T>(0));
      };
      if (a.vector_in) {
        for (int i = lane * kVector; r < At::rows && i < At::width; i += 32 * kVector) {
          uint4 v = make_uint4(0, 0, 0, 0);
          if (inside_y && bx + i >= 0 && bx + i < a.volumes.in_w) v = *reinterpret_cast<const uint4*>(row + bx + i);
          *reinterpret_cast<uint4*>(shared + r * At::width + i) = v;
        }
      } else {
#pragma unroll
        for (int k = 0; k < kEach; ++k) pixel[u][k] = read(bx + lane + 32 * k);
      }
      if (lane < 2 * R) pixel[u][kEach] = read(bx + side);
    }
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int r = first + u * kWarps;
      if (r >= At::rows) break;
      if (!a.vector_in)
#pragma unroll
        for (int k = 0; k < kEach; ++k) shared[r * At::width + lane + 32 * k] = pixel[u][k];
      if (lane < 2 * R) shared[At::at(r, side)] = pixel[u][kEach];
    }
  }
}

// The loaders of a block take turns: a loader loads a plane into the ring, and patches it if the block is at an edge. A
// patch waits for the copy and takes about as long again: one loader alone would delay 3^3 (float32 256^3 reflect on
// one NVIDIA H200: 76 us instead of 38). A loader reads the far side while it waits for the stage and for the copy.
//
// A loader's work takes issue slots and instruction cache from the computing warps. Per plane this loop has no division
// by a.stages (S.stages is constant), no address in memory, and one choice of the shard. Reflect, 256 x 1024 x 1024,
// one NVIDIA H100, us, with these | without; the same between two such shards:
//
//     uint8   3^3  557 |  521,  618 |  580      float32 3^3  784 |  782,  791 |  787
//     float16 5^3 1640 | 1620, 1730 | 1693              5^3 1763 | 1732, 1760 | 1726
//             7^3 4450 | 4405, 4525 | 4509              7^3 4083 | 4046, 4180 | 4142
template <typename T, int K, VolumeTile S, typename Map>
__device__ __forceinline__ void load_ring(const Map& map, const Map& side_map, const VolumeArgs& a,
                                          const VolumePosition& at, T* ring, uint64_t* landed, uint64_t* ready,
                                          uint64_t* empty, bool post, const Patches<K, S.rows_in(K)>* patches) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using At = RingStage<T, K, S>;
  const int lane = threadIdx.x % 32, ci = at.c / a.multiplier, planes = at.planes + K - 1;
  const int bx = at.x + a.shift_x, by = at.y + a.shift_y - K / 2, bz = at.z + a.shift_z - K / 2;
  const bool zeros = a.border == Border::zero_output || (a.border == Border::constant && a.value == acc_t<T>(0));
  const T* volume = a.volumes.in_volume<T>(at.n, ci);
  uint64_t* barriers = post ? landed : ready;
  const bool far_side = patches && a.border == Border::circular;
  for (int q = threadIdx.x / 32 - S.warps(); q < planes; q += S.loaders) {
    const int slot = unsigned(q) % S.stages, phase = unsigned(q) / S.stages % 2;
    // A bulk copy loads an outside plane as zeros. Planes of another constant have no copy.
    const int z = zeros ? bz + q : map_plane(map, bz + q, a.volumes.in_d, a.border);
    const bool copied = z >= kLeastPlane<Map> || zeros;
    T* to = ring + slot * At::elements;
    const T* plane = nullptr;
    if (patches) plane = plane_in_memory(map, volume, a.volumes.in_stride_d, z, a.volumes.in_d, at.n, ci);
    FarSide<T, K, S> beyond;
    if (far_side) beyond.read(a, plane, bx, by, *patches);
    tma::barrier_wait(empty + slot, phase ^ 1);
    if (lane == 0 && copied) {
      tma::barrier_expect(barriers + slot, At::copied);
      const PlaneOfShard from = plane_of_shard(map, z, a.volumes.in_d);
      const TensorMap *const middle = map_of_shard(map, from.shard), *const sides = map_of_shard(side_map, from.shard);
      tma::load_box(to, middle, barriers + slot, bx, by, from.z, ci, at.n);
      tma::load_box(to + At::left, sides, barriers + slot, bx - At::side, by, from.z, ci, at.n);
      tma::load_box(to + At::right, sides, barriers + slot, bx + At::width, by, from.z, ci, at.n);
    }
    if (!post) {
      if (lane > 0 && lane < kWarpArrivals) tma::barrier_arrive(ready + slot);
      continue;
    }
    if (lane == 0 && !copied) tma::barrier_arrive(landed + slot);
    __syncwarp();
    tma::barrier_wait(landed + slot, phase);
    if (!copied) {
      const T outside = from_acc<T>(a.value);
      for (int e = lane; e < At::elements; e += 32) to[e] = outside;
    } else if (patches) {
      if (far_side) beyond.write(to, *patches);
      patch_plane<T, K, S>(a, plane, to, bx, by, *patches, far_side);
    }
    tma::fence_before_copy();
    tma::warp_arrive(ready + slot);
  }
#endif
}

}  // namespace torch_conv::direct3d
