// Fused + Arch -> Plan: the variants of this kernel family in the order of preference. Pure.
#pragma once

#include "kernels/fused/line_buffers/plan.h"
#include "kernels/fused/streaming/plan.h"
#include "kernels/fused/tile/plan.h"
#include "kernels/fused/tuning.h"

namespace torch_conv::fused {

// In the order of preference.
constexpr Candidate<Fused> kCandidates[] = {
    {"streaming", streaming_refusal, streaming_is_slower, configure_streaming, launch_streaming},
    {"tile_tma", tile_tma_refusal, tile_is_slower, configure_tile_tma, launch_tile},
    {"tile", tile_refusal, tile_is_slower, configure_tile_plain, launch_tile},
    {"line_buffers", line_buffers_refusal, line_buffers_is_slower, configure_line_buffers, launch_line_buffers},
};

inline Plan plan_cuda(const Fused& p, const Arch& arch, const char* pinned) {
  Plan base;
  base.algorithm = "fused";
  const double pixels = double(p.in.n) * double(p.in.c) * double(p.out.h) * double(p.out.w);
  base.bytes = double(p.in.n * p.in.c * p.in.h * p.in.w) * size_of(p.in.dtype) +
               p.stages[p.count - 1].outputs() * pixels * size_of(p.out.dtype);
  for (int s = 0; s < p.count; ++s) base.flops += 4.0 * p.stages[s].windows * double(p.stages[s].kh) * pixels;
  return choose(kCandidates, p, arch, pinned, base);
}

}  // namespace torch_conv::fused
