// Direct + Arch -> Plan: which kernel serves the volume, and with which tile. Pure.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/rooms.h"
#include "core/tma.h"
#include "direct3d/channels.h"
#include "direct3d/planes.h"

namespace torch_conv::direct3d {

// MARCH: a block of warps_x * warps_y warps computes a tile of `height` rows and walks along z; the loaders bring the
// planes. A lane owns `pixels` neighbours of `rows` rows.
struct MarchShape {
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
constexpr int march_tap_bytes(int k) { return (k * k * tap_pitch(k) * 4 + 127) / 128 * 128; }

// As one integer, because nvcc 13 does not compile kernels with structs as template arguments.
constexpr int code_of(MarchShape s) {
  return s.pixels | s.rows << 4 | s.warps_x << 8 | s.warps_y << 12 | s.stages << 16 | s.resident << 20 |
         s.loaders << 24;
}
constexpr MarchShape shape_of(int code) {
  return {code & 15, code >> 4 & 15, code >> 8 & 15, code >> 12 & 15, code >> 16 & 15, code >> 20 & 15, code >> 24};
}

// `wide`: tiles of 256 columns, for rows that fill them. `patched`: planes are patched at the edges.
// Measured on one NVIDIA H200, 256^3 / 512^3. 3^3 float32: one block of 12 warps a multiprocessor and tiles of 256 x 12
// 38 / 274 us (87 / 91 % of copy), two blocks of 9 warps and tiles of 128 x 16 40 / 279 us, four of 5 warps 46 / 346
// us; patched planes, reflect: tiles of 256 x 16 42 / 281 us, of 256 x 12 44 / 300 us, and with one loader 76 / 443 us.
// 3^3 float16, taps from the host: 8 x 4 pixels a lane 27 / 166 us (66 / 77 % of copy), reflect 33 / 191 us; three such
// blocks of one loader 27 / 168 us, reflect 39 / 222 us; four of 8 x 2 pixels 28 / 182 us. Taps from the device: 8 x 4
// pixels 31 / 198 us, 4 x 4 30 / 202 us. 5^3: 4 x 4 pixels 104 us, 4 x 2 106 us (256^3). 7^3: 4 x 2 pixels and two
// blocks of 4 computing warps 262-278 us, three blocks (128 registers, spills) 293 us, 4 x 3 pixels 298 us, 8 x 2
// pixels (spills) 298 us.
constexpr MarchShape march_shape(int bytes, int k, bool wide, bool patched) {
  MarchShape s{.pixels = 4, .rows = 4, .warps_x = 1, .warps_y = 4, .stages = 4, .resident = 2, .loaders = 2};
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

inline bool stride_one(const Placement& s) {
  return s.stride_z == 1 && s.stride_y == 1 && s.stride_x == 1 && s.dilation_z == 1 && s.dilation_y == 1 &&
         s.dilation_x == 1;
}

inline bool small_sides(const Direct& p) {
  const int64_t most = 1 << 30;
  return p.in.d < most && p.in.h < most && p.in.w < most && p.out.d < most && p.out.h < most && p.out.w < most;
}

// Cubic 3^3, 5^3, 7^3 windows at stride 1 on planar volumes: what the compiled windows serve. A window hangs over an
// edge by less than its size (a convolution's padding may be larger).
inline bool march_serves(const Direct& p) {
  const Placement& s = p.place;
  auto near = [](int64_t in, int64_t out, int64_t k, int64_t pad) { return pad >= 0 && pad < k && out - pad <= in; };
  return p.kd == p.kh && p.kh == p.kw && (p.kh == 3 || p.kh == 5 || p.kh == 7) && stride_one(s) &&
         near(p.in.d, p.out.d, p.kd, s.pad_z) && near(p.in.h, p.out.h, p.kh, s.pad_y) &&
         near(p.in.w, p.out.w, p.kw, s.pad_x) && p.in.dtype == p.out.dtype && p.in.dtype != Dtype::f64 &&
         p.in.stride_w == 1 && p.out.stride_w == 1 && p.in.c == p.groups && s.border != Border::skip &&
         (s.border != Border::constant || holds(p.in.dtype, s.value)) && small_sides(p);
}

inline bool march_tma_serves(const Direct& p, const Arch& arch) {
  return arch.bulk_copy && march_serves(p) && tma::volume_possible(p.in);
}

// Bulk copies are fast where they start on 128 bytes.
inline int lead_columns(const Direct& p) { return tma::lead_columns(p.kw, p.place.pad_x, 128 / size_of(p.in.dtype)); }

// Output planes of one block. A block reads k - 1 planes more than it writes and pays about `start` planes to fill its
// ring, so long walks are cheap; but the grid should fill whole waves of `slots` blocks.
inline int64_t chunk_of(int64_t depth, int64_t tiles, int64_t slots, int64_t k, int64_t start) {
  int64_t best = depth, best_cost = ceil_div(tiles, slots) * (depth + k - 1 + start);
  for (int64_t waves = 1; waves <= 6; ++waves) {
    const int64_t chunks = std::min(waves * slots / tiles, depth);
    if (chunks < 1) continue;
    const int64_t chunk = ceil_div(depth, chunks);
    const int64_t cost = ceil_div(tiles * ceil_div(depth, chunk), slots) * (chunk + k - 1 + start);
    if (cost < best_cost) best = chunk, best_cost = cost;
  }
  return best;
}

// WINDOW: four warps compute a tile of one or two output planes while the loaders bring the next plane of the input.
struct WindowConfig {
  int pixels, planes;  // of a lane
  int loaders;         // warps that bring the planes
  int resident;        // blocks of a multiprocessor; the cap of the registers follows from it
  constexpr int threads() const { return 32 * (4 + loaders); }
};
constexpr int kWindowWarps = 4;
// `bytes` of an element. Loaders of float32 and float64 only start copies: where enough warps compute, these start
// them. Measured on one NVIDIA H200, 9^3 at 64^3 / 128^3 / 256^3. float32: 16 pixels of 2 planes 48 / 139 / 835 us,
// with one loader and two blocks a multiprocessor 63 / 143 / 1120 us; 8 pixels of 1 plane 24 / 175 / 1345 us, with
// eight loaders and one block 37 / 277 / 2129 us. float16, 128^3 / 256^3: four loaders 116 / 900 us, two 143 / 1116 us.
constexpr WindowConfig window_config(bool large, int bytes) {
  if (!large) return {.pixels = 8, .planes = 1, .loaders = 4, .resident = 2};
  if (bytes == 8) return {.pixels = 8, .planes = 2, .loaders = 0, .resident = 3};
  return {.pixels = 16, .planes = 2, .loaders = bytes == 4 ? 0 : 4, .resident = bytes == 4 ? 3 : 2};
}

struct WindowShape {
  int width, height;                     // of the tile
  int64_t part, pitch, rows, tap_pitch;  // of a part of a row, a row, a plane of the input, and a row of taps
  int64_t bytes;                         // of shared memory
  int64_t blocks, padded;                // of the grid; pixels of a plane of tiles
};

// Elements of one plane of taps: the next four are read before it is known that there are none.
constexpr TC_HD int64_t window_tap_stage(int64_t tap_pitch, int64_t kh) { return tap_pitch * kh + 4; }

inline WindowShape window_shape(const Direct& p, bool large, int width) {
  const bool f64 = p.in.dtype == Dtype::f64;
  const WindowConfig config = window_config(large, size_of(p.in.dtype));
  const int parts = config.pixels / 4, lanes = width / config.pixels;
  WindowShape s{.width = width, .height = kWindowWarps * 32 / lanes};
  // Reads run ahead of the last tap by up to 8 elements, copies fill whole groups of 32. A part's length spreads 32
  // neighbours over all banks; rows that fewer than 8 lanes share are staggered.
  const int64_t fours = ceil_div(std::max(width / 4 + p.kw / 4 + 2, round_up(width + p.kw - 1, 32) / 4), parts);
  s.part = 4 * (parts == 4 ? round_up(fours + 2, 4) - 2 : round_up(fours + 4, 8) - 4);
  s.pitch = parts * s.part + (lanes < 8 ? 4 * lanes : 0);
  s.rows = s.height + p.kh - 1;
  s.tap_pitch = ceil_div(p.kw, 4) * 4;
  s.bytes =
      (2 * s.pitch * s.rows + (config.planes + 1) * window_tap_stage(s.tap_pitch, p.kh)) * (f64 ? 8 : 4) + s.rows * 8;
  const int64_t columns = ceil_div(p.out.w, width), rows = ceil_div(p.out.h, s.height);
  s.padded = columns * width * rows * s.height;
  s.blocks = p.out.n * p.out.c * ceil_div(p.out.d, config.planes) * columns * rows;
  return s;
}

// The width that wastes least.
inline WindowShape window_shape(const Direct& p, bool large) {
  WindowShape best = window_shape(p, large, 128);
  for (const int width : {64, 32}) {
    const WindowShape s = window_shape(p, large, width);
    if (s.padded < best.padded) best = s;
  }
  return best;
}

inline bool window_serves(const Direct& p, const Arch& arch, bool large) {
  return stride_one(p.place) && p.place.border != Border::skip && p.kh <= 512 && p.kw <= 512 && p.kd < (1 << 20) &&
         p.in.w * p.in.stride_w < (int64_t(1) << 29) && window_shape(p, large).bytes <= arch.shared_bytes &&
         small_sides(p);
}

// Whether lanes own neighbours of two planes: where that fills the multiprocessors (9^3 float32 at 96^3, 288 blocks: 79
// us, else 88 us; at 64^3, 64 blocks: 48 and 24 us).
inline bool window_large(const Direct& p, const Arch& arch) {
  if (!window_serves(p, arch, true)) return false;
  const WindowShape large = window_shape(p, true), small = window_shape(p, false);
  return arch.multiprocessors == 0 || !window_serves(p, arch, false) ||
         (large.blocks >= 2 * arch.multiprocessors && 4 * large.padded <= 5 * small.padded);
}

inline Plan plan(const Direct& p, const Arch& arch, const char* pinned) {
  const int bytes = size_of(p.in.dtype);
  const int64_t volumes = p.out.n * p.out.c;
  const double voxels = double(volumes) * double(p.out.d) * double(p.out.h * p.out.w);
  Plan plan{.algorithm = "direct", .variant = nullptr, .why = ""};
  plan.bytes = double(p.in.n * p.in.c * p.in.d) * double(p.in.h * p.in.w) * bytes + voxels * size_of(p.out.dtype);
  plan.flops = 2.0 * double(p.kd * p.kh * p.kw * (p.in.c / p.groups)) * voxels;

  const auto chosen = [&](const char* name) { return *pinned == 0 || std::strcmp(pinned, name) == 0; };
  if (chosen("channels") && channels_serves(p, arch)) {
    plan_channels(p, arch, plan);
    return plan;
  }
  if (chosen("planes") && planes_serves(p, arch) && (*pinned != 0 || planes_suits(p, arch))) {
    plan_planes(p, arch, plan);
    return plan;
  }
  if (march_serves(p) && (chosen("march_tma") || chosen("march"))) {
    const bool bulk = chosen("march_tma") && march_tma_serves(p, arch);
    if (!bulk && !chosen("march")) return plan;
    const int k = int(p.kh);
    const int64_t columns = p.out.w + lead_columns(p);
    const bool wide = k == 3 && bytes > 1 && ceil_div(columns, 256) * 2 == ceil_div(columns, 128);
    const Placement& at = p.place;
    const bool patched = at.border != Border::zero_output && !(at.border == Border::constant && at.value == 0);
    const MarchShape shape = march_shape(bytes, k, wide, patched);
    plan.variant = bulk ? "march_tma" : "march";
    plan.why = bulk ? "cubic window up to 7^3: planes arrive by bulk copies, sums march along z in registers"
                    : "cubic window up to 7^3, plain loads: no bulk copies, or rows not 16-byte aligned";
    const int64_t tiles = volumes * ceil_div(p.out.h, shape.height()) * ceil_div(columns, shape.width());
    plan.tile_w = shape.width();
    plan.tile_h = shape.height();
    plan.tile_d = int(chunk_of(p.out.d, tiles, int64_t(arch.multiprocessors) * shape.resident, k, 3));
    plan.threads = shape.threads();
    plan.shared_bytes = (bulk ? shape.stages : 2) * shape.stage_bytes(bytes, k) + march_tap_bytes(k);
    plan.blocks = tiles * ceil_div(p.out.d, plan.tile_d);
    return plan;
  }
  const bool large = chosen("window") && window_large(p, arch);
  if (large || (chosen("window") && window_serves(p, arch, false))) {
    const WindowShape shape = window_shape(p, large);
    const WindowConfig config = window_config(large, bytes);
    plan.variant = "window";
    plan.why = "stride and dilation 1: plane by plane of tile and taps in shared memory";
    plan.tile_w = shape.width;
    plan.tile_h = shape.height;
    plan.tile_d = config.planes;
    plan.threads = config.threads();
    plan.shared_bytes = int(shape.bytes);
    plan.blocks = shape.blocks;
  } else if (chosen("general")) {
    plan.variant = "general";
    plan.why = "any window, stride, dilation, dtype pair and layout";
    plan.tile_w = 4;
    plan.tile_h = plan.tile_d = 1;
    plan.threads = 256;
    plan.blocks = ceil_div(volumes * p.out.d * p.out.h * ceil_div(p.out.w, 4), plan.threads);
  }
  return plan;
}

}  // namespace torch_conv::direct3d
