// A chain of stages on one tile, with intermediate values in registers.
//
// clang-format off
//      skew   32 * columns pixels
//      +----+------------------------------+--+  -     One bulk copy (or plain loads) brings the box: the tile and
//      |    :     halo, `halo` rows       :  |  |     the halo of all stages. Each warp streams through its rows and
//      |    :    +--------------------+    :  |  |     2 * halo more. A lane reads the columns under its pixels and
//      |    :pass| warp 0: `rows` rows|pass:  |  |     passes each row through the stages (StageChain). Later stages
//      |    :    | warp 1             |    :  | box_h  read columns beyond a lane's own: the lane makes them too. In
//      |    :    | warp 2             |    :  |  |     long chains neighbour lanes pass them; then a warp's outer lanes
//      |    :    | warp 3             |    :  |  |     store nothing, and neighbouring tiles overlap by two lanes.
//      |    :    +--------------------+    :  |  |     Warps make the rows between them twice, so that inside the
//      |    :                              :  |  |     image no barrier follows the box's.
//      +----+------------------------------+--+  -
// clang-format on
//
// Boxes of float32 start on 128 bytes, others on 32: `skew` pixels precede the first one.
//
// Blocks at an edge of the image extend their box by the halo of the first stage, or of all stages with `circular`.
// Values that later stages read beyond the edge are in registers, or edge.cuh computes the pixels that need them again.
// Rows above and below a shard are read in place from the neighbour shards.
//
// Per output pixel: one read (halos come from L2) and one write of each output; flops 4 K a window, and the rows'
// halos.
#pragma once

#include "core/cuda/extend.cuh"
#include "core/cuda/tma.cuh"
#include "kernels/fused/shared/box_rows.cuh"
#include "kernels/fused/shared/store.cuh"
#include "kernels/fused/tile/edge.cuh"

namespace torch_conv::fused {

__device__ __forceinline__ WholeImage<OwnRows> image_of(const TensorMap&, const Args& a, unsigned, unsigned) {
  return {a, {}};
}
__device__ __forceinline__ WholeImage<ShardRows> image_of(const ShardMaps& shards, const Args& a, unsigned n,
                                                          unsigned c) {
  return {a, {shards.peers, n, c}};
}

// Warps load rows in the layout of the bulk copy; elements outside the image stay unchanged. A barrier follows.
template <class P, typename T>
__device__ __forceinline__ void load_box_plain(const Args& a, const T* plane, T* box, int bx, int by) {
  constexpr TileShape S = tile_shape<P>(sizeof(T));
  const int left = max(0, -bx), right = min(S.pitch(), a.planes.in_w - bx);
  for (int r = threadIdx.x / 32; r < S.box_h(); r += S.warps) {
    if (unsigned(by + r) >= unsigned(a.planes.in_h)) continue;
    const T* row = plane + int64_t(by + r) * a.planes.in_stride_h + bx;
#pragma unroll 4
    for (int i = left + threadIdx.x % 32; i < right; i += 32) box[r * S.pitch() + i] = row[i];
  }
}

// kPeers: the image is a shard with neighbour shards. Sobel with kPeers spills 24 bytes, outside the loop over rows.
// With one block less on a multiprocessor it would spill none.
template <class P, typename T, typename O, bool kAligned, bool kPeers = false>
__global__ void __launch_bounds__(32 * TileShape::warps, tile_shape<P>(sizeof(T)).min_blocks)
    fused_tile(const __grid_constant__ MapOf<kPeers> map, const __grid_constant__ Args a,
               const __grid_constant__ TapsOf<P> taps) {
  constexpr TileShape S = tile_shape<P>(sizeof(T));
  constexpr int N = S.columns, M = N / P::stride, R = S.radius;
  static_assert(S.rows % P::stride == 0 && S.width() % P::stride == 0 && (P::stride == 1 || P::count == 1));
  static_assert(P::halo - P::first_radius <= S.columns, "later stages look beyond the lanes next to one");
  extern __shared__ __align__(128) unsigned char shared[];
  T* box = reinterpret_cast<T*>(shared);

  const TilePosition tile = a.order.at(blockIdx.x);
  const unsigned n = tile.n, c = tile.c;
  const int x0 = tile.x * S.width(), y0 = tile.y * S.height();
  const int bx = S.box_x(x0), by = y0 - S.halo, skew = x0 - S.halo_lanes * N - bx;
  const T* plane = a.planes.in_plane<T>(n, c);

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __shared__ uint64_t arrived;
  if (a.bulk) {
    constexpr int pack = tma::pack_of(sizeof(T));
    if (threadIdx.x == 0) {
      tma::barrier_init(&arrived);
      tma::barrier_expect(&arrived, S.box_bytes(sizeof(T)));
      tma::load_box(box, map_of_shard(map, ShardMaps::kOwn), &arrived, bx / pack, by, c, n);
    }
  } else
#endif
    load_box_plain<P>(a, plane, box, bx, by);
  __syncthreads();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (a.bulk) tma::barrier_wait(&arrived, 0);
#endif

  const auto image = image_of(map, a, n, c);
  const Rect area = Rect{y0, x0, y0 + S.height(), x0 + S.width()}.inside({0, 0, a.planes.in_h, a.planes.in_w});
  const Rect read = area.grown(S.halo);
  // All that the stages read, as far as `extend` pixels from the image; a bulk copy's zeros are a border of 0.
  const bool extends =
      a.extend > 0 && image.near_edge(area, S.halo) && !(a.bulk && a.border == Border::constant && a.value == 0);
  if (extends || image.reads_peers(read.y0, read.y1)) {
    const Rect whole = read.inside(image.rect().grown(a.extend));
    extend_box<32 * TileShape::warps>(
        SharedTile<T>{box, S.pitch()}, {whole.y0 - by, whole.y1 - by, whole.x0 - bx, whole.x1 - bx}, {by, bx}, plane,
        a.planes.in_stride_h, a.planes.in_h, a.planes.in_w, a.border, from_acc<T>(a.value), image.rows);
    __syncthreads();
  }

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  O* out = a.planes.out_plane<O>(n, c);
  {
    const bool stores = lane >= S.halo_lanes && lane < 32 - S.halo_lanes;
    const int x = stores ? x0 / P::stride + (lane - S.halo_lanes) * M - a.first : a.planes.out_w;
    const int y = (y0 + warp * S.rows) / P::stride - a.first;
    const T* from = box + warp * S.rows * S.pitch() + skew + lane * N;
    O* to = out + int64_t(y) * a.planes.out_stride_h + x;
    const auto store = [&](int r, const float(&row)[P::outputs][M]) {
      const bool inside = y + r >= 0 && y + r < a.planes.out_h;
#pragma unroll
      for (int o = 0; o < P::outputs; ++o) {
        O* at = to + o * a.stride_output + r * a.planes.out_stride_h;
        if constexpr (kAligned) store_row_if(inside && x < a.planes.out_w, at, row[o]);
        else store_elements_if(inside, at, row[o], x, a.planes.out_w);
      }
    };
    const auto stream = [&]<bool kEdge>() {
      const Surroundings at{x0 + (lane - S.halo_lanes) * N,
                            y0 + warp * S.rows - image.top(),
                            image.bottom() - image.top(),
                            a.planes.in_w,
                            a.border,
                            a.value};
      typename StageChainOf<P, S.halo_lanes != 0, M>::type rows;
#pragma unroll
      for (int r = 0; r < S.rows + 2 * S.halo; ++r) {
        float row[1][N + 2 * R];
        read_row<N, R>(from + r * S.pitch(), row);
        rows.template row<kEdge, kAligned>(r, row, taps.v, a.number, at, store);
      }
    };
    // Later stages of a block at an edge go through code of their own.
    if constexpr (P::extends_rows)
      if (a.extend > 0 && a.margin == 0 && image.near_edge(area, S.halo)) return stream.template operator()<true>();
    stream.template operator()<false>();
  }
  if (a.margin > 0 && image.near_edge(area, a.margin)) {
    constexpr int kPiece = edge_piece<P>(S.box_bytes(sizeof(T)));
    __syncthreads();
    mend_edges<P, T, O, kPiece>(image, taps, plane, out, reinterpret_cast<float*>(shared), area);
  }
}

}  // namespace torch_conv::fused
