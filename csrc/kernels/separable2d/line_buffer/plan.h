// LINE_BUFFER: which problems it serves, and with which tile. Pure.
#pragma once

#include <algorithm>

#include "core/plan.h"
#include "kernels/separable2d/line_buffer/params.h"
#include "kernels/separable2d/shared/general_tile.h"

namespace torch_conv::separable2d {

void launch_line_buffer(const Separable& p, const Plan& plan, const Site& site);

inline bool line_slides(const Separable& p) { return p.place.unit_steps_of_images(); }

inline int line_reuse(const Separable& p) { return line_reuse(line_slides(p), int(acc_bytes(p.in.dtype))); }

inline LineParams line_params(const Separable& p, const LineTile& tile, const PassTaps& taps) {
  return {.in = p.in,
          .out = p.out,
          .place = p.place,
          .kh = int(p.kh),
          .kw = int(p.kw),
          .reuse = line_reuse(p),
          .tile = tile,
          .tiles_x = unsigned(ceil_div(p.out.w, tile.pixels)),
          .tiles_y = unsigned(ceil_div(p.out.h, tile.steps * kLineRows)),
          .channel_blocks = unsigned(ceil_div(p.out.c, tile.channels)),
          .taps = taps};
}

inline int64_t line_bytes(const Separable& p, const LineTile& t) {
  const LineParams with = line_params(p, t, {});
  return (int64_t(with.taps_x()) + with.taps_y() + with.box() + with.lines() + kLineRows) * acc_bytes(p.in.dtype);
}

// A tile row of `pixels` pixels, in strips of one step.
inline LineTile line_tile(const Separable& p, int pixels) {
  const Placement& at = p.place;
  const int64_t kMost = 1 << 20;  // beyond any shared memory
  LineTile t{.channels = channels_together(p), .pixels = pixels, .steps = 1};
  t.contiguous = p.in.stride_w == t.channels && (t.channels == 1 || p.in.stride_c == 1) && p.in.c % t.channels == 0;
  const int64_t span = (pixels - 1) * at.stride_x + (p.kw - 1) * at.dilation_x + 1;
  const int64_t lines = (kLineRows - 1) * at.stride_y + (p.kh - 1) * at.dilation_y + 1;
  t.span = int(std::min(span, kMost)) * t.channels;
  t.lines = int(std::min(lines, kMost));
  t.kept = int(std::max<int64_t>(t.lines - kLineRows * at.stride_y, 0));
  return t;
}

// The widest tile that fits; without pixels if none does.
inline LineTile widest_line_tile(const Separable& p, const Arch& arch) {
  const int reuse = line_reuse(p);
  const int most = kLineWarps / channels_together(p) * reuse;
  for (int pixels = int(std::min<int64_t>(most, round_up(p.out.w, reuse))); pixels >= reuse;
       pixels = int(round_up(pixels / 2, reuse))) {
    const LineTile t = line_tile(p, pixels);
    if (line_bytes(p, t) <= arch.shared_bytes) return t;
    if (pixels == reuse) break;
  }
  return {};
}

// Steps of a strip, as those of RING: long strips repeat few row passes, short ones leave no multiprocessor idle.
inline int line_steps(const Separable& p, const LineTile& t, const Arch& arch) {
  constexpr int kOther = 30;  // work of a row beside its taps
  const int64_t fitting = arch.shared_bytes / (line_bytes(p, t) + 1024);
  const int64_t resident =
      arch.multiprocessors * std::clamp<int64_t>(fitting, 1, line_blocks(line_slides(p), int(acc_bytes(p.in.dtype))));
  const int64_t strips = p.out.n * ceil_div(p.out.c, t.channels) * ceil_div(p.out.w, t.pixels);
  const int64_t most = std::min<int64_t>(64, ceil_div(p.out.h, kLineRows));
  int best = 1;
  int64_t least = INT64_MAX;
  for (int steps = 1; steps <= most; ++steps) {
    const int64_t rounds = ceil_div(strips * ceil_div(p.out.h, steps * kLineRows), resident);
    const int64_t step = kLineRows * (p.place.stride_y * (p.kw + kOther) + p.kh);
    const int64_t cost = rounds * (steps * step + round_up(t.kept, kLineRows) * (p.kw + kOther));
    if (cost <= least) least = cost, best = steps;
  }
  return best;
}

inline const char* line_buffer_refusal(const Separable& p, const Arch& arch) {
  if (const char* no = general_refusal(p)) return no;
  constexpr int64_t kMost = 1 << 30;
  const Placement& at = p.place;
  if (p.in.w * std::max<int64_t>(p.in.stride_w, 1) >= kMost || p.in.h >= kMost || p.in.stride_h >= kMost ||
      std::max(at.dilation_y, at.dilation_x) >= kMost / 1024)
    return "rows of 2^30 elements";
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
  plan.blocks =
      p.out.n * ceil_div(p.out.c, tile.channels) * ceil_div(p.out.w, tile.pixels) * ceil_div(p.out.h, plan.tile_h);
  plan.kernels = {kernel_of("kernels/separable2d/line_buffer/kernel.cuh", "separable2d::separable_line_buffer",
                            {p.in.dtype, line_slides(p)})};
  plan.config = tile;
}

}  // namespace torch_conv::separable2d
