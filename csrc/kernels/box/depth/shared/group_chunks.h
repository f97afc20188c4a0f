// Shared by the plans of the depth pass for floats: chunks of groups of planes, in the order of kernels/box/order.h.
#pragma once

#include <algorithm>

#include "kernels/box/depth/shared/runs.h"
#include "kernels/box/order.h"

namespace torch_conv::box {

inline const char* depth_floats_refusal(const BoxDepth& p, const Arch& arch) {
  return is_integer(p.source) ? "integers" : depth_size_refusal(p, arch);
}

// Planes of a window that threads keep in registers, 0 of deeper ones.
inline int planes_kept(const BoxDepth& p) { return p.kd <= 2 * kGroup ? int(p.kd) : 0; }

// Bytes of the rings of rests and blocks, which are between a window's first 8 planes and its last.
inline int64_t depth_ring_bytes(const BoxDepth& p, const DepthRuns& runs) {
  if (planes_kept(p) > 0) return 0;
  const int64_t slots = 2 * blocks_of(p.kd) + 1;
  return slots * kDepthThreads * runs.pixels * size_of(p.sums.dtype);
}

// Blocks whose shared memory a multiprocessor has at a time: it has 1024 bytes more than a block may ask for, and takes
// as many for each.
inline int64_t depth_blocks_fitting(const Arch& arch, int64_t shared_bytes) {
  return (arch.shared_bytes + 1024) / (shared_bytes + 1024);
}

// The chunk of depth_chunk, in groups of 8 planes. At most `blocks` blocks are resident on a multiprocessor, fewer if
// their rings do not fit.
inline int64_t depth_group_chunk(const BoxDepth& p, const DepthRuns& r, const Arch& arch, int64_t ring, int blocks) {
  const int64_t columns = p.out.n * r.channels * depth_column_blocks(r);
  const int64_t planes = position_in_group(p.first_plane) + p.out.d, start = std::min(p.kd, 2 * p.sums.d);
  const int64_t fitting = std::max<int64_t>(1, depth_blocks_fitting(arch, ring));
  const int64_t resident = arch.multiprocessors * std::min<int64_t>(blocks, fitting);
  int64_t best = round_up(planes, kGroup), least = INT64_MAX;
  for (int64_t chunks = 1; chunks <= std::min<int64_t>(ceil_div(planes, kGroup), 256); ++chunks) {
    const int64_t length = round_up(ceil_div(planes, chunks), kGroup);
    const int64_t cost = ceil_div(columns * ceil_div(planes, length), resident) * (2 * length + start + kGroup);
    if (cost < least) least = cost, best = length;
  }
  return best;
}

inline void cut_depth_groups(const BoxDepth& p, const Arch& arch, const DepthRuns& runs, int64_t ring, int blocks,
                             Plan& plan) {
  const bool empty = p.out.n * p.out.c * p.out.d * p.out.h * p.out.w == 0;
  plan.tile_w = kDepthThreads * runs.pixels;
  plan.tile_h = 1;
  plan.threads = kDepthThreads;
  plan.tile_d = empty ? kGroup : int(depth_group_chunk(p, runs, arch, ring, blocks));
  plan.blocks = p.out.n * runs.channels * depth_column_blocks(runs) *
                ceil_div(position_in_group(p.first_plane) + p.out.d, plan.tile_d);
}

}  // namespace torch_conv::box
