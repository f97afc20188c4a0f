// ROWS: the problems that it serves, and the division of rows among lanes. Pure.
#pragma once

#include "kernels/causal/config.h"
#include "kernels/causal/rows/params.h"

namespace torch_conv::causal {

void launch_rows(const CausalConv& p, const Plan& plan, const Site& site);

// The alignment of the rows of x and out to vectors of 16 bytes.
inline Alignment alignment_of(const CausalConv& p) {
  const int64_t size = size_of(p.dtype);
  const auto on_vectors = [&](int64_t address, int64_t stride_n, int64_t stride_c) {
    return address % 16 == 0 && (p.n == 1 || stride_n * size % 16 == 0) && (p.c == 1 || stride_c * size % 16 == 0);
  };
  const int64_t x = reinterpret_cast<intptr_t>(p.x.data), out = reinterpret_cast<intptr_t>(p.out.data);
  if (!on_vectors(x - out, p.x.stride_n - p.out.stride_n, p.x.stride_c - p.out.stride_c)) return Alignment::apart;
  return on_vectors(out, p.out.stride_n, p.out.stride_c) && p.l * size % 16 == 0 ? Alignment::whole : Alignment::alike;
}

// The division of a row's vectors among `groups` groups of lanes: `lanes` of a warp take `vectors` vectors each.
// bf16 with silu, one NVIDIA H200, us, whole warps for every row, groups and a copy:
//
//     4x4096x128 8.1, 4.6 (16 lanes), 4.0      4x4096x32 8.0, 2.6, 2.2      4x4096x1134 34.2, 28.9, 21.0
struct LaneGroups {
  int vectors, lanes;
  int64_t groups;  // of lanes, a row
};
inline LaneGroups lane_groups_of(const CausalConv& p) {
  const int64_t vector = 16 / size_of(p.dtype), before = alignment_of(p) == Alignment::whole ? 0 : vector - 1;
  const int64_t vectors = ceil_div(p.l + before, vector);
  if (vectors <= 32) {
    int lanes = 1;
    while (lanes < vectors) lanes *= 2;
    return {1, lanes, 1};
  }
  // Fewer lanes where they leave less of their vectors idle.
  LaneGroups best{2, 32, ceil_div(vectors, 64)};
  for (int lanes = 16; lanes >= 8; lanes /= 2) {
    const int64_t groups = ceil_div(vectors, 2 * lanes);
    if (groups * lanes * 10 < best.groups * best.lanes * 9) best = {2, lanes, groups};
  }
  return best;
}
inline const char* argument_of(Alignment alignment) {
  return alignment == Alignment::whole   ? "causal::Alignment::whole"
         : alignment == Alignment::alike ? "causal::Alignment::alike"
                                         : "causal::Alignment::apart";
}

inline const char* rows_refusal(const CausalConv& p, const Arch&) {
  if (const char* no = narrow_refusal(p)) return no;
  if (p.sequences) return "packed sequences";
  if (p.x.stride_l != 1 || p.out.stride_l != 1) return "elements of a row are not contiguous";
  const LaneGroups split = lane_groups_of(p);
  const int64_t groups = p.n * p.c * split.groups;
  return below(kLargestGrid, {groups, groups * split.lanes / 2}) ? nullptr : "2^32 threads";
}

inline void configure_rows(const CausalConv& p, const Arch&, Plan& plan) {
  plan.why = "lanes take vectors of one row, neighbours by shuffle";
  const LaneGroups split = lane_groups_of(p);
  plan.tile_w = split.vectors * split.lanes * (16 / size_of(p.dtype));
  plan.tile_h = kRowsWarps * 32 / split.lanes;
  plan.threads = kRowsWarps * 32;
  plan.blocks = ceil_div(p.n * p.c * split.groups * split.lanes, plan.threads);
  plan.kernels = {kernel_of("kernels/causal/rows/kernel.cuh", "causal::causal_rows",
                            {p.dtype, p.weights, int(p.k), p.silu, argument_of(alignment_of(p)), split.vectors})};
}

}  // namespace torch_conv::causal
