// CHANNELS: the shape of its tiles, and the parameters of its kernel.
#pragma once

#include "core/problem.h"
#include "core/taps.h"

namespace torch_conv::direct3d {

// A block computes 64 bytes of channels, 4 bytes a lane, of 8 x 8 voxels of a plane. A part of 16 lanes computes 4
// columns of a pair of rows. The block has 2 x 4 parts.
constexpr int kChannelsLanes = 16, kChannelsWidth = 8, kChannelsHeight = 8, kChannelsThreads = 128;
constexpr int kChannelsColumns = kChannelsWidth + 2, kChannelsRows = kChannelsHeight + 2;  // with the halo
// A voxel is 64 bytes. 32 bytes behind each row put the two pairs of rows of a warp into different banks.
constexpr int kChannelsPitch = kChannelsColumns * 64 + 32, kChannelsStage = kChannelsRows * kChannelsPitch;
constexpr int kChannelsStages = 4;
// A lane of 16-bit channels needs 168 registers for 54 taps and 40 sums. A lane of one float32 channel needs half.
constexpr int channels_resident(int bytes) { return bytes == 4 ? 5 : 3; }

struct VoxelChannelsArgs {
  const void* in;
  void* out;
  int64_t in_n, in_d, out_n, out_d;   // strides in elements
  unsigned in_h, in_w, out_h, out_w;  // strides in bytes: a plane stays below 2^31
  int d, h, w, d_out, h_out, w_out, c;
  int tiles_x, tiles_y, tiles_c, chunks, chunk;
  int pad_z, pad_y, pad_x;
  Border border;
  float value;
  int64_t taps_n, taps_c;
  const float* bias;
};

}  // namespace torch_conv::direct3d
