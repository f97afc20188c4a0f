// PLANES: small planes that lie one after the other in memory, whole, several a block.
//
// clang-format off
//    stage 0        stage 1      ..    results           A stage holds `group` planes of one image as they lie in
//   +---------+    +---------+        +---------+        memory, brought by one bulk copy while earlier stages are
//   | plane c |    | plane c |        | plane c |        computed; results leave by one bulk copy. The next stage
//   | of n    |    | of n + 1|        | of n - 1|        holds the next image, so taps stay in registers.
//   |  c + 1  |    |  c + 1  |        |  c + 1  |
//   |   ...   |    |   ...   |        |   ...   |             +----px----+   a thread: px columns of ry rows of one
//   +---------+    +---------+        +---------+             |          |   plane; it reads a row of its inputs once,
//       ^ bulk load                       v bulk store        +----------+ry for all window rows over it
// clang-format on
//
// Nothing stands around the planes: rows outside are read from a row of zeros, columns outside are replaced by zeros.
// A block does a run of jobs, image after image of `group` channels, and the group after that where it ends. Planes
// that do not start on 16 bytes (kShifted) come with what stands before them in the first word of 16, and leave by a
// bulk copy of the words they fill and by plain stores of their ends.
//
// Device memory per output: one read, one write; 2 kh kw flops.
#pragma once

#include "core/activation.h"
#include "core/cuda/tma.cuh"
#include "kernels/depthwise/planes/params.h"

namespace torch_conv::depthwise {

namespace planes {

constexpr int gcd(int a, int b) { return b ? gcd(b, a % b) : a; }
constexpr int floor_div(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// The M elements of a word that start on it, zeros if it is outside.
template <int M, typename T>
__device__ __forceinline__ void read_word(const T* from, bool inside, T* to) {
  using Word = typename VectorOf<M * sizeof(T)>::type;
  Word word{};
  if (inside) word = *reinterpret_cast<const Word*>(from);
  memcpy(to, &word, sizeof(word));
}

// Columns [x - S.pad_x, x - S.pad_x + N) of a row as numbers; `from` is where column x would be, x the strip's start.
template <PlanesShape S, typename T, int N>
__device__ __forceinline__ void read_row(const T* from, int x, float (&to)[N]) {
  constexpr int size = sizeof(T);
  constexpr int E = gcd(gcd(16, S.w * size), S.px * S.stride_x * size) / size;  // elements of a word
  constexpr int first = floor_div(-S.pad_x, E), last = floor_div(N - 1 - S.pad_x, E);
  constexpr int most_x = (S.strips() - 1) * S.px * S.stride_x;
#pragma unroll
  for (int q = first; q <= last; ++q) {
    const int at = q * E;  // column of the word, seen from x
    const int low = -S.pad_x - at > 0 ? -S.pad_x - at : 0, high = N - S.pad_x - at < E ? N - S.pad_x - at : E;
    const bool sure = at >= 0 && most_x + at < S.w, never = most_x + at < 0 || at >= S.w;
    const bool inside = sure || (!never && unsigned(x + at) < unsigned(S.w));
    T v[E];
    if (E >= 4 && low >= E / 2) {
      if (E >= 8 && low >= E / 4 * 3) read_word<(E >= 8 ? E / 4 : E)>(from + at + E / 4 * 3, inside, v + E / 4 * 3);
      else read_word<(E >= 2 ? E / 2 : E)>(from + at + E / 2, inside, v + E / 2);
    } else if (E >= 4 && high <= E / 2) {
      if (E >= 8 && high <= E / 4) read_word<(E >= 8 ? E / 4 : E)>(from + at, inside, v);
      else read_word<(E >= 2 ? E / 2 : E)>(from + at, inside, v);
    } else {
      read_word<E>(from + at, inside, v);
    }
#pragma unroll
    for (int e = 0; e < E; ++e)
      if (e >= low && e < high) to[at + e + S.pad_x] = never ? 0.f : to_acc<float>(v[e]);
  }
}

}  // namespace planes

template <typename T, typename W, int H, int WIDTH, int OH, int OW, int KH, int KW, int SY, int SX, int DY, int DX,
          int PY, int PADX, int PX, int RY, int kGroup, int kMultiplier, bool kShifted, int kBlocks, Activation kind>
__global__ void __launch_bounds__(
    PlanesShape{H, WIDTH, OH, OW, KH, KW, SY, SX, DY, DX, PY, PADX, PX, RY, kGroup, kMultiplier, kShifted}.threads(),
    kBlocks) depthwise_planes(const __grid_constant__ PlanesArgs a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace planes;
  constexpr PlanesShape S{H, WIDTH, OH, OW, KH, KW, SY, SX, DY, DX, PY, PADX, PX, RY, kGroup, kMultiplier, kShifted};
  constexpr int N = S.columns(), kSize = sizeof(T), kUnits = S.strips() * S.bands(), kThreads = S.threads();
  extern __shared__ __align__(128) unsigned char planes_shared[];
  __shared__ uint64_t full[8];
  unsigned char* const stages = planes_shared + S.zeros(kSize);
  unsigned char* const results = stages + a.stages * S.stage(kSize);

  const int tid = threadIdx.x;
  for (int e = tid; e < S.zeros(kSize) / 16; e += kThreads) reinterpret_cast<uint4*>(planes_shared)[e] = uint4{};
  if (tid < a.stages) tma::barrier_init(&full[tid]);
  __syncthreads();

  // The block's jobs, image after image of a group of channels.
  const unsigned begin = blockIdx.x * a.each + min(blockIdx.x, a.more);
  const unsigned end = begin + a.each + (blockIdx.x < a.more);
  unsigned job = begin / a.images, n = begin - job * a.images;
  int c0 = int(job) * kGroup;
  unsigned coming = begin, coming_n = n;  // the next one to bring
  int coming_c = c0;
  const auto image_at = [&](unsigned n, int c) {
    return static_cast<const T*>(a.in) + n * a.in_n + int64_t(c) * (H * WIDTH);
  };
  // Bulk copies take whole vectors of 16 bytes: what stands before the first plane comes along.
  const auto shift_of = [](const T* at) { return kShifted ? int(reinterpret_cast<uintptr_t>(at) % 16) : 0; };
  const auto bring = [&](int stage) {
    if (coming < end) {
      const int first = coming_c / kMultiplier;
      const int last = (min(coming_c + kGroup, a.channels) - 1) / kMultiplier;
      const T* const from = image_at(coming_n, first);
      const int shift = shift_of(from);
      int bytes = (last - first + 1) * (H * WIDTH * kSize);
      if (kShifted) bytes = (shift + bytes + 15) / 16 * 16;
      tma::barrier_expect(&full[stage], bytes);
      tma::bulk_load(stages + stage * S.stage(kSize), reinterpret_cast<const unsigned char*>(from) - shift, bytes,
                     &full[stage]);
      ++coming;
      if (++coming_n == a.images) coming_n = 0, coming_c += kGroup;
    }
  };
  if (tid == 0)
    for (int s = 0; s < a.stages; ++s) bring(s);

  const int g = tid / kUnits, unit = tid % kUnits;
  const int band = unit / S.strips(), x = unit % S.strips() * PX, y = band * RY;
  const int from_at = (y * SY - PY) * WIDTH + x * SX, to_at = (g * OH + y) * OW + x;
  const T* const zeros = reinterpret_cast<const T*>(planes_shared + S.zeros_lead(kSize));
  float tap[KH * KW] = {}, bias = 0;
  int stage = 0, phase = 0, result = 0;
  bool fresh = true;
  for (unsigned i = begin; i < end; ++i) {
    const int count = min(kGroup, a.channels - c0);
    T* const out = static_cast<T*>(a.out) + n * a.out_n + int64_t(c0) * (OH * OW);
    unsigned char* const leaving = results + result * S.result(kSize) + shift_of(out);
    const bool works = g < count;
    if (fresh && works) {
      const W* const weight = static_cast<const W*>(a.weight) + int64_t(c0 + g) * (KH * KW);
#pragma unroll
      for (int t = 0; t < KH * KW; ++t) tap[t] = to_acc<float>(weight[t]);
      bias = a.bias ? to_acc<float>(static_cast<const W*>(a.bias)[c0 + g]) : 0.f;
    }
    tma::barrier_wait(&full[stage], phase);
    if (works) {
      const int plane = kMultiplier == 1 ? g : (c0 + g) / kMultiplier - c0 / kMultiplier;
      const T* const from =
          reinterpret_cast<const T*>(stages + stage * S.stage(kSize) + shift_of(image_at(n, c0 / kMultiplier))) +
          plane * (H * WIDTH) + from_at;
      T* const to = reinterpret_cast<T*>(leaving) + to_at;
      float sum[RY][PX] = {};
#pragma unroll
      for (int r = 0; r < S.rows(); ++r) {
        float v[N];
        const bool sure = r >= PY && (S.bands() - 1) * RY * SY + r - PY < H;
        const bool inside = sure || unsigned(y * SY + r - PY) < unsigned(H);
        read_row<S>(inside ? from + r * WIDTH : zeros, x * SX, v);
#pragma unroll
        for (int o = 0; o < RY; ++o) {
          const int down = r - o * SY, w = down / DY;
          if (down >= 0 && down % DY == 0 && w < KH) {
#pragma unroll
            for (int j = 0; j < KW; ++j)
#pragma unroll
              for (int p = 0; p < PX; ++p) sum[o][p] = fmaf(tap[w * KW + j], v[p * SX + j * DX], sum[o][p]);
            if (w == KH - 1 && (OH % RY == 0 || y + o < OH)) {
              constexpr int E = gcd(gcd(16, OW * kSize), PX * kSize) / kSize;
              using Word = typename VectorOf<E * kSize>::type;
#pragma unroll
              for (int p = 0; p < PX; p += E) {
                T rounded[E];
#pragma unroll
                for (int e = 0; e < E; ++e) rounded[e] = from_acc<T>(activated<kind>(sum[o][p + e] + bias));
                Word word;
                memcpy(&word, rounded, sizeof(word));
                if ((S.strips() - 1) * PX + p < OW || x + p < OW) *reinterpret_cast<Word*>(to + o * OW + p) = word;
              }
            }
          }
        }
      }
    }
    // Results are written and the stage is read by all; the buffer of the job before has left.
    tma::fence_before_copy();
    if (tid == 0) tma::store_wait_read();
    __syncthreads();
    const int bytes = count * (OH * OW * kSize);
    if constexpr (kShifted) {
      // Whole vectors of 16 bytes leave by a bulk copy, what stands before and behind them by plain stores.
      const int before = min(-shift_of(out) & 15, bytes), whole = (bytes - before) / 16 * 16;
      const int at = tid * kSize < before ? tid * kSize : tid * kSize + whole;
      if (at < bytes) out[at / kSize] = *reinterpret_cast<const T*>(leaving + at);
      if (tid == 0 && whole) {
        tma::bulk_store(reinterpret_cast<unsigned char*>(out) + before, leaving + before, whole);
        tma::store_commit();
      }
    } else {
      if (tid == 0) {
        tma::bulk_store(out, leaving, bytes);
        tma::store_commit();
      }
    }
    if (tid == 0) bring(stage);
    fresh = ++n == a.images;
    if (fresh) n = 0, c0 += kGroup;
    result ^= 1;
    if (++stage == a.stages) stage = 0, phase ^= 1;
  }
  if (tid == 0) tma::store_wait_read();
#endif
}

}  // namespace torch_conv::depthwise
