// STREAMING: a block owns a tile of x and y and streams along z; registers hold the sums of K - 1 output planes.
//
//      16 B    width = 32 lanes x pixels    16 B
//     +----+--------------------------------+----+
//     |    :          K/2 halo rows         :    |
//     |    +--------------------------------+    |
//     |    | warp 0: lane = pixels x rows   |    |
//     |    | warp 1                         |    |      z ->  [ ready | ready | landed | empty ]
//     |    | ...                            |    |
//     |    +--------------------------------+    |
//     |    :          K/2 halo rows         :    |
//     +----+--------------------------------+----+
//
// Shared memory holds a ring of `stages` input planes. The loader warps take turns. Three bulk copies load a plane: the
// tile's columns, which start on 128 bytes, and 16 bytes left and right of them. Elements outside the volume arrive as
// zeros, also whole planes outside: zero borders are free. For other borders, the loader of a block at an edge patches
// the plane.
//
// The other warps add plane z to the K output planes over it, and store the completed one. The block has no barrier of
// all threads: a plane is `ready` once it is complete, `empty` once all warps have read it.
//
// kPeers: the volume is a shard of one that is cut along z. Loaders read planes beyond its ends from the neighbour
// shards (core/shard_planes.h). Planes that no shard has are outside.
//
// Sums: sum[q] belongs to the output plane that has seen q + 1 planes. The first row of a plane writes sum[q] from the
// sum before it: a chain's last tap moves it for free.
//
// Device memory per output voxel: 1 read (halos come from L2; K - 1 planes more per chunk) and 1 write; 2 K^3 flops.
#pragma once

#include "kernels/direct3d/streaming/ring.cuh"

namespace torch_conv::direct3d {

// Words of shared memory at a 32-bit address. The assembly makes the compiler keep the address in a register: it would
// compute the address again for every plane.
template <int Words>
__device__ __forceinline__ void load_shared(unsigned (&w)[Words], uint32_t address) {
  if constexpr (Words == 1) asm volatile("ld.shared.b32 %0, [%1];" : "=r"(w[0]) : "r"(address));
  if constexpr (Words == 2) asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(address));
  if constexpr (Words == 4)
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(address));
}

// Element i of an array of words, in the accumulation type.
template <typename T, int Words>
__device__ __forceinline__ acc_t<T> element(const unsigned (&w)[Words], int i) {
  constexpr int kPerWord = 4 / sizeof(T);
  const unsigned word = w[i / kPerWord];
  if constexpr (sizeof(T) == 4) return __uint_as_float(word);
  else if constexpr (std::is_same_v<T, half_t>) {
    float low, high;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(low), "=f"(high)
        : "r"(word));
    return i % 2 ? high : low;
  } else if constexpr (std::is_same_v<T, bhalf_t>) {
    return __uint_as_float(i % 2 ? word & 0xffff0000u : word << 16);
  } else {
    return acc_t<T>(T(word >> i % kPerWord * 8 * sizeof(T)));
  }
}

// Bytes from a stage's start to the pixels that a lane reads. The outermost lanes of a tile read neighbours at its
// sides.
struct LanePosition {
  uint32_t middle, left, right, left_pitch, right_pitch;
};

template <typename T, int K, VolumeTile S>
__device__ __forceinline__ LanePosition lane_position(int row, int x) {
  using At = RingStage<T, K, S>;
  const bool first = x == 0, last = x + S.pixels == At::width;
  LanePosition at{.middle = uint32_t(row * At::width + x),
                  .left = uint32_t(first ? At::left + (row + 1) * At::side : row * At::width + x),
                  .right = uint32_t(last ? At::right + row * At::side : row * At::width + x + S.pixels),
                  .left_pitch = uint32_t(first ? At::side : At::width),
                  .right_pitch = uint32_t(last ? At::side : At::width)};
  at.middle *= sizeof(T), at.left *= sizeof(T), at.right *= sizeof(T);
  at.left_pitch *= sizeof(T), at.right_pitch *= sizeof(T);
  asm volatile("" : "+r"(at.middle), "+r"(at.left), "+r"(at.right), "+r"(at.left_pitch), "+r"(at.right_pitch));
  return at;
}

// Loads a lane's pixels of one row and their neighbours.
template <typename T, int R, int N>
__device__ __forceinline__ void load_row(acc_t<T> (&v)[N + 2 * R], uint32_t left, uint32_t middle, uint32_t right) {
  constexpr int kSize = sizeof(T), kNeed = R * kSize;
  constexpr int kSide = kNeed <= 4 ? 4 : kNeed <= 8 ? 8 : 16;  // bytes of the smallest word that holds R pixels
  unsigned l[kSide / 4], m[N * kSize / 4], r[kSide / 4];
  load_shared(l, left - kSide);
  load_shared(m, middle);
  load_shared(r, right);
#pragma unroll
  for (int i = 0; i < R; ++i) {
    v[i] = element<T>(l, kSide / kSize - R + i);
    v[R + N + i] = element<T>(r, i);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) v[R + i] = element<T>(m, i);
}

// Loads a row of taps.
template <int K>
__device__ __forceinline__ void load_taps(float (&tap)[K], uint32_t address) {
  unsigned w[4], more[K == 7 ? 4 : 1];
  load_shared(w, address);
  if constexpr (K > 3) load_shared(more, address + 16);
#pragma unroll
  for (int j = 0; j < K; ++j) tap[j] = __uint_as_float(j < 4 ? w[j] : more[j - 4]);
}

// Adds one row of the window, of the planes of the window in `wanted` (kAll: of all planes). `tap` holds the first row
// of taps; each next row loads while the lane uses one.
template <int K, int N, int Rows, bool kFirst, bool kAll>
__device__ __forceinline__ void add_window_row(float (&tap)[K], uint32_t taps, unsigned wanted,
                                               const float (&v)[Rows][N + K - 1], int turn,
                                               float (&sum)[K - 1][Rows][N], float (&done)[Rows][N]) {
#pragma unroll
  for (int l = K - 1; l >= 0; --l) {
    float next[K];
    load_taps<K>(next, taps + (K - l) * tap_pitch(K) * 4);
    if (kAll || wanted >> l & 1) {
      float(&slot)[Rows][N] = l == K - 1 ? done : sum[l < K - 1 ? l : 0];
      float s[Rows][N];
#pragma unroll
      for (int o = 0; o < Rows; ++o)
#pragma unroll
        for (int p = 0; p < N; ++p) s[o][p] = !kFirst ? slot[o][p] : l > 0 ? sum[l > 0 ? l - 1 : 0][o][p] : 0.f;
#pragma unroll
      for (int j = 0; j < K; ++j)
#pragma unroll
        for (int o = 0; o < Rows; ++o)
#pragma unroll
          for (int p = 0; p < N; ++p) s[o][p] = fma(tap[j], v[(turn + o) % Rows][p + j], s[o][p]);
#pragma unroll
      for (int o = 0; o < Rows; ++o)
#pragma unroll
        for (int p = 0; p < N; ++p) slot[o][p] = s[o][p];
    }
#pragma unroll
    for (int j = 0; j < K; ++j) tap[j] = next[j];
  }
}

// Adds a plane to the sums of the output planes in `wanted`. Bit l: the output plane that sees it under plane l of the
// window. Shared memory holds the taps as (row, plane from the last to the first, column). The loop over the window's
// rows is unrolled as far as the rows of pixels in registers take turns, which keeps the code small.
template <typename T, int K, VolumeTile S, bool kAll>
__device__ __forceinline__ void add_window(uint32_t stage, const LanePosition& at, uint32_t taps, unsigned wanted,
                                           float (&sum)[K - 1][S.rows][S.pixels], float (&done)[S.rows][S.pixels]) {
  constexpr int N = S.pixels, R = K / 2, kRowBytes = K * tap_pitch(K) * 4, kPitch = S.width() * sizeof(T);
  constexpr int kTurns = S.rows == 1 ? 2 : S.rows > K - 1 ? K - 1 : S.rows;
  static_assert((K - 1) % kTurns == 0 && (kTurns == K - 1 || kTurns % S.rows == 0));
  uint32_t left = stage + at.left, middle = stage + at.middle, right = stage + at.right;
  float tap[K], v[S.rows][N + 2 * R];
  load_taps<K>(tap, taps);
#pragma unroll
  for (int o = 0; o < S.rows; ++o)
    load_row<T, R, N>(v[o], left + o * at.left_pitch, middle + o * kPitch, right + o * at.right_pitch);
  left += S.rows * at.left_pitch, middle += S.rows * kPitch, right += S.rows * at.right_pitch;
  add_window_row<K, N, S.rows, true, kAll>(tap, taps, wanted, v, 0, sum, done);
#pragma unroll 1
  for (int i = 1; i < K; i += kTurns) {
#pragma unroll
    for (int u = 0; u < kTurns; ++u) {
      load_row<T, R, N>(v[u % S.rows], left, middle, right);
      left += at.left_pitch, middle += kPitch, right += at.right_pitch;
      taps += kRowBytes;
      add_window_row<K, N, S.rows, false, kAll>(tap, taps, wanted, v, (1 + u) % S.rows, sum, done);
    }
  }
}

// Adds a plane under 3^3, whose taps are registers or kernel parameters: one row of pixels after the other.
template <typename T, int K, VolumeTile S>
__device__ __forceinline__ void add_rows(uint32_t stage, const LanePosition& at, const float (&tap)[K * K * K],
                                         float (&sum)[K - 1][S.rows][S.pixels], float (&done)[S.rows][S.pixels]) {
  constexpr int N = S.pixels, R = K / 2, kPitch = S.width() * sizeof(T);
  uint32_t left = stage + at.left, right = stage + at.right;
#pragma unroll
  for (int r = 0; r < S.rows + K - 1; ++r) {
    float v[N + 2 * R];
    load_row<T, R, N>(v, left, stage + at.middle + r * kPitch, right);
    left += at.left_pitch, right += at.right_pitch;
#pragma unroll
    for (int o = 0; o < S.rows; ++o) {
      const int i = r - o;  // row of the window over output row o
      if (i < 0 || i >= K) continue;
#pragma unroll
      for (int l = K - 1; l >= 0; --l)
#pragma unroll
        for (int p = 0; p < N; ++p) {
          float& to = l == K - 1 ? done[o][p] : sum[l < K - 1 ? l : 0][o][p];
          float s = i > 0 ? to : l > 0 ? sum[l > 0 ? l - 1 : 0][o][p] : 0.f;
#pragma unroll
          for (int j = 0; j < K; ++j) s = fma(tap[(l * K + i) * K + j], v[p + j], s);
          to = s;
        }
    }
  }
}

// Stores a lane's rows with a bias, with the mask of Border::zero_output, or without whole packs. Bit p of `columns`:
// the window over column x + p is inside. The function overwrites the sums.
template <int K, typename T, int Rows, int N>
__device__ __forceinline__ void store_slowly(const VolumeArgs& a, T* to, int rows, int x, int y, unsigned columns,
                                             int channel, acc_t<T> (&done)[Rows][N]) {
  using A = acc_t<T>;
  constexpr int R = K / 2;
  if (a.bias) {
    const A bias = a.bias[channel];
#pragma unroll
    for (int o = 0; o < Rows; ++o)
#pragma unroll
      for (int p = 0; p < N; ++p) done[o][p] += bias;
  }
#pragma unroll
  for (int o = 0; o < Rows; ++o, to += a.volumes.out_stride_h) {
    const int cy = y + o + a.shift_y;
    const unsigned fits = a.border != Border::zero_output || (cy >= R && cy + R < a.volumes.in_h) ? columns : 0;
    Pack<N, T> pack;
#pragma unroll
    for (int p = 0; p < N; ++p) pack.v[p] = from_acc<T>(fits >> p & 1 ? done[o][p] : A(0));
    if (a.vector_out) {
      store_pack_if(o < rows && x >= 0 && x < a.volumes.out_w, to, pack);
    } else if (o < rows) {
#pragma unroll
      for (int p = 0; p < N; ++p)
        if (x + p >= 0 && x + p < a.volumes.out_w) to[p] = pack.v[p];
    }
  }
}

template <bool kPeers>
using StreamingMap = std::conditional_t<kPeers, ShardMaps, TensorMap>;

template <typename T, StreamingPolicy P, bool kPeers = false>
__global__ void __launch_bounds__(P.shape(sizeof(T)).threads(), P.shape(sizeof(T)).resident)
    direct3d_streaming(const __grid_constant__ StreamingMap<kPeers> map,
                       const __grid_constant__ StreamingMap<kPeers> side_map, const __grid_constant__ VolumeArgs a,
                       const __grid_constant__ std::conditional_t<P.constant, ConstantTaps, ParamTaps> param_taps) {
  using A = acc_t<T>;
  constexpr int K = P.k;
  constexpr VolumeTile S = P.shape(sizeof(T));
  using At = RingStage<T, K, S>;
  constexpr int N = S.pixels, R = K / 2;
  static_assert(K == 3 || !P.constant);
  // A barrier's wait distinguishes odd and even phases only: no loader may be a whole ring behind another.
  static_assert(S.loaders <= S.stages && S.stages <= kMostStages);
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  T* ring = reinterpret_cast<T*>(shared_bytes + streaming_tap_bytes(K));
  [[maybe_unused]] __shared__ uint64_t landed[kMostStages], ready[kMostStages], empty[kMostStages];
  __shared__ Patches<K, S.rows_in(K)> patches;

  const VolumePosition at = streaming_position(a, At::width, S.height());
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, planes = at.planes + K - 1;
  const int bx = at.x + a.shift_x, by = at.y + a.shift_y - R, bz = at.z + a.shift_z - R;
  const bool edge = bx - R < 0 || by < 0 || min(at.x + At::width, a.volumes.out_w) + a.shift_x + R > a.volumes.in_w ||
                    min(at.y + S.height(), a.volumes.out_h) + a.shift_y + R > a.volumes.in_h;
  bool edge_z = bz < 0 || bz + planes > a.volumes.in_d;  // one expression for both makes float16's 3x3x3 longer
  if constexpr (kPeers) edge_z = bz < first_plane(map) || bz + planes > end_of_planes(map, a.volumes.in_d);
  const bool zeros = a.border == Border::zero_output || (a.border == Border::constant && a.value == A(0));
  const bool patch = edge && !zeros;
  const bool mask = (edge || edge_z) && a.border == Border::zero_output;

  if constexpr (!P.constant) {
    const A* from = param_taps.template first<A>() + at.n * a.taps_n + at.c * a.taps_c;
    for (int e = threadIdx.x; e < K * K * K; e += S.threads()) {
      const int l = e / (K * K), i = e / K % K, j = e % K;
      reinterpret_cast<A*>(shared_bytes)[(i * K + K - 1 - l) * tap_pitch(K) + j] = from[e];
    }
  }
  if (patch && threadIdx.x == S.threads() - 1) find_patches<T, K, S>(a, bx, by, patches);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (P.bulk && threadIdx.x == 0) {
    for (int s = 0; s < a.stages; ++s) {
      tma::barrier_init(landed + s, 1);
      tma::barrier_init(ready + s, kWarpArrivals);
      tma::barrier_init(empty + s, S.warps() * kWarpArrivals);
    }
  }
#endif
  __syncthreads();
  if (P.bulk && warp >= S.warps()) {
    const bool post = patch || (!zeros && edge_z && a.border == Border::constant);
    return load_ring<T, K, S>(map, side_map, a, at, ring, landed, ready, empty, post, patch ? &patches : nullptr);
  }

  const int row = warp / S.warps_x * S.rows, x = at.x + (warp % S.warps_x * 32 + lane) * N, y = at.y + row;
  const LanePosition position = lane_position<T, K, S>(row, x - at.x);
  uint32_t taps = uint32_t(__cvta_generic_to_shared(shared_bytes)), stage = taps + streaming_tap_bytes(K);
  T* out = a.volumes.out_volume<T>(at.n, at.c) + at.z * a.volumes.out_stride_d + y * a.volumes.out_stride_h + x;
  const T* volume = a.volumes.in_volume<T>(at.n, at.c / a.multiplier);
  const bool packs = a.vector_out && !mask && !a.bias;
  const int rows_out = packs && !(x >= 0 && x < a.volumes.out_w) ? 0 : min(S.rows, a.volumes.out_h - y);
  unsigned fitting = 0;  // bit p: the window over column x + p is inside, or nothing is masked
#pragma unroll
  for (int p = 0; p < N; ++p) {
    const int cx = x + p + a.shift_x;
    fitting |= unsigned(!mask || (cx >= R && cx + R < a.volumes.in_w)) << p;
  }
  asm volatile("" : "+r"(taps));

  [[maybe_unused]] A tap[K == 3 && !P.constant ? 27 : 1];
  if constexpr (K == 3 && !P.constant)
#pragma unroll
    for (int e = 0; e < 27; ++e)
      tap[e] = reinterpret_cast<const A*>(shared_bytes)[(e / 3 % 3 * 3 + 2 - e / 9) * tap_pitch(K) + e % 3];

  A sum[K - 1][S.rows][N] = {};
  int slot = 0, phase = 0;
  for (int q = 0; q < planes; ++q) {
    if constexpr (P.bulk) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
      tma::barrier_wait(ready + slot, phase);
#endif
    } else {
      // Two stages: before a thread loads plane q, all threads have read plane q - 2 and reached the barrier of q - 1.
      T* plane = ring + slot * At::elements;
      const int z = map_plane(map, bz + q, a.volumes.in_d, a.border);
      if (z < kLeastPlane<StreamingMap<kPeers>>) {
        for (int e = threadIdx.x; e < At::elements; e += S.threads()) plane[e] = from_acc<T>(zeros ? A(0) : a.value);
      } else {
        const auto in_memory = [&] {
          return plane_in_memory(map, volume, a.volumes.in_stride_d, z, a.volumes.in_d, at.n, at.c / a.multiplier);
        };
        load_plane_plain<T, K, S>(a, in_memory(), plane, bx, by);
        if (patch) {
          __syncthreads();
          if (warp == S.warps()) patch_plane<T, K, S>(a, in_memory(), plane, bx, by, patches, false);
        }
      }
      __syncthreads();
    }
    if (P.bulk || warp < S.warps()) {
      A done[S.rows][N];
      if constexpr (P.constant) {
        add_rows<T, K, S>(stage, position, param_taps.tap, sum, done);
      } else if constexpr (K == 3) {
        add_rows<T, K, S>(stage, position, tap, sum, done);
      } else {
        // The first and last K - 1 planes add to fewer output planes of this chunk.
        const int low = max(0, q - at.planes + 1), high = min(K - 1, q);
        if (low == 0 && high == K - 1) add_window<T, K, S, true>(stage, position, taps, 0, sum, done);
        else add_window<T, K, S, false>(stage, position, taps, (2u << high) - (1u << low), sum, done);
      }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
      if constexpr (P.bulk) {
        tma::warp_arrive(empty + slot);
      }
#endif
      if (q >= K - 1) {
        if (packs) {
          T* to = out;
#pragma unroll
          for (int o = 0; o < S.rows; ++o, to += a.volumes.out_stride_h) {
            Pack<N, T> pack;
#pragma unroll
            for (int p = 0; p < N; ++p) pack.v[p] = from_acc<T>(done[o][p]);
            store_pack_if(o < rows_out, to, pack);
          }
        } else {
          const int cz = at.z + q - (K - 1) + a.shift_z;
          const bool fits_z = !mask || planes_around(map, cz, R, a.volumes.in_d);
          store_slowly<K>(a, out, rows_out, x, y, fits_z ? fitting : 0, at.c, done);
        }
        out += a.volumes.out_stride_d;
      }
    }
    stage += At::elements * sizeof(T);
    if (++slot == a.stages) slot = 0, phase ^= 1, stage -= a.stages * (At::elements * int(sizeof(T)));
  }
}

}  // namespace torch_conv::direct3d
