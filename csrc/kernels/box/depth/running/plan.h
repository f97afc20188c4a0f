// DEPTH: running sums of integers along z. Pure.
#pragma once

#include <algorithm>

#include "kernels/box/depth/shared/runs.h"

namespace torch_conv::box {

// Long chunks of z start few sums afresh (a plane read for each of the window), short ones leave no multiprocessor
// idle: the least of rounds of resident blocks times planes read. 256^3 float32 on one NVIDIA H200, chunks of 64, 128,
// 256: 9 planes 43, 40, 49 us, 101 planes 112, 85, 82 us.
inline int64_t depth_chunk(const BoxDepth& p, const DepthRuns& r, const Arch& arch) {
  const int64_t columns = p.out.n * r.channels * depth_column_blocks(r);
  const bool integer = is_integer(p.out.dtype);
  const int64_t resident = int64_t(arch.multiprocessors) * depth_blocks(integer), start = std::min(p.kd, 2 * p.sums.d);
  const int batch = depth_batch(integer);
  int64_t best = p.out.d, least = INT64_MAX;
  for (int64_t chunks = 1; chunks <= std::min<int64_t>(ceil_div(p.out.d, batch), 256); ++chunks) {
    const int64_t length = round_up(ceil_div(p.out.d, chunks), batch);
    const int64_t cost = ceil_div(columns * ceil_div(p.out.d, length), resident) * (2 * length + start + batch);
    if (cost < least) least = cost, best = length;
  }
  return best;
}

inline const char* depth_refusal(const BoxDepth& p, const Arch& arch) {
  return is_integer(p.source) ? depth_size_refusal(p, arch) : "floats, which are added up in groups of planes";
}

inline void configure_depth(const BoxDepth& p, const Arch& arch, Plan& plan) {
  const DepthConfig config{.runs = depth_runs(p), .ending = depth_ending(p)};
  const auto& [runs, ending] = config;
  const bool empty = p.out.n * p.out.c * p.out.d * p.out.h * p.out.w == 0;
  plan.why = "running sums along z: the cost does not grow with the window";
  plan.tile_w = kDepthThreads * runs.pixels;
  plan.tile_h = 1;
  plan.threads = kDepthThreads;
  plan.tile_d = empty ? 1 : int(depth_chunk(p, runs, arch));
  plan.blocks = p.out.n * runs.channels * depth_column_blocks(runs) * ceil_div(p.out.d, plan.tile_d);
  const auto kernel = [&](const char* out, bool plain) {
    return kernel_of("kernels/box/depth/running/kernel.cuh", "box::box_depth", {p.sums.dtype, runs.pixels, out, plain});
  };
  // Vectors whose totals take no more than one product, or a whole mean.
  const bool plain = runs.pixels > 1 && ending.finish != Finish::mean_inside && (ending.area <= 1 || ending.exact);
  const Kernel every = kernel("void", false);
  plan.kernels = {plain ? first_offered(arch, kernel(type_name(p.out.dtype), true), every) : every};
  plan.config = config;
}

}  // namespace torch_conv::box
