// What the host and the kernels of this kernel family agree on: the shapes of tiles, and the kernels' parameters.
#pragma once

#include "core/geometry.h"
#include "core/problem.h"
#include "core/shard_planes.h"
#include "core/streaming.h"
#include "core/taps.h"

namespace torch_conv::direct3d {

// ---- STREAMING: a block of warps_x * warps_y warps computes a tile of `height` rows and walks along z; the loaders
// bring the planes. A lane owns `pixels` neighbours of `rows` rows.

struct StreamingShape {
  int pixels, rows, warps_x, warps_y, stages;
  int resident;  // blocks of a multiprocessor; the cap of the registers follows from it
  int loaders;   // warps that bring the planes
  constexpr int warps() const { return warps_x * warps_y; }
  constexpr int threads() const { return 32 * (warps() + loaders); }
  constexpr int width() const { return 32 * pixels * warps_x; }
  constexpr int height() const { return rows * warps_y; }
  // Shared memory of one plane: `width` columns of all rows, then 16 bytes left of each row, then 16 right of it.
  constexpr int rows_in(int k) const { return height() + k - 1; }
  constexpr int main_bytes(int bytes, int k) const { return rows_in(k) * width() * bytes; }
  constexpr int side_bytes(int k) const { return (rows_in(k) * 16 + 127) / 128 * 128; }
  constexpr int stage_bytes(int bytes, int k) const { return main_bytes(bytes, k) + 2 * side_bytes(k); }
};

// Rows of taps in shared memory are padded to 4 or 8; they lie before the ring.
constexpr int tap_pitch(int k) { return k == 3 ? 4 : 8; }
constexpr int streaming_tap_bytes(int k) { return (k * k * tap_pitch(k) * 4 + 127) / 128 * 128; }

// `wide`: tiles of 256 columns, for rows that fill them; only 3^3 of 16-bit and float32 elements has them. `patched`:
// planes are patched at the edges; only 3^3 of float32 has a shape of its own for that.
// Measured on one NVIDIA H200, 256^3 / 512^3. 3^3 float32: one block of 12 warps a multiprocessor and tiles of 256 x 12
// 38 / 274 us (87 / 91 % of copy), two blocks of 9 warps and tiles of 128 x 16 40 / 279 us, four of 5 warps 46 / 346
// us; patched planes, reflect: tiles of 256 x 16 42 / 281 us, of 256 x 12 44 / 300 us, and with one loader 76 / 443 us.
// 3^3 float16, taps from the host: 8 x 4 pixels a lane 27 / 166 us (66 / 77 % of copy), reflect 33 / 191 us; three such
// blocks of one loader 27 / 168 us, reflect 39 / 222 us; four of 8 x 2 pixels 28 / 182 us. Taps from the device: 8 x 4
// pixels 31 / 198 us, 4 x 4 30 / 202 us. 5^3: 4 x 4 pixels 104 us, 4 x 2 106 us (256^3). 7^3: 4 x 2 pixels and two
// blocks of 4 computing warps 262-278 us, three blocks (128 registers, spills) 293 us, 4 x 3 pixels 298 us, 8 x 2
// pixels (spills) 298 us.
constexpr StreamingShape streaming_shape(int bytes, int k, bool wide, bool patched) {
  StreamingShape s{.pixels = 4, .rows = 4, .warps_x = 1, .warps_y = 4, .stages = 4, .resident = 2, .loaders = 2};
  if (k == 7) s.rows = 2;
  if (bytes == 1) s.pixels = 8, s.rows = k == 3 ? 2 : 1;
  if (k > 3 || bytes == 1) return s;
  if (bytes == 2) {
    s.pixels = wide ? 8 : 4;
  } else {
    s.rows = patched ? 4 : 3, s.warps_x = wide ? 2 : 1, s.warps_y = wide ? 4 : 8, s.resident = 1, s.loaders = 4;
  }
  return s;
}

constexpr int kMostStages = 8;

// Offsets inside a row fit into 32 bits; rows, planes and volumes are addressed with 64.
struct VolumeArgs {
  VolumeGeometry volumes;
  StreamingGrid grid;  // over output channels
  int chunk;           // output planes of a chunk
  int stages;
  int lead;                       // the grid of tiles starts this many columns left of the output
  int multiplier;                 // output channels per input channel
  int shift_z, shift_y, shift_x;  // input position of the window's middle tap, less the output position
  Border border;
  float value;
  int64_t taps_n, taps_c;  // strides of the window
  const float* bias;
  bool vector_in, vector_out;  // rows are 16-byte aligned and hold whole packs
};

// What STREAMING takes in place of ParamTaps where all volumes share one window of 3^3: its taps are kernel parameters
// by themselves. The compiler brings them into uniform registers: 27 vector registers are free, and multiply-adds that
// read a uniform register issue faster than those of three vector registers (a loop of 27 taps for 16 to 64 sums a lane
// on one NVIDIA H200: 0.89 to 0.97 of the peak against 0.74 to 0.83). 3^3 float16 256^3: 27 us instead of 32.
struct ConstantTaps {
  float tap[27];
};

// ---- PLANES: depthwise 3x3x3 windows over volumes whose planes are small; whole planes in shared memory

// A thread owns px x ry outputs of one channel's plane; `warps` of them compute, as many as the registers of
// 2 * px * ry sums leave. A warp of a `uniform` tile holds one channel, so that taps stand in uniform registers: a
// multiply-add that reads three vector registers runs at 0.64-0.74 of the rate. Planes too small for that share warps.
// `clocks` is what one plane takes a block, all its warps together; it chooses the tile. Measured on one NVIDIA H200,
// as is what it chose between, float16: 8x64x32x56x56 8x7 82 us, 4x7 103, 8x4 111; 2x32x64x64x64 8x4 35, 4x7 44, 8x7
// 48; 8x256x16x28x28 2x7 54, 4x7 58.
struct PlanesTile {
  int px, ry, warps, clocks;
  constexpr bool uniform() const { return px > 2; }
};
constexpr PlanesTile kPlanesTiles[] = {{8, 7, 8, 5000}, {8, 4, 12, 4800}, {4, 7, 12, 4600}, {2, 7, 16, 3500}};
// Warps that move planes: a warp issues its copies one after the other.
constexpr int kPlanesMovers = 4;
constexpr int kPlanesMostStages = 8, kPlanesLeastStages = 5;
constexpr int kPlanesCell = 128;  // every stage starts with copies of the border's value

struct PlanesArgs {
  const void* in;
  void* out;
  int64_t volume_in, volume_out;  // elements of one channel
  int d, h, w, d_out;
  int volumes, channels_out, multiplier;  // output volumes; output channels of a sample; of them per input channel
  int pad_z;
  int group, units_x, units, lanes;  // channels of a block; threads along x, of a plane, set aside for a plane
  int stages, stage_bytes, slot_bytes, plane_bytes;
  int chunk, total;  // output planes of a block, and of all groups
  Border border;
  float value;
  int64_t taps_n, taps_c;  // strides of the window
  const float* bias;
};

// ---- CHANNELS: depthwise 3x3x3 windows over volumes whose channels are innermost (channels_last_3d)

// A block holds 64 bytes of channels, 4 bytes a lane, and 8 x 8 voxels of a plane: 2 runs of 4 columns by 4 pairs of
// rows, with 16 lanes each.
constexpr int kChannelsLanes = 16, kChannelsWidth = 8, kChannelsHeight = 8, kChannelsThreads = 128;
constexpr int kChannelsColumns = kChannelsWidth + 2, kChannelsRows = kChannelsHeight + 2;  // with the halo
// A voxel is 64 bytes; 32 bytes behind each row let a warp's two pairs of rows lie in different banks.
constexpr int kChannelsPitch = kChannelsColumns * 64 + 32, kChannelsStage = kChannelsRows * kChannelsPitch;
constexpr int kChannelsStages = 4;
// 54 taps and 40 sums of a lane of 16-bit channels need 168 registers, a lane of one float32 channel half of that.
constexpr int channels_resident(int bytes) { return bytes == 4 ? 5 : 3; }

struct ChannelsArgs {
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

// ---- WINDOW: four warps compute a tile of one or two output planes while the loaders bring the next plane of the
// input

struct WindowTile {
  int pixels, planes;  // of a lane
  int loaders;         // warps that bring the planes
  int resident;        // blocks of a multiprocessor; the cap of the registers follows from it
  constexpr int threads() const { return 32 * (4 + loaders); }
};
constexpr int kWindowWarps = 4;
// `large`: lanes own neighbours of two planes. `bytes` of an element. Loaders of float32 and float64 only start copies:
// with `large` the computing warps start them instead, and there are no loaders. Measured on one NVIDIA H200, 9^3 at
// 64^3 / 128^3 / 256^3. float32: 16 pixels of 2 planes 48 / 139 / 835 us, with one loader and two blocks a
// multiprocessor 63 / 143 / 1120 us; 8 pixels of 1 plane 24 / 175 / 1345 us, with eight loaders and one block 37 / 277
// / 2129 us. float16, 128^3 / 256^3: four loaders 116 / 900 us, two 143 / 1116 us.
constexpr WindowTile window_tile(bool large, int bytes) {
  if (!large) return {.pixels = 8, .planes = 1, .loaders = 4, .resident = 2};
  if (bytes == 8) return {.pixels = 8, .planes = 2, .loaders = 0, .resident = 3};
  return {.pixels = 16, .planes = 2, .loaders = bytes == 4 ? 0 : 4, .resident = bytes == 4 ? 3 : 2};
}

// Elements of one plane of taps: the next four are read before it is known that there are none.
constexpr TC_HD int64_t window_tap_stage(int64_t tap_pitch, int64_t kh) { return tap_pitch * kh + 4; }

struct WindowArgs {
  Direct p;
  int part, pitch, rows, tap_pitch;  // of a part of a row, a row, a plane, and a row of taps, in elements
  int tiles_x, tiles_y;
  int width_log2;  // of the tile
  int in_per_group, out_per_group;
};

}  // namespace torch_conv::direct3d
