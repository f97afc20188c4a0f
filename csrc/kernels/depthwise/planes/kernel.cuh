// PLANES: small planes that are contiguous in memory; a block computes several whole planes.
//
// clang-format off
//      stage 0        stage 1      ..    results         A stage holds `group` contiguous planes of one image. A bulk
//     +---------+    +---------+        +---------+      copy loads it while the block computes earlier stages. A bulk
//     | plane c |    | plane c |        | plane c |      copy stores the results. The next stage holds the next image,
//     | of n    |    | of n + 1|        | of n - 1|      so that taps stay in registers.
//     |  c + 1  |    |  c + 1  |        |  c + 1  |
//     |   ...   |    |   ...   |        |   ...   |      +----px----+      A thread computes px columns of ry rows of
//     +---------+    +---------+        +---------+      |          | ry   one plane. It reads each of its input rows
//         ^ bulk load                       v bulk store +----------+      once, for all window rows over it.
// clang-format on
//
// The stages hold no padding. A row of zeros stands for rows outside, and zeros replace columns outside.
// A block computes a run of jobs: all images of one group of channels, then all images of the next group. Planes that
// do not start on 16 bytes (S.shifted) are loaded with the bytes before them in their first vector. A bulk copy stores
// the vectors that they fill, and plain stores their ends.
//
// Device memory per output: one read, one write; 2 kh kw flops.
#pragma once

#include "core/activation.h"
#include "core/cuda/tma.cuh"
#include "kernels/depthwise/planes/params.h"
#include "kernels/depthwise/shared/floor_div.h"
#include "kernels/depthwise/shared/row_sums.cuh"

namespace torch_conv::depthwise {

namespace planes {

constexpr int gcd(int a, int b) { return b ? gcd(b, a % b) : a; }

// A vector of M elements, or zeros outside the row.
template <int M, typename T>
__device__ __forceinline__ void load_vector(const T* from, bool inside, T* to) {
  using Vector = typename VectorOf<M * sizeof(T)>::type;
  Vector vector{};
  if (inside) vector = *reinterpret_cast<const Vector*>(from);
  memcpy(to, &vector, sizeof(vector));
}

// Columns [x - S.pad_x, x - S.pad_x + N) of a row in the accumulation type. A strip starts at column x, and `from`
// points to that column.
template <PlanesPolicy S, typename T, int N>
__device__ __forceinline__ void load_row(const T* from, int x, float (&to)[N]) {
  constexpr int kSize = sizeof(T);
  constexpr int E = gcd(gcd(16, S.w * kSize), S.px * S.stride_x * kSize) / kSize;  // elements of a vector
  constexpr int kFirst = floor_div(-S.pad_x, E), kLast = floor_div(N - 1 - S.pad_x, E);
  constexpr int kMostX = (S.strips() - 1) * S.px * S.stride_x;
#pragma unroll
  for (int q = kFirst; q <= kLast; ++q) {
    const int at = q * E;  // column of the vector, counted from x
    const int low = -S.pad_x - at > 0 ? -S.pad_x - at : 0, high = N - S.pad_x - at < E ? N - S.pad_x - at : E;
    const bool sure = at >= 0 && kMostX + at < S.w, never = kMostX + at < 0 || at >= S.w;
    const bool inside = sure || (!never && unsigned(x + at) < unsigned(S.w));
    T v[E];
    if (E >= 4 && low >= E / 2) {
      if (E >= 8 && low >= E / 4 * 3) load_vector<(E >= 8 ? E / 4 : E)>(from + at + E / 4 * 3, inside, v + E / 4 * 3);
      else load_vector<(E >= 2 ? E / 2 : E)>(from + at + E / 2, inside, v + E / 2);
    } else if (E >= 4 && high <= E / 2) {
      if (E >= 8 && high <= E / 4) load_vector<(E >= 8 ? E / 4 : E)>(from + at, inside, v);
      else load_vector<(E >= 2 ? E / 2 : E)>(from + at, inside, v);
    } else {
      load_vector<E>(from + at, inside, v);
    }
#pragma unroll
    for (int e = 0; e < E; ++e)
      if (e >= low && e < high) to[at + e + S.pad_x] = never ? 0.f : to_acc<float>(v[e]);
  }
}

// The outputs of a thread: px columns from column x on, ry rows from row y on.
template <PlanesPolicy S, Activation kind, typename T>
__device__ __forceinline__ void compute(const T* from, const T* zeros, int x, int y, const float (&tap)[S.kh * S.kw],
                                        float bias, T* to) {
  constexpr int PX = S.px, kSize = sizeof(T);
  float sum[S.ry][PX] = {};
#pragma unroll
  for (int r = 0; r < S.rows(); ++r) {
    float v[S.columns()];
    const bool sure = r >= S.pad_y && (S.bands() - 1) * S.ry * S.stride_y + r - S.pad_y < S.h;
    const bool inside = sure || unsigned(y * S.stride_y + r - S.pad_y) < unsigned(S.h);
    load_row<S>(inside ? from + r * S.w : zeros, x * S.stride_x, v);
    add_row<S>(r, v, tap, sum, [&](int o) {
      if (S.out_h % S.ry != 0 && y + o >= S.out_h) return;
      constexpr int E = gcd(gcd(16, S.out_w * kSize), PX * kSize) / kSize;
      using Vector = typename VectorOf<E * kSize>::type;
#pragma unroll
      for (int p = 0; p < PX; p += E) {
        T rounded[E];
#pragma unroll
        for (int e = 0; e < E; ++e) rounded[e] = from_acc<T>(activated<kind>(sum[o][p + e] + bias));
        Vector vector;
        memcpy(&vector, rounded, sizeof(vector));
        if ((S.strips() - 1) * PX + p < S.out_w || x + p < S.out_w)
          *reinterpret_cast<Vector*>(to + o * S.out_w + p) = vector;
      }
    });
  }
}

}  // namespace planes

template <typename T, typename W, PlanesPolicy shape, Activation kind>
__global__ void __launch_bounds__(shape.threads(), shape.resident)
    depthwise_planes(const __grid_constant__ PlanesArgs a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace planes;
  constexpr PlanesPolicy S = shape;
  constexpr int kSize = sizeof(T), kUnits = S.strips() * S.bands(), kTaps = S.kh * S.kw;
  constexpr int kGroup = S.group, kMultiplier = S.multiplier, kPlane = S.h * S.w, kOutPlane = S.out_h * S.out_w;
  constexpr bool kShifted = S.shifted;
  extern __shared__ __align__(128) unsigned char planes_shared[];
  __shared__ uint64_t full[8];
  unsigned char* const stages = planes_shared + S.zeros(kSize);
  unsigned char* const results = stages + a.stages * S.stage(kSize);

  const int tid = threadIdx.x;
  for (int e = tid; e < S.zeros(kSize) / 16; e += S.threads()) reinterpret_cast<uint4*>(planes_shared)[e] = uint4{};
  if (tid < a.stages) tma::barrier_init(&full[tid]);
  __syncthreads();

  const unsigned begin = blockIdx.x * a.each + min(blockIdx.x, a.more);
  const unsigned end = begin + a.each + (blockIdx.x < a.more);
  unsigned job = begin / a.images, n = begin - job * a.images;
  int c0 = int(job) * kGroup;
  unsigned load_job = begin, load_n = n;  // the next job to load
  int load_c = c0;
  const auto image_at = [&](unsigned n, int c) {
    return static_cast<const T*>(a.in) + n * a.in_n + int64_t(c) * kPlane;
  };
  // Bulk copies move whole vectors of 16 bytes: these bytes before the first plane come with it.
  const auto shift_of = [](const T* at) { return kShifted ? int(reinterpret_cast<uintptr_t>(at) % 16) : 0; };
  const auto load = [&](int stage) {
    if (load_job < end) {
      const int first = load_c / kMultiplier;
      const int last = (min(load_c + kGroup, a.channels) - 1) / kMultiplier;
      const T* const from = image_at(load_n, first);
      const int shift = shift_of(from);
      int bytes = (last - first + 1) * (kPlane * kSize);
      if (kShifted) bytes = (shift + bytes + 15) / 16 * 16;
      tma::barrier_expect(&full[stage], bytes);
      tma::bulk_load(stages + stage * S.stage(kSize), reinterpret_cast<const unsigned char*>(from) - shift, bytes,
                     &full[stage]);
      ++load_job;
      if (++load_n == a.images) load_n = 0, load_c += kGroup;
    }
  };
  if (tid == 0)
    for (int s = 0; s < a.stages; ++s) load(s);

  const int g = tid / kUnits, unit = tid % kUnits;
  const int band = unit / S.strips(), x = unit % S.strips() * S.px, y = band * S.ry;
  const int from_at = (y * S.stride_y - S.pad_y) * S.w + x * S.stride_x, to_at = (g * S.out_h + y) * S.out_w + x;
  const T* const zeros = reinterpret_cast<const T*>(planes_shared + S.zeros_lead(kSize));
  float tap[kTaps] = {}, bias = 0;
  int stage = 0, phase = 0, result = 0;
  bool next_group = true;
  for (unsigned i = begin; i < end; ++i) {
    const int count = min(kGroup, a.channels - c0);
    T* const out = static_cast<T*>(a.out) + n * a.out_n + int64_t(c0) * kOutPlane;
    unsigned char* const staged = results + result * S.result(kSize) + shift_of(out);
    const bool has_plane = g < count;
    if (next_group && has_plane) {
      const W* const weight = static_cast<const W*>(a.weight) + int64_t(c0 + g) * kTaps;
#pragma unroll
      for (int t = 0; t < kTaps; ++t) tap[t] = to_acc<float>(weight[t]);
      bias = a.bias ? to_acc<float>(static_cast<const W*>(a.bias)[c0 + g]) : 0.f;
    }
    tma::barrier_wait(&full[stage], phase);
    if (has_plane) {
      const int plane = kMultiplier == 1 ? g : (c0 + g) / kMultiplier - c0 / kMultiplier;
      const T* const from =
          reinterpret_cast<const T*>(stages + stage * S.stage(kSize) + shift_of(image_at(n, c0 / kMultiplier))) +
          plane * kPlane + from_at;
      compute<S, kind>(from, zeros, x, y, tap, bias, reinterpret_cast<T*>(staged) + to_at);
    }
    // All threads have written their results and read the stage. The copy of the other result buffer has ended.
    tma::fence_before_copy();
    if (tid == 0) tma::store_wait_read();
    __syncthreads();
    const int bytes = count * (kOutPlane * kSize);
    if constexpr (kShifted) {
      // A bulk copy stores the whole vectors of 16 bytes, plain stores the ends.
      const int before = min(-shift_of(out) & 15, bytes), vector_bytes = (bytes - before) / 16 * 16;
      const int at = tid * kSize < before ? tid * kSize : tid * kSize + vector_bytes;
      if (at < bytes) out[at / kSize] = *reinterpret_cast<const T*>(staged + at);
      if (tid == 0 && vector_bytes) {
        tma::bulk_store(reinterpret_cast<unsigned char*>(out) + before, staged + before, vector_bytes);
        tma::store_commit();
      }
    } else if (tid == 0) {
      tma::bulk_store(out, staged, bytes);
      tma::store_commit();
    }
    if (tid == 0) load(stage);
    next_group = ++n == a.images;
    if (next_group) n = 0, c0 += kGroup;
    result ^= 1;
    if (++stage == a.stages) stage = 0, phase ^= 1;
  }
  if (tid == 0) tma::store_wait_read();
#endif
}

}  // namespace torch_conv::depthwise
