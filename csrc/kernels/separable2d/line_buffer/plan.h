// LINE_BUFFER: which problems it serves, and with which tile. Pure.
#pragma once

#include <algorithm>

#include "core/plan.h"
#include "kernels/separable2d/line_buffer/params.h"
#include "kernels/separable2d/shared/general_tile.h"

namespace torch_conv::separable2d {

void launch_line_buffer(const Separable& p, const Plan& plan, const Site& site);

// The stride whose outputs share elements in registers, or 0.
inline int line_stride(const Separable& p) {
  const Placement& at = p.place;
  const bool alike = at.stride_y == at.stride_x && at.dilation_y == 1 && at.dilation_x == 1;
  return alike && at.stride_x <= 2 ? int(at.stride_x) : 0;
}

inline int line_reuse(const Separable& p) { return line_reuse(line_stride(p), int(acc_bytes(p.in.dtype))); }

inline LineParams line_params(const Separable& p, const LineTile& tile, const PassTaps& taps) {
  return {.in = p.in,
          .out = p.out,
          .place = p.place,
          .kh = int(p.kh),
          .kw = int(p.kw),
          .tile = tile,
          .tiles_x = unsigned(ceil_div(p.out.w, tile.pixels)),
          .tiles_y = unsigned(ceil_div(p.out.h, tile.steps * kLineRows)),
          .channel_blocks = unsigned(line_planes(p.out, tile)),
          .taps = taps};
}

inline int64_t line_bytes(const Separable& p, const LineTile& t) {
  const int64_t taps = tap_elements(p.kw) + tap_elements(p.kh);
  const int64_t elements = taps + t.box_elements(p.place) + t.line_elements(p.place) + kLineRows;
  return elements * acc_bytes(p.in.dtype) + t.span * int64_t(sizeof(int));
}

// A tile row of `pixels` pixels, without steps.
inline LineTile line_tile(const Separable& p, int pixels, int planes) {
  const Placement& at = p.place;
  constexpr int64_t kMost = 1 << 20;  // beyond any shared memory
  const int64_t span = (pixels - 1) * at.stride_x + (p.kw - 1) * at.dilation_x + 1;
  const int64_t lines = (kLineRows - 1) * at.stride_y + (p.kh - 1) * at.dilation_y + 1;
  LineTile t{line_row(p.in, channels_together(p), planes, pixels, span)};
  t.lines = int(std::min(lines, kMost));
  t.kept = int(std::max<int64_t>(t.lines - kLineRows * at.stride_y, 0));
  return t;
}

// Narrow planes with one window that a tile row holds side by side.
inline int narrow_planes(const Separable& p, int most, int pixels) {
  const bool one_window =
      p.taps_x.stride_n == 0 && p.taps_x.stride_c == 0 && p.taps_y.stride_n == 0 && p.taps_y.stride_c == 0;
  return one_window && channels_together(p) == 1 ? narrow_planes(p.in, p.out, most, pixels) : 1;
}

// The widest tile that fits; without pixels if none does.
inline LineTile widest_line_tile(const Separable& p, const Arch& arch) {
  const int reuse = line_reuse(p), most = kLineWarps / channels_together(p) * reuse;
  for (int pixels = int(std::min<int64_t>(most, round_up(p.out.w, reuse))); pixels >= reuse;
       pixels = int(round_up(pixels / 2, reuse))) {
    for (int planes = narrow_planes(p, most, pixels); planes > 0; planes /= 2) {
      const LineTile t = line_tile(p, pixels, planes);
      if (line_bytes(p, t) <= arch.shared_bytes) return t;
    }
    if (pixels == reuse) break;
  }
  return {};
}

// Steps of a strip, as those of RING: long strips repeat few row passes, short ones leave no multiprocessor idle.
inline int line_steps(const Separable& p, const LineTile& t, const Arch& arch) {
  constexpr int kOther = 30;  // work of a row beside its taps
  const int64_t fitting = arch.shared_bytes / (line_bytes(p, t) + 1024);
  const int64_t resident =
      arch.multiprocessors * std::clamp<int64_t>(fitting, 1, line_blocks(line_stride(p), int(acc_bytes(p.in.dtype))));
  const int64_t most = std::min<int64_t>(64, ceil_div(p.out.h, kLineRows));
  int best = 1;
  int64_t least = INT64_MAX;
  for (int steps = 1; steps <= most; ++steps) {
    const int64_t rounds = ceil_div(line_grid(p.out, t, steps * kLineRows), resident);
    const int64_t step = kLineRows * (p.place.stride_y * (p.kw + kOther) + p.kh);
    const int64_t cost = rounds * (steps * step + round_up(t.kept, kLineRows) * (p.kw + kOther));
    if (cost <= least) least = cost, best = steps;
  }
  return best;
}

inline const char* line_buffer_refusal(const Separable& p, const Arch& arch) {
  if (const char* no = general_refusal(p)) return no;
  if (const char* no = line_refusal(p.in)) return no;
  if (std::max(p.place.dilation_y, p.place.dilation_x) >= 1 << 20) return "row results beyond shared memory";
  return widest_line_tile(p, arch).pixels > 0 ? nullptr : "row results beyond shared memory";
}

inline void configure_line_buffer(const Separable& p, const Arch& arch, Plan& plan) {
  LineTile tile = widest_line_tile(p, arch);
  tile.steps = line_steps(p, tile, arch);
  plan.why = "any window whose row results fit shared memory, streaming down";
  plan.tile_w = tile.pixels;
  plan.tile_h = tile.steps * kLineRows;
  plan.threads = 32 * kLineWarps;
  plan.shared_bytes = int(line_bytes(p, tile));
  plan.blocks = line_grid(p.out, tile, plan.tile_h);
  plan.kernels = {kernel_of("kernels/separable2d/line_buffer/kernel.cuh", "separable2d::separable_line_buffer",
                            {p.in.dtype, line_stride(p)})};
  plan.config = tile;
}

}  // namespace torch_conv::separable2d
