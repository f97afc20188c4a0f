// The volumes that `planes` serves, and its plan.
#pragma once

#include "kernels/direct3d/config.h"
#include "kernels/direct3d/planes/params.h"

namespace torch_conv::direct3d {

struct PlanesShape {
  PlanesTile tile;
  int channels;        // of a block
  int units_x, units;  // threads along x, threads of a plane
  int lanes;           // threads set aside for a plane: whole warps, or `units`
  bool in_place;       // planes start on 16 bytes: outputs leave shared memory by bulk copies, else from the registers
  int slot_bytes, stage_bytes, stages;
  int threads() const { return 32 * (tile.warps + kPlanesMovers); }
  int shared_bytes() const { return stages * stage_bytes; }
};

void launch_planes(const Direct& p, const Plan& plan, const Site& site);

// Dynamic shared memory of a block: that of a multiprocessor of compute capability 9.0, less 1 KiB for the system and
// the kernel's barriers.
constexpr int kPlanesShared = 233472 - 1024 - 512;

// The shape of a problem with one tile; channels == 0: the tile does not serve it.
inline PlanesShape planes_shape(const Direct& p, PlanesTile tile) {
  PlanesShape s{};
  s.tile = tile;
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

// A block computes `planes` output planes of its channels: possibly the end of one volume and the start of the next. It
// reads two more planes wherever a volume is cut, and one to start the ring. `cost`: planes that a multiprocessor
// computes.
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
// The tile with the least predicted time; channels == 0: none.
inline PlanesChoice planes_choice(const Direct& p, int multiprocessors) {
  PlanesChoice best{};
  for (const PlanesTile t : kPlanesTiles) {
    const PlanesShape s = planes_shape(p, t);
    // Narrow packs alone read planes that do not start on 16 bytes.
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

inline const char* planes_refusal(const Direct& p, const Arch& arch) {
  const Placement& s = p.place;
  if (!arch.bulk_copy) return "no bulk copies";
  if (arch.shared_bytes < 232448) return "too little shared memory";
  if (const char* no = depthwise_refusal(p)) return no;
  if (!near(p.in.d, p.out.d, 3, s.pad_z)) return "windows that lie outside the volume altogether";
  if (p.out.h != p.in.h || p.out.w != p.in.w || s.pad_y != 1 || s.pad_x != 1) return "planes of another size";
  if (!planes_dense(p.in) || !planes_dense(p.out)) return "volumes not dense and 16-byte aligned";
  if (p.in.h > 256 || p.in.w > 256) return "large planes";
  // Bulk copies load whole vectors of 16 bytes: the planes of all channels must have the same offset from 16 bytes.
  if (p.in.d * p.in.h * p.in.w * size_of(p.in.dtype) % 16 != 0) return "volumes that do not fill 16 bytes";
  if (p.in.d >= (1 << 20) || p.out.n * p.out.c * p.out.d >= (int64_t(1) << 30)) return "too many planes";
  return planes_choice(p, arch.multiprocessors).shape.channels > 0 ? nullptr : "planes that no tile fits";
}

inline void configure_planes(const Direct& p, const Arch& arch, Plan& plan) {
  const PlanesChoice choice = planes_choice(p, arch.multiprocessors);
  const PlanesShape& s = choice.shape;
  plan.why = "3^3 window, small planes: whole planes by bulk copies, several channels a block, sums in registers";
  plan.tile_w = int(p.out.w);
  plan.tile_h = int(p.out.h);
  plan.tile_d = choice.chunk;
  plan.threads = s.threads();
  plan.shared_bytes = s.shared_bytes();
  plan.blocks = ceil_div(ceil_div(p.out.n * p.out.c, s.channels) * p.out.d, plan.tile_d);
  plan.kernels = {kernel_of("kernels/direct3d/planes/kernel.cuh", "direct3d::direct3d_planes",
                            {p.in.dtype, s.tile.px, s.tile.ry, s.tile.warps, s.in_place})};
  plan.config = s;
}

}  // namespace torch_conv::direct3d
