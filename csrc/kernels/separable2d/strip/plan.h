// STRIP: the problems that it serves, and the height of strips. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/separable2d/strip/params.h"

namespace torch_conv::separable2d {

void launch_strip(const Separable& p, const Plan& plan, const Site& site);

inline StripShape strip_shape(const Separable& p, int steps) {
  const int size = size_of(p.in.dtype), vector = 16 / size;
  StripShape s{};
  s.steps = steps;
  s.slots = int(ceil_div(p.kh - 1 + kStripRows, kStripRows));
  s.skew = int(round_up(p.place.pad_x, vector) - p.place.pad_x);
  s.columns = int(round_up(s.skew + kStripThreads + p.kw - 1, vector));
  s.pitch = (s.columns / vector | 1) * vector;
  // The row pass loads whole blocks of taps and elements: up to 32 more than the last row has.
  const int64_t taps = round_up(p.kw, kStripReuse) + round_up(p.kh, kStripRows);
  s.bytes = int((taps + s.slots * kStripRows * kStripPitch) * 4 + (kStripRows * s.pitch + 32) * size);
  return s;
}

inline int64_t strip_blocks(const Separable& p, int steps) {
  return p.out.n * p.out.c * ceil_div(p.out.w, kStripThreads) * ceil_div(p.out.h, steps * kStripRows);
}

inline const char* strip_refusal(const Separable& p, const Arch& arch) {
  constexpr int64_t most = 1024;  // keeps `bytes` an int
  if (const char* no = planar_refusal(p)) return no;
  const bool fits = p.kh <= most && p.kw <= most && strip_shape(p, 1).bytes <= arch.shared_bytes / 2;
  return fits ? nullptr : "a window beyond shared memory";
}

// Long strips repeat few row passes, short ones leave no multiprocessor idle: the least of rounds of resident blocks
// times steps, where a step without outputs (the ring fills) costs half.
inline int strip_steps(const Separable& p, const Arch& arch) {
  const StripShape shape = strip_shape(p, 1);
  const int64_t fitting = arch.shared_bytes / (shape.bytes + 1024);
  const int64_t resident = arch.multiprocessors * std::max<int64_t>(1, std::min<int64_t>(kStripBlocks, fitting));
  const int most = int(std::min<int64_t>(32, ceil_div(p.out.h, kStripRows)));
  int best = 1;
  int64_t least = INT64_MAX;
  for (int steps = 1; steps <= most; ++steps) {
    const int64_t cost = ceil_div(strip_blocks(p, steps), resident) * (2 * steps + shape.slots);
    if (cost <= least) least = cost, best = steps;
  }
  return best;
}

inline void configure_strip(const Separable& p, const Arch& arch, Plan& plan) {
  const StripShape shape = strip_shape(p, strip_steps(p, arch));
  plan.why = "planar image at stride 1: row results in a ring, streaming down";
  plan.tile_w = kStripThreads;
  plan.tile_h = shape.steps * kStripRows;
  plan.threads = kStripThreads;
  plan.shared_bytes = shape.bytes;
  plan.blocks = strip_blocks(p, shape.steps);
  plan.kernels = {kernel_of("kernels/separable2d/strip/kernel.cuh", "separable2d::separable_strip", {p.in.dtype})};
  plan.config = shape;
}

}  // namespace torch_conv::separable2d
