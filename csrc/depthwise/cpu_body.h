// The depthwise room's loops. Text of core/cpu_each_isa.h: compiled once per instruction set.
//
// Lanes are the pixels of a row (cpu_planes.h, cpu_plane_strips.h) or the channels of a pixel (cpu_channels.h;
// cpu_blocks.h turns planes so that they are); in cpu_pairs.h and cpu_pair_channels.h a lane takes two at once. Every
// sum is one chain of multiply-adds that starts at 0 and goes row by row, so bits do not depend on which.

// clang-format off
#include "depthwise/cpu_lanes.h"
#include "depthwise/cpu_channels.h"
#include "depthwise/cpu_plane_tiles.h"
#include "depthwise/cpu_planes.h"
#include "depthwise/cpu_blocks.h"
#if TC_X86_FMA && TC_VEC_BYTES == 64
#include "depthwise/cpu_plane_strips.h"
#ifdef TC_X86_BF16
#include "depthwise/cpu_pairs.h"
#include "depthwise/cpu_pair_channels.h"
#include "depthwise/cpu_pair_blocks.h"
#endif
#endif
// clang-format on

template <typename A>
void depthwise_units(const Depthwise& p, const Plan& plan, Range units) {
  if (std::strcmp(plan.variant, "channels") == 0) channel_units<A>(p, plan, units);
  else if (std::strcmp(plan.variant, "blocks") == 0) block_units<A>(p, plan, units);
  else plane_units<A>(p, plan, units);
}
