// CHANNELS: a block computes 64 bytes of channels of 8 x 8 voxels and streams along z.
//
//      <------- 10 voxels ------>
//    +----------------------------+
//    | halo                       |
//    |   +---------+---------+    |
//    |   | 4 x 2   |         |    |
//    |   +---------+---------+    |
//    |   |         |         |    |
//    |   +---------+---------+    |
//    |   |  ...    |         |    |
//    +----------------------------+
//
// A stage of shared memory holds one plane of the tile and its halo, 64 bytes of channels a voxel. Copies by
// cp.async fill the four stages two planes ahead. Stages keep the border's value where a constant border is outside;
// other borders read the voxel that the border map names.
//
// A thread owns one 4-byte word of channels (two of 16 bits, one of 32) of 4 x 2 voxels. The thread reads 24 words of a
// plane for 27 multiply-adds for each of 8 outputs and each channel. A plane finishes one plane of sums, continues the
// next and starts a third. 16 lanes are the channels: loads and stores are whole pieces of 64 bytes.
//
// Device memory per voxel and channel: 1 read (1.56 from L2 for the halo) and 1 write; 2 * 27 flops.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "core/cuda/round_pair.cuh"
#include "kernels/direct3d/channels/params.h"

namespace torch_conv::direct3d {

// The pieces of 16 bytes that a thread loads of each plane. Pieces outside every plane hold the border's value in all
// stages.
template <typename T>
struct ChannelPieces {
  static constexpr int kPieces = kChannelsRows * kChannelsColumns * 4;
  static constexpr int kPerThread = (kPieces + kChannelsThreads - 1) / kChannelsThreads;

  const VoxelChannelsArgs& a;
  unsigned char* const stages;
  uint4 values;                          // a piece of the border's values
  int from[kPerThread], to[kPerThread];  // in bytes, in a plane and in a stage; -1: none

  // The block's outputs begin at (x0, y0), and at byte `first_byte` of a pixel.
  __device__ __forceinline__ void locate(int x0, int y0, int first_byte) {
    T same[16 / sizeof(T)];
#pragma unroll
    for (int i = 0; i < int(16 / sizeof(T)); ++i) same[i] = from_acc<T>(a.value);
    memcpy(&values, same, 16);
#pragma unroll
    for (int q = 0; q < kPerThread; ++q) {
      const int piece = int(threadIdx.x) + q * kChannelsThreads;
      from[q] = to[q] = -1;
      if (piece >= kPieces) continue;
      const int voxel = piece / 4, part = piece % 4, row = voxel / kChannelsColumns, column = voxel % kChannelsColumns;
      const int y = map_index(y0 - a.pad_y + row, a.h, a.border), x = map_index(x0 - a.pad_x + column, a.w, a.border);
      const int byte = first_byte + part * 16;
      to[q] = row * kChannelsPitch + column * 64 + part * 16;
      const bool inside = y >= 0 && x >= 0 && byte < a.c * int(sizeof(T));
      if (inside) from[q] = int(y * a.in_h + x * a.in_w + byte);
      else
#pragma unroll
        for (int s = 0; s < kChannelsStages; ++s)
          *reinterpret_cast<uint4*>(stages + s * kChannelsStage + to[q]) = values;
    }
  }

  // Starts the copies of plane z of sample n.
  __device__ __forceinline__ void load(int n, int z, int stage) const {
    unsigned char* const into = stages + stage * kChannelsStage;
    const int source = map_index(z, a.d, a.border);
    if (source >= 0) {
      const unsigned char* plane =
          reinterpret_cast<const unsigned char*>(static_cast<const T*>(a.in) + n * a.in_n + source * a.in_d);
#pragma unroll
      for (int q = 0; q < kPerThread; ++q)
        if (from[q] >= 0) async_copy<16>(into + to[q], plane + from[q]);
    } else {
#pragma unroll
      for (int q = 0; q < kPerThread; ++q)
        if (to[q] >= 0) *reinterpret_cast<uint4*>(into + to[q]) = values;
    }
  }
};

template <typename T>
__global__ void __launch_bounds__(kChannelsThreads, channels_resident(sizeof(T)))
    direct3d_channels(const __grid_constant__ VoxelChannelsArgs a, const __grid_constant__ ParamTaps param_taps) {
  constexpr int V = 4 / int(sizeof(T)), PX = 4, RY = 2;
  extern __shared__ __align__(128) unsigned char channels_stages[];

  unsigned block = blockIdx.x;
  const int tx = block % a.tiles_x;
  block /= a.tiles_x;
  const int ty = block % a.tiles_y;
  block /= a.tiles_y;
  const int tc = block % a.tiles_c;
  block /= a.tiles_c;
  const int first = int(block % a.chunks) * a.chunk, n = block / a.chunks;
  const int planes = min(a.chunk, a.d_out - first);
  const int x0 = tx * kChannelsWidth, y0 = ty * kChannelsHeight;

  ChannelPieces<T> pieces{.a = a, .stages = channels_stages};
  pieces.locate(x0, y0, tc * 64);
  const int z_first = first - a.pad_z, z_end = z_first + planes + 2;
  const auto load = [&](int z, int stage) {
    if (z < z_end) pieces.load(n, z, stage);
    async_commit();
  };
#pragma unroll
  for (int s = 0; s < kChannelsStages - 1; ++s) load(z_first + s, s);

  const int lane = threadIdx.x % kChannelsLanes, part = threadIdx.x / kChannelsLanes;
  const int run = part / 4, pair = part % 4;  // a warp holds two pairs of rows of one run
  const int channel = tc * (64 / int(sizeof(T))) + lane * V;
  float tap[V][27], bias[V];
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const int c = min(channel + k, a.c - 1);
    param_taps.read(tap[k], n * a.taps_n + c * a.taps_c);
    bias[k] = a.bias ? a.bias[c] : 0.f;
  }
  const int x = x0 + run * PX, y = y0 + pair * RY;
  const int columns = channel < a.c ? a.w_out - x : 0;  // that are stored
  unsigned char* row_out[RY];
#pragma unroll
  for (int o = 0; o < RY; ++o)
    row_out[o] = reinterpret_cast<unsigned char*>(static_cast<T*>(a.out) + n * a.out_n + first * a.out_d) +
                 int64_t(y + o) * a.out_h + x * a.out_w + channel * int(sizeof(T));
  const int rows = a.h_out - y;
  const unsigned char* const first_word = channels_stages + pair * RY * kChannelsPitch + run * PX * 64 + lane * 4;

  float sum[2][RY][PX][V] = {};
  int stage = 0;
#pragma unroll 1
  for (int z = z_first; z < z_end; ++z) {
    async_wait<kChannelsStages - 2>();
    __syncthreads();
    load(z + kChannelsStages - 1, stage == 0 ? kChannelsStages - 1 : stage - 1);
    const unsigned char* const from_stage = first_word + stage * kChannelsStage;
    const bool finishes = z - z_first >= 2;
    float next_sum[RY][PX][V];
#pragma unroll
    for (int r = 0; r < RY + 2; ++r) {
      float v[PX + 2][V];
#pragma unroll
      for (int i = 0; i < PX + 2; ++i) {
        const auto pack = load_pack<V>(reinterpret_cast<const T*>(from_stage + r * kChannelsPitch + i * 64));
#pragma unroll
        for (int k = 0; k < V; ++k) v[i][k] = to_acc<float>(pack.v[k]);
      }
#pragma unroll
      for (int i = 2; i >= 0; --i) {
        const int o = r - i;  // row of the window over output row o
        if (o < 0 || o >= RY) continue;
#pragma unroll
        for (int l = 2; l >= 0; --l)
#pragma unroll
          for (int p = 0; p < PX; ++p)
#pragma unroll
            for (int k = 0; k < V; ++k) {
              float s = l == 2 ? sum[0][o][p][k] : l == 1 ? sum[1][o][p][k] : i == 0 ? 0.f : next_sum[o][p][k];
#pragma unroll
              for (int j = 0; j < 3; ++j) s = fmaf(tap[k][l * 9 + i * 3 + j], v[p + j][k], s);
              if (l == 2) sum[0][o][p][k] = s;
              else if (l == 1) sum[1][o][p][k] = s;
              else next_sum[o][p][k] = s;
            }
        if (i == 2) {
          unsigned char* at = row_out[o];
          const int most = finishes && o < rows ? columns : 0;
#pragma unroll
          for (int p = 0; p < PX; ++p) {
            unsigned word;
            if constexpr (V == 1) word = __float_as_uint(sum[0][o][p][0] + bias[0]);
            else word = round_pair<T>(sum[0][o][p][0] + bias[0], sum[0][o][p][1] + bias[V - 1]);
            if (p < most) *reinterpret_cast<unsigned*>(at) = word;
            at += a.out_w;
          }
          if (finishes) row_out[o] += a.out_d * int(sizeof(T));
        }
      }
    }
#pragma unroll
    for (int o = 0; o < RY; ++o)
#pragma unroll
      for (int p = 0; p < PX; ++p)
#pragma unroll
        for (int k = 0; k < V; ++k) sum[0][o][p][k] = sum[1][o][p][k], sum[1][o][p][k] = next_sum[o][p][k];
    stage = stage == kChannelsStages - 1 ? 0 : stage + 1;
  }
}

}  // namespace torch_conv::direct3d
