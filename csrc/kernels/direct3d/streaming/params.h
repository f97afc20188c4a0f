// STREAMING: the shape of its tiles, the template argument of its kernels, and their parameters.
#pragma once

#include "core/geometry.h"
#include "core/shard_planes.h"
#include "core/streaming.h"
#include "core/taps.h"

namespace torch_conv::direct3d {

// A block of warps_x * warps_y computing warps owns a tile of `height` rows and streams along z. A lane owns `pixels`
// neighbours of `rows` rows.
struct VolumeTile {
  int pixels, rows, warps_x, warps_y;
  int stages;    // planes of the ring
  int resident;  // blocks of a multiprocessor; the cap of the registers follows from it
  int loaders;   // warps that load planes
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

// Rows of taps in shared memory are padded to 4 or 8. Shared memory holds them before the ring.
constexpr int tap_pitch(int k) { return k == 3 ? 4 : 8; }
constexpr int streaming_tap_bytes(int k) { return (k * k * tap_pitch(k) * 4 + 127) / 128 * 128; }

// `wide`: tiles of 256 columns, for rows that fill them; only 3^3 of 16-bit and float32 elements has them. `patched`:
// blocks patch planes at the edges; only 3^3 of float32 has a shape of its own for that. One NVIDIA H200, us, 256^3 /
// 512^3:
//
//     3^3 float32, one block of 12 warps, tiles of 256 x 12    38 / 274 (87 / 91 % of copy)
//       two blocks of 9 warps, tiles of 128 x 16               40 / 279
//       four blocks of 5 warps                                 46 / 346
//       reflect, tiles of 256 x 16                             42 / 281
//       reflect, tiles of 256 x 12; with one loader            44 / 300; 76 / 443
//     3^3 float16, 8 x 4 pixels a lane; reflect                27 / 166 (66 / 77 % of copy); 33 / 191
//       three blocks of one loader; reflect                    27 / 168; 39 / 222
//       four blocks of 8 x 2 pixels                            28 / 182
//       taps from the device, 8 x 4 pixels; 4 x 4              31 / 198; 30 / 202
//     5^3, 4 x 4 pixels; 4 x 2                                 104; 106
//     7^3, 4 x 2 pixels, two blocks of 4 computing warps       262-278
//       three blocks (128 registers, spills)                   293
//       4 x 3 pixels; 8 x 2 (spills)                           298; 298
constexpr VolumeTile volume_tile(int bytes, int k, bool wide, bool patched) {
  VolumeTile s{.pixels = 4, .rows = 4, .warps_x = 1, .warps_y = 4, .stages = 4, .resident = 2, .loaders = 2};
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

// Template argument of STREAMING's kernels.
struct StreamingPolicy {
  int k;               // the window is k^3
  bool wide, patched;  // arguments of volume_tile
  bool bulk;           // bulk copies load planes, else all threads do
  bool constant;       // the taps are kernel parameters (ConstantTaps)
  constexpr VolumeTile shape(int bytes) const { return volume_tile(bytes, k, wide, patched); }
};

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
  int64_t taps_n, taps_c;  // strides of the windows
  const float* bias;
  bool vector_in, vector_out;  // rows are 16-byte aligned and hold whole packs
};

// STREAMING takes these taps in place of ParamTaps where all volumes share one window of 3^3. The compiler moves kernel
// parameters to uniform registers, which leaves 27 vector registers free. A multiply-add then reads two vector
// registers instead of three, and issues faster. Parts of the peak, for 27 taps of 16 to 64 sums a lane on one NVIDIA
// H200: 0.89 to 0.97, else 0.74 to 0.83. With 3^3 float16 256^3 the kernel takes 27 us instead of 32.
struct ConstantTaps {
  float tap[27];
};

}  // namespace torch_conv::direct3d
