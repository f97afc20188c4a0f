// PLANES: the shape of its tiles, and the parameters of its kernels.
#pragma once

#include "core/problem.h"
#include "core/taps.h"

namespace torch_conv::direct3d {

// A thread owns px x ry outputs of one channel's plane. `warps` of them compute: as many as the registers of 2 * px *
// ry sums leave. `clocks` of one plane, for all warps of a block together, choose the tile.
//
// A warp of a `uniform` tile has one channel, so that taps stay in uniform registers: a multiply-add of three vector
// registers runs at 0.64-0.74 of the rate. Planes that are too small for that share warps.
struct PlanesTile {
  int px, ry, warps, clocks;
  constexpr bool uniform() const { return px > 2; }
};
// float16, us, one NVIDIA H200: 8x64x32x56x56 8x7 82, 4x7 103, 8x4 111; 2x32x64x64x64 8x4 35, 4x7 44, 8x7 48;
// 8x256x16x28x28 2x7 54, 4x7 58.
constexpr PlanesTile kPlanesTiles[] = {{8, 7, 8, 5000}, {8, 4, 12, 4800}, {4, 7, 12, 4600}, {2, 7, 16, 3500}};
// Warps that move planes: a warp issues its copies one after the other.
constexpr int kPlanesMovers = 4;
constexpr int kPlanesMostStages = 8, kPlanesLeastStages = 5;
constexpr int kPlanesCell = 128;  // bytes: every stage starts with copies of the border's value

struct PlanesArgs {
  const void* in;
  void* out;
  int64_t volume_in, volume_out;  // elements of one channel
  int d, h, w, d_out;
  int volumes;       // of the output
  int channels_out;  // of a sample
  int multiplier;    // output channels per input channel
  int pad_z;
  int group;           // channels of a block
  int units_x, units;  // threads along x, threads of a plane
  int lanes;           // threads set aside for a plane
  int stages, stage_bytes, slot_bytes, plane_bytes;
  int chunk, total;  // output planes of a block, and of all groups
  Border border;
  float value;
  int64_t taps_n, taps_c;  // strides of the windows
  const float* bias;
};

}  // namespace torch_conv::direct3d
