// PLANES: whole planes of several channels in shared memory; a block streams along z and keeps its sums in registers.
//
//     stage i - 2       stage i - 1       stage i          stages i + 1 ..
//     +-----------+     +-----------+     +-----------+     +-----------+
//     | output    |     | read by   |     | channel 0 |     |           |
//     | plane of  |     | the slow  |     | channel 1 |     | arriving  |          px
//     | step i    |     | warps     |     | ...       |     |           |       +------+
//     +-----------+     +-----------+     +-----------+     +-----------+       |      |
//       v bulk store                                          ^ bulk load       |      |
//                                                                               +------+ ry
//
// The stages are a ring: stage i holds plane z(i) of every channel of the block. A thread owns px columns of ry rows of
// one channel, and two planes of sums. A plane adds to three output planes: it finishes one, continues the next and
// starts a third. Finished sums replace the plane that the block read two steps ago, and leave by a bulk copy. Planes
// that do not start on 16 bytes leave from the registers.
//
// The block has no barrier of all threads. `full`: a plane has arrived. `empty`: all computing warps have completed a
// step. Four more warps wait for `empty` and move planes (move.cuh).
//
// A block computes `chunk` output planes: possibly the end of one group of channels and the start of the next.
// Device memory per voxel: 1 read (two planes more where a volume is cut) and 1 write; 2 * 27 flops. Per row of 8
// columns a thread issues 216 multiply-adds, 10 conversions, 3 loads, 8 additions of the bias, 4 packings, 1 store.
//
// Borders are free. Outside a row or a plane a thread reads another address, which it computes once: a pixel of the
// plane, or the cell of border values at the start of each stage. Sums skip outside planes of zeros. Other outside
// planes arrive as planes (mapped) or are filled in (constant).
#pragma once

#include "core/cuda/round_pair.cuh"
#include "kernels/direct3d/planes/move.cuh"

namespace torch_conv::direct3d {

namespace planes {

// N elements from shared memory as numbers, by words of at most 16 bytes.
template <int N, typename T>
__device__ __forceinline__ void read(float* to, const unsigned char* from) {
  constexpr int M = N * int(sizeof(T)) > 16 ? 16 / int(sizeof(T)) : N;
#pragma unroll
  for (int q = 0; q < N; q += M) {
    const auto pack = load_pack<M>(reinterpret_cast<const T*>(from) + q);
#pragma unroll
    for (int i = 0; i < M; ++i) to[q + i] = to_acc<float>(pack.v[i]);
  }
}

// One row of N sums, rounded, into shared memory.
template <typename T, int N>
__device__ __forceinline__ void write(bool condition, unsigned char* to, const float (&sum)[N], float bias) {
  constexpr int kWords = N * int(sizeof(T)) / 4;
  unsigned w[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if constexpr (sizeof(T) == 4) w[i] = __float_as_uint(sum[i] + bias);
    else w[i] = round_pair<T>(sum[2 * i] + bias, sum[2 * i + 1] + bias);
  }
  if (!condition) return;
  if constexpr (kWords >= 4) {
#pragma unroll
    for (int i = 0; i < kWords; i += 4)
      *reinterpret_cast<uint4*>(to + 4 * i) = make_uint4(w[i], w[i + 1], w[i + 2], w[i + 3]);
  } else if constexpr (kWords == 2) {
    *reinterpret_cast<uint2*>(to) = make_uint2(w[0], w[1]);
  } else {
    *reinterpret_cast<unsigned*>(to) = w[0];
  }
}

// Bytes from a stage's start to a thread's columns of one input row, and to the columns left and right of them.
struct RowOffsets {
  unsigned middle, left, right;
};

}  // namespace planes

template <typename T, int PX, int RY, int kWarps, bool kInPlace>
__global__ void __launch_bounds__(32 * (kWarps + kPlanesMovers), 1)
    direct3d_planes(const __grid_constant__ PlanesArgs a, const __grid_constant__ ParamTaps param_taps) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace planes;
  constexpr int kThreads = 32 * (kWarps + kPlanesMovers);
  constexpr bool kUniform = PlanesTile{PX, RY, kWarps, 0}.uniform();
  extern __shared__ __align__(128) unsigned char planes_stages[];
  __shared__ uint64_t full[kPlanesMostStages], empty[kPlanesMostStages];
  // The block skips planes of zeros outside the volume. Such planes would add tap * 0 to every sum: 0, or NaN where a
  // tap is not finite. `before` and `after` add these products.
  const bool skip_zeros = a.border == Border::constant && a.value == 0 && a.pad_z == 1 && a.d_out == a.d;

  constexpr int kCellElements = kPlanesCell / int(sizeof(T));
  for (int e = threadIdx.x; e < a.stages * kCellElements; e += kThreads)
    reinterpret_cast<T*>(planes_stages + e / kCellElements * a.stage_bytes)[e % kCellElements] = from_acc<T>(a.value);
  if (threadIdx.x < a.stages) {
    tma::barrier_init(&full[threadIdx.x], kPlanesMovers * kWarpArrivals);
    tma::barrier_init(&empty[threadIdx.x], kWarps * kWarpArrivals);
  }
  PlaneRun run;
  run.begin = blockIdx.x * a.chunk;
  run.end = min(run.begin + a.chunk, a.total);
  __syncthreads();

  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);  // makes the value uniform for the compiler
  if (warp >= kWarps) {
    move_planes<T, kInPlace>(a, run, skip_zeros, planes_stages, full, empty, warp - kWarps);
    return;
  }

  // The thread's part of a plane.
  const int slot = min(int(threadIdx.x) / a.lanes, a.group - 1);
  const int unit = min(int(threadIdx.x) - slot * a.lanes, a.units - 1);
  const bool idle = int(threadIdx.x) >= slot * a.lanes + a.units;
  const int y_unit = unit / a.units_x;
  const int x0 = (unit - y_unit * a.units_x) * PX, y0 = min(y_unit * RY, a.h - RY);
  // The last row of threads overlaps the row above, and does not store these outputs. Idle threads store none.
  const int first_row = idle ? RY : y_unit * RY - y0;
  const int pitch = a.w * int(sizeof(T));
  const int x_left = map_index(x0 - 1, a.w, a.border), x_right = map_index(x0 + PX, a.w, a.border);
  auto row_at = [&](int y) {
    const unsigned row = kPlanesCell + slot * a.slot_bytes + y * pitch;
    return y < 0 ? RowOffsets{0, 0, 0}
                 : RowOffsets{row + x0 * unsigned(sizeof(T)), x_left < 0 ? 0 : row + x_left * unsigned(sizeof(T)),
                              x_right < 0 ? 0 : row + x_right * unsigned(sizeof(T))};
  };
  const RowOffsets above = row_at(map_index(y0 - 1, a.h, a.border)), inside = row_at(y0),
                   below = row_at(map_index(y0 + RY, a.h, a.border));
  const int step_left = x_left < 0 ? 0 : pitch, step_right = x_right < 0 ? 0 : pitch;

  // The taps of this thread's channel; a uniform warp spreads them over its lanes.
  constexpr int kTaps = kUniform ? 1 : 27;
  float tap[kTaps] = {}, bias = 0;
  auto tap_of = [&](int i) {
    if constexpr (!kUniform) return tap[i];
    // Volatile keeps the shuffle in the loop: the compiler moves its result to a uniform register.
    float t;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(t) : "f"(tap[0]), "r"(i));
    return t;
  };
  float sum[2][RY][PX];  // of the output plane that this step finishes, and of the next
  unsigned out_stage = (a.stages - 2) * a.stage_bytes, mid_stage = out_stage + a.stage_bytes, stage_at = 0;
  int stage = 0, phase = 0;

  for (; run.begin < run.end; run.begin = run.next) {
    run.start(a.d_out, a.d, a.pad_z, skip_zeros);
    const int volume = min(run.group * a.group + slot, a.volumes - 1);
    const int n = volume / a.channels_out, c = volume - n * a.channels_out;
    const int64_t first_tap = n * a.taps_n + c * a.taps_c + (kUniform ? min(int(threadIdx.x) % 32, 26) : 0);
    param_taps.read(tap, first_tap);
    bias = a.bias ? a.bias[c] : 0.f;
    float before = 0;  // 0, or NaN: the products of a plane of zeros before the volume
#pragma unroll
    for (int i = 0; i < 9; ++i) before = fmaf(tap_of(i), 0.f, before);
#pragma unroll
    for (int o = 0; o < RY; ++o)
#pragma unroll
      for (int p = 0; p < PX; ++p) sum[0][o][p] = sum[1][o][p] = before;

#pragma unroll 1
    for (int z = run.z; z < run.z_end; ++z) {
      const int earlier = stage < 2 ? stage - 2 + a.stages : stage - 2;
      // The plane has arrived. All warps have completed the step before the last, whose stage takes the output.
      wait_both(&full[stage], phase, &empty[earlier], phase ^ (stage >= 2 ? 0 : 1));
      const int z_out = z + a.pad_z - 2;
      const bool finishes = z_out >= run.first;
      unsigned at_in = stage_at;  // of the plane, for offsets into a stage
      // Planes that do not start on 16 bytes are behind their offset from 16. The border's values are then also 16
      // bytes further in their cell.
      if (!kInPlace) at_in += max(map_index(z, a.d, a.border), 0) % 16 * (a.plane_bytes % 16) % 16;
      unsigned char* const base = planes_stages;
      [[maybe_unused]] const unsigned to_out = out_stage - stage_at;
      [[maybe_unused]] unsigned char* out = nullptr;  // this thread's first output
      if (!kInPlace)
        out = reinterpret_cast<unsigned char*>(static_cast<T*>(a.out) + volume * a.volume_out +
                                               int64_t(z_out) * (a.h * a.w) + y0 * a.w + x0);
      const int stored = kInPlace || (finishes && run.group * a.group + slot < a.volumes) ? first_row : RY;
      if (skip_zeros && z >= a.d) {
        float after = 0;
#pragma unroll
        for (int i = 18; i < 27; ++i) after = fmaf(tap_of(i), 0.f, after);
        unsigned char* at = kInPlace ? base + (out_stage + inside.middle) : out;
#pragma unroll
        for (int o = 0; o < RY; ++o) {
          write<T>(o >= stored, at, sum[0][o], bias + after);
          at += pitch;
        }
      } else {
        float t[27];
#pragma unroll
        for (int i = 0; i < 27; ++i) t[i] = tap_of(i);
        RowOffsets row{at_in + above.middle, at_in + above.left, at_in + above.right};
        unsigned middle_before = 0;
        float next_sum[RY][PX];
#pragma unroll
        for (int r = 0; r < RY + 2; ++r) {
          float v[PX + 2];
          read<PX, T>(v + 1, base + row.middle);
          v[0] = to_acc<float>(*reinterpret_cast<const T*>(base + row.left));
          v[PX + 1] = to_acc<float>(*reinterpret_cast<const T*>(base + row.right));
          // The oldest plane first: its registers take the next one's sums.
#pragma unroll
          for (int i = 2; i >= 0; --i) {
            const int o = r - i;  // row of the window over output row o
            if (o < 0 || o >= RY) continue;
#pragma unroll
            for (int l = 2; l >= 0; --l)
#pragma unroll
              for (int p = 0; p < PX; ++p) {
                float s = l == 2 ? sum[0][o][p] : l == 1 ? sum[1][o][p] : i == 0 ? 0.f : next_sum[o][p];
#pragma unroll
                for (int j = 0; j < 3; ++j) s = fmaf(t[l * 9 + i * 3 + j], v[p + j], s);
                if (l == 2) sum[0][o][p] = s;
                else if (l == 1) sum[1][o][p] = s;
                else next_sum[o][p] = s;
              }
            if (i == 2) {
              write<T>(o >= stored, kInPlace ? base + (middle_before + to_out) : out, sum[0][o], bias);
              if (!kInPlace) out += pitch;
            }
          }
          middle_before = row.middle;
          if (r == 0) {
            row = {at_in + inside.middle, at_in + inside.left, at_in + inside.right};
          } else if (r < RY) {
            row.middle += pitch;
            row.left += step_left;
            row.right += step_right;
          } else {
            row = {at_in + below.middle, at_in + below.left, at_in + below.right};
          }
        }
#pragma unroll
        for (int o = 0; o < RY; ++o)
#pragma unroll
          for (int p = 0; p < PX; ++p) sum[0][o][p] = sum[1][o][p], sum[1][o][p] = next_sum[o][p];
      }
      tma::warp_arrive(&empty[stage]);
      out_stage = mid_stage;
      mid_stage = stage_at;
      stage_at += a.stage_bytes;
      if (++stage == a.stages) stage = 0, phase ^= 1, stage_at = 0;
    }
  }
#endif
}

}  // namespace torch_conv::direct3d
