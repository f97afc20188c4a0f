// PLANES: depthwise 3x3x3 windows over volumes whose planes are small; whole planes in shared memory. Numbers only.
#pragma once

#include <algorithm>

#include "core/rooms.h"

namespace torch_conv::direct3d {

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

// Dynamic shared memory of a block: what a multiprocessor of compute capability 9.0 has, less 1 KiB that the system
// takes and the kernel's own barriers.
constexpr int kPlanesShared = 233472 - 1024 - 512;

struct PlanesShape {
  PlanesTile tile;
  int channels;        // of a block
  int units_x, units;  // threads along x, threads of a plane
  int lanes;           // threads set aside for a plane: whole warps, or `units`
  bool in_place;       // planes start on 16 bytes: outputs leave shared memory by bulk copies, else from the registers
  int slot_bytes, stage_bytes, stages;
};

// How a problem would run with one tile; channels == 0: not at all.
inline PlanesShape planes_shape_of(const Direct& p, PlanesTile tile) {
  PlanesShape s{.tile = tile, .channels = 0};
  const int64_t size = size_of(p.in.dtype), plane = p.in.h * p.in.w * size;
  if (p.in.w % tile.px != 0 || p.in.h < tile.ry) return s;
  const int64_t units = (p.in.w / tile.px) * ceil_div(p.in.h, tile.ry);
  const int64_t threads = 32 * tile.warps;
  if (units > threads) return s;
  s.units_x = int(p.in.w / tile.px);
  s.units = int(units);
  s.lanes = int(tile.uniform() ? round_up(units, 32) : units);
  s.in_place = plane % 16 == 0;
  s.slot_bytes = int(round_up(plane, 16) + (plane % 16 ? 16 : 0));
  const int64_t fits = (kPlanesShared / kPlanesLeastStages / 128 * 128 - kPlanesCell) / s.slot_bytes;
  s.channels = int(std::min<int64_t>({threads / s.lanes, fits, p.out.n * p.out.c}));
  s.stage_bytes = int(round_up(kPlanesCell + int64_t(s.channels) * s.slot_bytes, 128));
  s.stages = int(std::min<int64_t>(kPlanesMostStages, kPlanesShared / s.stage_bytes));
  return s;
}

// A block takes `planes` output planes of its channels, or the end of one volume and the start of the next: two more
// planes are read wherever a volume is cut, one to start the ring. `cost` counts planes that a multiprocessor computes.
struct PlanesChunk {
  int64_t planes, cost;
};
inline PlanesChunk planes_chunk(int64_t groups, int64_t depth, int64_t multiprocessors) {
  const int64_t total = groups * depth;
  PlanesChunk best{.planes = 0, .cost = 0};
  auto consider = [&](int64_t chunk) {
    const int64_t cost = ceil_div(ceil_div(total, chunk), multiprocessors) * (chunk + (chunk % depth == 0 ? 1 : 3));
    if (best.planes == 0 || cost < best.cost) best = {chunk, cost};
  };
  consider(depth);
  for (int64_t waves = 1; waves <= 3; ++waves) consider(ceil_div(total, waves * multiprocessors));
  return best;
}

struct PlanesChoice {
  PlanesShape shape;
  int chunk;
  double clocks;  // predicted
};
// The tile with the least predicted time.
inline PlanesChoice planes_choice(const Direct& p, int multiprocessors) {
  PlanesChoice best{.shape = {.channels = 0}, .chunk = 0, .clocks = 0};
  for (const PlanesTile t : kPlanesTiles) {
    const PlanesShape s = planes_shape_of(p, t);
    // Planes that do not start on 16 bytes are read by narrow packs only.
    if (s.channels == 0 || (!s.in_place && t.px > 2)) continue;
    const PlanesChunk chunk = planes_chunk(ceil_div(p.out.n * p.out.c, s.channels), p.out.d, multiprocessors);
    const double clocks = double(chunk.cost) * t.clocks;
    if (best.shape.channels == 0 || clocks < best.clocks) best = {s, int(chunk.planes), clocks};
  }
  return best;
}

// Planar volumes, dense from the plane to the batch.
inline bool planes_dense(const Image& x) {
  return x.stride_w == 1 && x.stride_h == x.w && (x.d == 1 || x.stride_d == x.w * x.h) &&
         (x.c == 1 || x.stride_c == x.w * x.h * x.d) && (x.n == 1 || x.stride_n == x.w * x.h * x.d * x.c) &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

inline bool planes_serves(const Direct& p, const Arch& arch) {
  const Placement& s = p.place;
  if (!arch.bulk_copy || arch.shared_bytes < 232448) return false;
  if (p.kd != 3 || p.kh != 3 || p.kw != 3 || p.in.c != p.groups || p.in.dtype != p.out.dtype) return false;
  if (p.in.dtype != Dtype::f32 && p.in.dtype != Dtype::f16 && p.in.dtype != Dtype::bf16) return false;
  if (s.stride_z != 1 || s.stride_y != 1 || s.stride_x != 1 || s.dilation_z != 1 || s.dilation_y != 1 ||
      s.dilation_x != 1)
    return false;
  if (s.pad_z < 0 || s.pad_z > 2 || p.out.d - s.pad_z > p.in.d) return false;
  if (s.border == Border::skip || s.border == Border::zero_output ||
      (s.border == Border::constant && !holds(p.in.dtype, s.value)))
    return false;
  if (p.out.h != p.in.h || p.out.w != p.in.w || s.pad_y != 1 || s.pad_x != 1) return false;
  if (!planes_dense(p.in) || !planes_dense(p.out) || p.in.h > 256 || p.in.w > 256) return false;
  // Bulk copies bring whole words of 16 bytes: all channels' planes must lie alike.
  const int64_t size = size_of(p.in.dtype);
  return p.in.d * p.in.h * p.in.w * size % 16 == 0 && p.in.d < (1 << 20) &&
         p.out.n * p.out.c * p.out.d < (int64_t(1) << 30) && planes_choice(p, arch.multiprocessors).shape.channels > 0;
}

inline int planes_threads(const PlanesShape& s) { return 32 * (s.tile.warps + kPlanesMovers); }
inline int planes_shared(const PlanesShape& s) { return s.stages * s.stage_bytes; }

// Is it likely the fastest? Few or odd channels leave most threads idle: then a tile of the plane serves better.
inline bool planes_suits(const Direct& p, const Arch& arch) {
  const double voxels = double(p.out.n * p.out.c * p.out.d) * double(p.out.h * p.out.w);
  return voxels * 27 / (128.0 * arch.multiprocessors) > 0.25 * planes_choice(p, arch.multiprocessors).clocks;
}

inline void plan_planes(const Direct& p, const Arch& arch, Plan& plan) {
  const PlanesChoice choice = planes_choice(p, arch.multiprocessors);
  const PlanesShape& s = choice.shape;
  plan.variant = "planes";
  plan.why = "3^3 window, small planes: whole planes by bulk copies, several channels a block, sums in registers";
  plan.tile_w = int(p.out.w);
  plan.tile_h = int(p.out.h);
  plan.tile_d = choice.chunk;
  plan.threads = planes_threads(s);
  plan.shared_bytes = planes_shared(s);
  plan.blocks = ceil_div(ceil_div(p.out.n * p.out.c, s.channels) * p.out.d, plan.tile_d);
}

// The shape behind a plan. Two tiles with the same plan differ only in speed, and the faster one was meant.
inline PlanesShape planes_shape(const Direct& p, const Plan& plan) {
  PlanesShape best{.channels = 0};
  for (const PlanesTile t : kPlanesTiles) {
    const PlanesShape s = planes_shape_of(p, t);
    if (s.channels == 0 || (!s.in_place && t.px > 2) || plan.threads != planes_threads(s) ||
        plan.shared_bytes != planes_shared(s) ||
        plan.blocks != ceil_div(ceil_div(p.out.n * p.out.c, s.channels) * p.out.d, plan.tile_d))
      continue;
    if (best.channels == 0 || t.clocks < best.tile.clocks) best = s;
  }
  return best;
}

}  // namespace torch_conv::direct3d
