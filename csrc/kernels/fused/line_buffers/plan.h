// LINE_BUFFERS: which chains it serves, and with which tile. Pure.
#pragma once

#include <cstring>
#include <optional>

#include "core/plan.h"
#include "kernels/fused/line_buffers/params.h"

namespace torch_conv::fused {

void launch_line_buffers(const Fused& p, const Plan& plan, const Site& site);

// Halos of the chain, as a window of this size.
inline Extent halo_of(const Fused& p) {
  Extent halo{.d = 0, .h = 0, .w = 0};
  for (int s = 0; s < p.count; ++s) halo.h += p.stages[s].kh / 2, halo.w += p.stages[s].kw / 2;
  return halo;
}

// Host taps in the parameters, those of equal windows once. Whether they fit.
inline bool pack_taps(const Fused& p, LineBuffersParams& to) {
  struct Packed {
    const void* data;
    int64_t k;
    int start;
  };
  Packed packed[2 * Fused::kMost * Stage::kMost];
  int count = 0, used = 0;
  const auto pack = [&](const Taps& taps, int64_t k, WindowTaps& window) {
    window = {taps.on_host ? nullptr : taps.data, 0};
    if (!taps.on_host) return true;
    for (int i = 0; i < count; ++i)
      if (packed[i].data == taps.data && packed[i].k == k) return window.start = packed[i].start, true;
    const int bytes = int(k * acc_bytes(p.in.dtype));
    if (used + bytes > kChainTapBytes) return false;
    std::memcpy(to.bytes + used, taps.data, bytes);
    window.start = used, packed[count++] = {taps.data, k, used};
    used = int(round_up(used + bytes, 16));
    return true;
  };
  for (int s = 0; s < p.count; ++s)
    for (int w = 0; w < p.stages[s].windows; ++w) {
      const Stage& stage = p.stages[s];
      if (!pack(stage.taps_x[w], stage.kw, to.taps_x[s][w]) || !pack(stage.taps_y[w], stage.kh, to.taps_y[s][w]))
        return false;
    }
  return true;
}

inline LineBuffersParams line_buffers_params(const Fused& p, const LineChain& tile) {
  const Extent halo = halo_of(p);
  LineBuffersParams params{
      .in = p.in,
      .out = p.out,
      .stride_output = p.stride_output,
      .place = {.pad_y = p.valid ? 0 : halo.h, .pad_x = p.valid ? 0 : halo.w, .border = p.border, .value = p.value},
      .valid = p.valid,
      .tile = tile,
      .tiles_x = unsigned(ceil_div(p.out.w, tile.pixels)),
      .tiles_y = unsigned(ceil_div(p.out.h, tile.rows)),
      .channel_blocks = unsigned(line_planes(p.out, tile))};
  pack_taps(p, params);
  return params;
}

// A tile row of `pixels` outputs of each plane, without steps.
inline LineChain line_chain(const Fused& p, int v, int pixels, int planes) {
  const Extent halo = halo_of(p);
  LineChain t{line_row(p.in, channels_together(p.in, kLineWarps), planes, pixels, pixels + 2 * halo.w)};
  t.count = p.count, t.halo_y = int(halo.h), t.halo_x = int(halo.w);
  int box = 0, before_y = 0, before_x = 0;
  for (int s = 0; s < p.count; ++s) {
    const Stage& from = p.stages[s];
    LineStage& stage = t.stages[s];
    stage = {.point = from.point,
             .windows = from.windows,
             .kh = int(from.kh),
             .kw = int(from.kw),
             .number = from.number,
             .before_y = before_y,
             .before_x = before_x};
    before_y += stage.radius_y(), before_x += stage.radius_x();
    stage.pixels = pixels + 2 * (t.halo_x - before_x);
    stage.input_fields = s > 0 ? p.stages[s - 1].outputs() : 1;
    const bool thin = from.point == Point::thin;
    stage.line_fields = thin ? stage.input_fields : from.windows + (from.point == Point::sharpen);
    stage.segment = t.segments;
    stage.segments = thin ? 0 : stage.line_fields * planes * t.channels * int(ceil_div(stage.pixels, v));
    t.segments += stage.segments;
    stage.taps = t.elements;
    t.elements += from.windows * stage.window_taps();
    if (thin) continue;
    // A pass reads beyond the last pixels of a segment that are there.
    const int input = planes * (stage.pixels + 2 * stage.radius_x()) * t.channels;
    stage.box_pitch = input | 1, stage.box_field = kLineRows * stage.box_pitch;
    box = std::max(box, stage.input_fields * stage.box_field + (v + kLineBeyond) * t.channels);
  }
  // One box after the other is in the same memory.
  const int box_start = t.elements;
  t.elements += box;
  for (LineStage* stage = t.stages; stage != t.stages + p.count; ++stage) {
    stage->box = box_start;
    stage->lines = t.elements;
    stage->line_field = (stage->kept() + kLineRows + kLineBeyond) * line_pitch(v);
    t.elements += stage->line_fields * stage->line_field;
    if (stage->point == Point::thin)
      stage->box = stage->lines + stage->kept() * line_pitch(v), stage->box_pitch = line_pitch(v),
      stage->box_field = stage->line_field;
  }
  return t;
}

inline int64_t line_bytes(const Fused& p, const LineChain& t, int v) {
  return t.segments * int64_t(sizeof(Segment)) + line_columns(v) * int64_t(sizeof(int64_t)) +
         t.elements * int64_t(acc_bytes(p.in.dtype)) + t.span * int64_t(sizeof(int));
}

// Pixels of a tile row: as many as fit, and equally many in all tiles of a row.
inline int pixels_of_tile(const Fused& p, int v, int channels) {
  const int64_t later = halo_of(p).w - p.stages[0].kw / 2;
  const int64_t most = line_columns(v) / channels - 2 * later;
  return most > 0 ? int(ceil_div(p.out.w, ceil_div(p.out.w, most))) : 0;
}

// The tile whose threads compute V outputs, or without pixels if it does not fit.
inline LineChain tile_of(const Fused& p, int v, int64_t bytes) {
  const int channels = channels_together(p.in, kLineWarps), pixels = pixels_of_tile(p, v, channels);
  if (pixels < std::min<int64_t>(p.out.w, 8)) return {};
  const int first = pixels + 2 * int(halo_of(p).w - p.stages[0].kw / 2);
  int planes = channels == 1 && pixels >= p.out.w ? narrow_planes(p.in, p.out, line_columns(v), first) : 1;
  for (; planes > 0; planes /= 2) {
    const LineChain t = line_chain(p, v, pixels, planes);
    if (line_bytes(p, t, v) <= bytes) return t;
  }
  return {};
}

// Outputs of a thread: 16 where as many blocks as registers allow fit a multiprocessor, else 8, which take half the
// memory.
struct LineReuse {
  int v;
  LineChain tile;
};
inline std::optional<LineReuse> line_reuse(const Fused& p, const Arch& arch) {
  const int bytes = acc_bytes(p.in.dtype);
  for (const bool alone : {false, true})
    for (const int v : {16, 8}) {
      if (v == 16 && bytes == 8) continue;  // no registers for it
      const LineChain t = tile_of(p, v, alone ? arch.shared_bytes : arch.shared_bytes / line_blocks(v, bytes) - 1024);
      if (t.pixels > 0) return LineReuse{v, t};
    }
  return std::nullopt;
}

// Steps of a strip: long ones repeat few rows of halos, short ones leave no multiprocessor idle.
inline int line_steps(const Fused& p, const LineChain& t, int64_t bytes, int most, const Arch& arch) {
  const int64_t fitting = std::clamp<int64_t>(arch.shared_bytes / (bytes + 1024), 1, most);
  const int64_t resident = arch.multiprocessors * fitting;
  const int least_steps = 2 * t.halo_y / kLineRows + 1;
  int best = least_steps;
  int64_t least = INT64_MAX;
  for (int steps = least_steps; steps <= least_steps + 64; ++steps) {
    const int rows = steps * kLineRows - 2 * t.halo_y;
    const int64_t cost = ceil_div(line_grid(p.out, t, rows), resident) * steps;
    if (cost <= least) least = cost, best = steps;
    if (rows >= p.out.h) break;
  }
  return best;
}

inline const char* line_buffers_refusal(const Fused& p, const Arch& arch) {
  if (p.peers.any()) return "reads no other shards";
  if (p.stride > 1) return "a stride";
  if (p.count == 1 && p.stages[0].windows == 1 && p.stages[0].point == Point::each) return "a single filter";
  if (const char* no = line_refusal(p.in)) return no;
  for (int s = 0; s < p.count; ++s)
    for (int i = 0; i < p.stages[s].windows; ++i)
      for (const Taps* taps : {&p.stages[s].taps_x[i], &p.stages[s].taps_y[i]})
        if (taps->stride_n != 0 || taps->stride_c != 0) return "several sets of windows";
  const Extent halo = halo_of(p);
  if (p.count > 1 && !p.valid && (p.in.h <= 2 * halo.h || p.in.w <= 2 * halo.w))
    return "an image smaller than the windows";
  LineBuffersParams any;
  if (!pack_taps(p, any)) return "more taps than a launch's parameters hold";
  return line_reuse(p, arch) ? nullptr : "lines beyond shared memory";
}

inline void configure_line_buffers(const Fused& p, const Arch& arch, Plan& plan) {
  auto [v, tile] = *line_reuse(p, arch);
  const int64_t bytes = line_bytes(p, tile, v);
  tile.steps = line_steps(p, tile, bytes, line_blocks(v, acc_bytes(p.in.dtype)), arch);
  tile.rows = tile.steps * kLineRows - 2 * tile.halo_y;
  plan.why = "any chain whose row results fit shared memory, streaming down";
  plan.tile_w = tile.pixels, plan.tile_h = tile.rows;
  plan.threads = 32 * kLineWarps;
  plan.shared_bytes = int(bytes);
  plan.blocks = line_grid(p.out, tile, tile.rows);
  plan.kernels = {kernel_of("kernels/fused/line_buffers/kernel.cuh", "fused::fused_line_buffers", {p.in.dtype, v})};
  plan.config = tile;
}

}  // namespace torch_conv::fused
