// TILES: contiguous rows of pixels; a block computes a tile of a large plane, or several small planes.
#pragma once

#include "kernels/depthwise/config.h"
#include "kernels/depthwise/tiles/params.h"

namespace torch_conv::depthwise {

void launch_tiles(const Depthwise& p, const Plan& plan, const Site& site);

// A block: its tile, its planes, and its shared memory. params.h explains the fields.
struct TilesConfig {
  TilesPolicy shape;
  int group, tiles_x, tiles_y, strips, bands, lead, pitch, slot;
  int skip, box_rows, first_row, first_column, rows, vectors;
  int taps_at, positions_at, results_at, shared_bytes;
};

// The most threads and bytes of a block with several planes. Half precision, 3x3, 64x96x56x56, one NVIDIA H200, plain
// loads: 64 threads 29.1 us, 128 threads 30.0.
constexpr int kTilesUnits = 64, kTilesBytes = 24 * 1024;

inline TilesConfig tiles_config(const Depthwise& p, const Arch& arch) {
  const Placement& s = p.place;
  const int size = size_of(p.in.dtype), vector = 16 / size;
  TilesConfig c{};
  TilesPolicy& w = c.shape;
  w = {.kh = int(p.kh),
       .kw = int(p.kw),
       .stride_y = int(s.stride_y),
       .stride_x = int(s.stride_x),
       .dilation_y = int(s.dilation_y),
       .dilation_x = int(s.dilation_x),
       .px = vector,
       .ry = 8};
  const int taps = w.kh * w.kw;
  // The size of the unrolled loops limits the rows of a thread.
  w.ry = std::max(1, std::min(7, 1500 / (taps * w.px)));
  if (taps > TilesPolicy::kMostInRegisters) w.px = 8, w.ry = 4;
  if (p.out.h <= 4) w.ry = int(p.out.h);
  const int out_w = int(p.out.w), out_h = int(p.out.h);
  // Boxes of wide tiles start on 128 bytes, of larger windows on 32: direct2d/tile/params.h has the measurements.
  const bool bulk = arch.bulk_copy && tma::vectors_possible(p.in);
  w.first = int(round_up(s.pad_x, vector) - s.pad_x);
  c.lead = int(round_up(s.pad_x, bulk && out_w * size > 512 ? (taps > 25 ? 32 : 128) / size : vector));
  c.skip = c.lead - int(s.pad_x) - w.first;
  const int all_strips = int(ceil_div(out_w, w.px)), all_bands = int(ceil_div(out_h, w.ry));
  // Tiles have about the same size: at most 32 strips, 256 threads and 40 KiB.
  c.tiles_x = int(ceil_div(all_strips, 32));
  c.strips = int(ceil_div(all_strips, c.tiles_x));
  int most_bands = c.strips * all_bands <= 256 ? all_bands : std::max(1, 128 / c.strips);
  const auto tile_bytes = [&](int strips, int bands) {
    return int64_t(strips * w.px * w.stride_x + (w.kw - 1) * w.dilation_x + 2 * vector) *
           ((bands - 1) * w.ry * w.stride_y + w.rows()) * size;
  };
  while (most_bands > 1 && tile_bytes(c.strips, most_bands) > 40 * 1024) --most_bands;
  c.tiles_y = int(ceil_div(all_bands, most_bands));
  c.bands = int(ceil_div(all_bands, c.tiles_y));
  const int tile_w = c.tiles_x == 1 ? out_w : c.strips * w.px;
  const int columns = (tile_w - 1) * w.stride_x + c.skip + w.first + (w.kw - 1) * w.dilation_x + 1;
  const int loaded = std::min(columns - c.lead, int(p.in.w));
  c.box_rows = (c.bands - 1) * w.ry * w.stride_y + w.rows();
  const bool boxes = bulk && round_up(columns, vector) / tma::pack_of(size) <= 256 - 4 * vector && c.box_rows <= 256;
  c.pitch = c.tiles_x > 1 || boxes ? columns : std::max({loaded + c.lead, columns - c.lead, 1});
  c.pitch = int(round_up(c.pitch, vector));
  // A few more elements of pitch avoid bank conflicts between bands and between planes.
  const auto bank = [&](int elements) { return elements * size / 16 % 8; };
  if (c.bands > 1)
    for (int more = 0; more < 4; ++more)
      if (bank((c.pitch + more * vector) * w.ry * w.stride_y - c.strips * w.px * w.stride_x) == 0) {
        c.pitch += more * vector;
        break;
      }
  c.slot = c.box_rows * c.pitch;
  if (boxes) c.slot = int(round_up(c.slot, 128 / size));
  else
    while (bank(c.slot - c.bands * c.strips * w.px * w.stride_x) != 0) c.slot += vector;

  const int64_t planes = p.out.n * p.out.c, tiles = int64_t(c.tiles_x) * c.tiles_y;
  const int units = c.strips * c.bands;
  c.group = 1;
  if (tiles == 1)
    while (c.group < 32 && c.group * 2 * units <= kTilesUnits && c.group * 2 * c.slot * size <= kTilesBytes &&
           planes / (c.group * 2) >= 4 * arch.multiprocessors)
      c.group *= 2;

  const auto widest = [&](auto&& fits) {
    int bytes = 16;
    while (bytes > size && !fits(bytes)) bytes /= 2;
    return bytes;
  };
  w.load = boxes ? 0 : widest([&](int bytes) { return rows_start_on(p.in, bytes); });
  w.store = widest([&](int bytes) { return rows_start_on(p.out, bytes) && p.out.w * size % bytes == 0; });
  c.first_row = c.tiles_y == 1 ? 0 : -int(s.pad_y);
  c.rows = c.tiles_y == 1 ? std::min(c.box_rows - int(s.pad_y), int(p.in.h)) : c.box_rows;
  if (c.tiles_x == 1 && loaded <= 0) c.rows = 0;
  c.first_column = c.tiles_x == 1 ? 0 : -c.lead;
  c.vectors = std::max(1, int(ceil_div(int64_t(c.tiles_x == 1 ? loaded : columns) * size, std::max(1, w.load))));
  const int64_t plane = p.out.h * p.out.w;
  w.staged = tiles == 1 && w.store < 16 && p.out.stride_h == p.out.w && p.out.stride_c == plane &&
             (p.out.n == 1 || p.out.stride_n == plane * p.out.c) && reinterpret_cast<uintptr_t>(p.out.data) % 16 == 0 &&
             c.group * plane * size % 16 == 0;
  // A strip at the end of a row reads beyond it.
  const int tile =
      c.group * c.slot + c.skip + (c.strips - 1) * w.px * w.stride_x + int(round_up(w.first + w.columns(), vector));
  c.taps_at = int(round_up(int64_t(tile) * size, 16));
  c.positions_at = c.taps_at + c.group * w.tap_slot() * 4;
  c.results_at = int(round_up(c.positions_at + c.group * int(sizeof(TilesPosition)), 16));
  c.shared_bytes = c.results_at + (w.staged ? int(round_up(c.group * plane * size, 16)) : 0);
  // Registers of a thread, rounded up (ptxas reports 56 to 110).
  const int registers = taps <= 9 ? 80 : taps <= 25 ? 104 : 128;
  w.threads = int(round_up(c.group * units, 32));
  w.resident = std::max(1, 65536 / (registers * w.threads));
  return c;
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
  const TilesConfig c = tiles_config(p, arch);
  const TilesPolicy& w = c.shape;
  plan.why = c.tiles_x * c.tiles_y == 1 ? "whole planes in shared memory" : "tiles of planes in shared memory";
  plan.tile_w = c.strips * w.px;
  plan.tile_h = c.bands * w.ry;
  plan.tile_d = c.group;
  plan.threads = w.threads;
  plan.shared_bytes = c.shared_bytes;
  plan.blocks = ceil_div(p.out.n * p.out.c, c.group) * c.tiles_x * c.tiles_y;
  const TemplateArgument shape("depthwise::TilesPolicy",
                               {w.kh, w.kw, w.stride_y, w.stride_x, w.dilation_y, w.dilation_x, w.first, w.px, w.ry,
                                w.load, w.store, w.staged, w.threads, w.resident});
  plan.kernels = {kernel_of("kernels/depthwise/tiles/kernel.cuh", "depthwise::depthwise_tiles",
                            {p.in.dtype, p.weights, shape, argument_of(p.activation)})};
  plan.config = c;
}

}  // namespace torch_conv::depthwise
