// TILES: contiguous rows of pixels; a block computes a tile of a large plane, or several small planes.
#pragma once

#include "kernels/depthwise/config.h"
#include "kernels/depthwise/tiles/params.h"

namespace torch_conv::depthwise {

void launch_tiles(const Depthwise& p, const Plan& plan, const Site& site);

// A block: its tile, its planes, and its shared memory. params.h explains the fields.
struct TilesConfig {
  TilesPolicy policy;
  int group, tiles_x, tiles_y, strips, bands, lead, pitch, slot;
  int skip, box_rows, first_row, first_column, rows, vectors;
  int taps_at, positions_at, results_at, shared_bytes;
};

// The most threads and bytes of a block with several planes. Half precision, 3x3, 64x96x56x56, one NVIDIA H200, plain
// loads: 64 threads 29.1 us, 128 threads 30.0.
constexpr int kTilesUnits = 64, kTilesBytes = 24 * 1024;

// Fills in a configuration. A method needs the results of the methods before it.
struct TilesPlanner {
  const Depthwise& p;
  const Arch& arch;
  const int size = size_of(p.in.dtype), vector = 16 / size, taps = int(p.kh * p.kw);
  const bool bulk = arch.bulk_copy && tma::vectors_possible(p.in);
  TilesConfig config{};
  TilesPolicy& policy = config.policy;
  int columns = 0, loaded = 0;  // of the footprint of a tile; of those inside the image
  bool boxes = false;           // bulk copies load the tiles

  void set_thread() {
    const Placement& s = p.place;
    policy = {.kh = int(p.kh),
              .kw = int(p.kw),
              .stride_y = int(s.stride_y),
              .stride_x = int(s.stride_x),
              .dilation_y = int(s.dilation_y),
              .dilation_x = int(s.dilation_x),
              .first = int(round_up(s.pad_x, vector) - s.pad_x),
              .px = vector};
    // The size of the unrolled loops limits the rows of a thread.
    policy.ry = std::max(1, std::min(7, 1500 / (taps * policy.px)));
    if (taps > TilesPolicy::kMostInRegisters) policy.px = 8, policy.ry = 4;
    if (p.out.h <= 4) policy.ry = int(p.out.h);
  }

  // Tiles have about the same size: at most 32 strips, 256 threads and 40 KiB.
  void cut_plane() {
    const int all_strips = int(ceil_div(p.out.w, policy.px)), all_bands = int(ceil_div(p.out.h, policy.ry));
    config.tiles_x = int(ceil_div(all_strips, 32));
    config.strips = int(ceil_div(all_strips, config.tiles_x));
    int most_bands = config.strips * all_bands <= 256 ? all_bands : std::max(1, 128 / config.strips);
    const int64_t row = config.strips * policy.px * policy.stride_x + (policy.kw - 1) * policy.dilation_x + 2 * vector;
    while (most_bands > 1 && row * rows_under(most_bands) * size > 40 * 1024) --most_bands;
    config.tiles_y = int(ceil_div(all_bands, most_bands));
    config.bands = int(ceil_div(all_bands, config.tiles_y));
    config.box_rows = rows_under(config.bands);
  }

  // Boxes of wide tiles start on 128 bytes, of larger windows on 32: direct2d/tile/params.h has the measurements.
  void lay_out_rows() {
    const int out_w = int(p.out.w), pad = int(p.place.pad_x);
    config.lead = int(round_up(pad, bulk && out_w * size > 512 ? (taps > 25 ? 32 : 128) / size : vector));
    config.skip = config.lead - pad - policy.first;
    const int tile_w = config.tiles_x == 1 ? out_w : config.strips * policy.px;
    columns = (tile_w - 1) * policy.stride_x + config.skip + policy.first + (policy.kw - 1) * policy.dilation_x + 1;
    loaded = std::min(columns - config.lead, int(p.in.w));
    boxes = bulk && round_up(columns, vector) / tma::pack_of(size) <= 256 - 4 * vector && config.box_rows <= 256;
    config.pitch = config.tiles_x > 1 || boxes ? columns : std::max({loaded + config.lead, columns - config.lead, 1});
    config.pitch = int(round_up(config.pitch, vector));
  }

  // A few more elements of pitch avoid bank conflicts between bands and between planes.
  void avoid_bank_conflicts() {
    const auto bank = [&](int elements) { return elements * size / 16 % 8; };
    const int strips_apart = config.strips * policy.px * policy.stride_x;
    if (config.bands > 1)
      for (int more = 0; more < 4; ++more)
        if (bank((config.pitch + more * vector) * policy.ry * policy.stride_y - strips_apart) == 0) {
          config.pitch += more * vector;
          break;
        }
    config.slot = config.box_rows * config.pitch;
    if (boxes) config.slot = int(round_up(config.slot, 128 / size));
    else
      while (bank(config.slot - config.bands * strips_apart) != 0) config.slot += vector;
  }

  void group_planes() {
    const int64_t planes = p.out.n * p.out.c;
    const int units = config.strips * config.bands;
    config.group = 1;
    if (one_tile())
      while (config.group < 32 && config.group * 2 * units <= kTilesUnits &&
             config.group * 2 * config.slot * size <= kTilesBytes &&
             planes / (config.group * 2) >= 4 * arch.multiprocessors)
        config.group *= 2;
    // Registers of a thread, rounded up (ptxas reports 56 to 110).
    const int registers = taps <= 9 ? 80 : taps <= 25 ? 104 : 128;
    policy.threads = int(round_up(config.group * units, 32));
    policy.resident = std::max(1, 65536 / (registers * policy.threads));
  }

  void set_vectors() {
    const auto widest = [&](auto&& fits) {
      int bytes = 16;
      while (bytes > size && !fits(bytes)) bytes /= 2;
      return bytes;
    };
    policy.load = boxes ? 0 : widest([&](int bytes) { return rows_start_on(p.in, bytes); });
    policy.store = widest([&](int bytes) { return rows_start_on(p.out, bytes) && p.out.w * size % bytes == 0; });
    const int pad_y = int(p.place.pad_y);
    config.first_row = config.tiles_y == 1 ? 0 : -pad_y;
    config.rows = config.tiles_y == 1 ? std::min(config.box_rows - pad_y, int(p.in.h)) : config.box_rows;
    if (config.tiles_x == 1 && loaded <= 0) config.rows = 0;
    config.first_column = config.tiles_x == 1 ? 0 : -config.lead;
    const int64_t bytes = int64_t(config.tiles_x == 1 ? loaded : columns) * size;
    config.vectors = std::max(1, int(ceil_div(bytes, std::max(1, policy.load))));
  }

  void lay_out_shared_memory() {
    const int64_t plane = p.out.h * p.out.w, results = config.group * plane * size;
    policy.staged = one_tile() && policy.store < 16 && p.out.stride_h == p.out.w && p.out.stride_c == plane &&
                    (p.out.n == 1 || p.out.stride_n == plane * p.out.c) &&
                    reinterpret_cast<uintptr_t>(p.out.data) % 16 == 0 && results % 16 == 0;
    // A strip at the end of a row reads beyond it.
    const int tiles = config.group * config.slot + config.skip + (config.strips - 1) * policy.px * policy.stride_x +
                      int(round_up(policy.first + policy.columns(), vector));
    config.taps_at = int(round_up(int64_t(tiles) * size, 16));
    config.positions_at = config.taps_at + config.group * policy.tap_slot() * 4;
    config.results_at = int(round_up(config.positions_at + config.group * int(sizeof(TilesPosition)), 16));
    config.shared_bytes = config.results_at + (policy.staged ? int(round_up(results, 16)) : 0);
  }

  bool one_tile() const { return config.tiles_x == 1 && config.tiles_y == 1; }
  // Input rows under `bands` bands of outputs.
  int rows_under(int bands) const { return (bands - 1) * policy.ry * policy.stride_y + policy.rows(); }
};

inline TilesConfig tiles_config(const Depthwise& p, const Arch& arch) {
  TilesPlanner planner{p, arch};
  planner.set_thread();
  planner.cut_plane();
  planner.lay_out_rows();
  planner.avoid_bank_conflicts();
  planner.group_planes();
  planner.set_vectors();
  planner.lay_out_shared_memory();
  return planner.config;
}

inline const char* tiles_refusal(const Depthwise& p, const Arch& arch) {
  const Placement& s = p.place;
  if (p.in.dtype == Dtype::f64) return "no float32, float16 or bfloat16";
  if (!rows_inner(p.in) || !rows_inner(p.out)) return "pixels of a row are not contiguous";
  if (p.kh > 31 || p.kw > 31) return "a window of more than 31 rows or columns";
  if (s.stride_y > 4 || s.stride_x > 4) return "a stride of more than 4";
  if ((p.kh - 1) * s.dilation_y > 96 || (p.kw - 1) * s.dilation_x > 96) return "a footprint of more than 96 pixels";
  if (!below(1 << 24, {p.in.h, p.in.w, p.out.h, p.out.w, s.pad_y, s.pad_x})) return "2^24 rows or columns";
  if (p.out.n * p.out.c >= int64_t(1) << 31) return "2^31 planes";
  return tiles_config(p, arch).shared_bytes <= arch.shared_bytes ? nullptr : "a tile larger than shared memory";
}

inline void configure_tiles(const Depthwise& p, const Arch& arch, Plan& plan) {
  const TilesConfig config = tiles_config(p, arch);
  const TilesPolicy& policy = config.policy;
  plan.why =
      config.tiles_x * config.tiles_y == 1 ? "whole planes in shared memory" : "tiles of planes in shared memory";
  plan.tile_w = config.strips * policy.px;
  plan.tile_h = config.bands * policy.ry;
  plan.tile_d = config.group;
  plan.threads = policy.threads;
  plan.shared_bytes = config.shared_bytes;
  plan.blocks = ceil_div(p.out.n * p.out.c, config.group) * config.tiles_x * config.tiles_y;
  const TemplateArgument shape(
      "depthwise::TilesPolicy",
      {policy.kh, policy.kw, policy.stride_y, policy.stride_x, policy.dilation_y, policy.dilation_x, policy.first,
       policy.px, policy.ry, policy.load, policy.store, policy.staged, policy.threads, policy.resident});
  plan.kernels = {kernel_of("kernels/depthwise/tiles/kernel.cuh", "depthwise::depthwise_tiles",
                            {p.in.dtype, p.weights, shape, argument_of(p.activation)})};
  plan.config = config;
}

}  // namespace torch_conv::depthwise
