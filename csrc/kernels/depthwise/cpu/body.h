// The depthwise kernel family's loops. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
// Lanes are the pixels of a row (planes.h, plane_strips.h) or the channels of a pixel (channels.h, and blocks.h, which
// transposes planes). A lane holds two numbers of bfloat16 in pairs.h (pixels of a row), pair_channels.h (channels) and
// pair_blocks.h (transposed planes). Every sum is one chain of multiply-adds that starts at 0 and goes row by row. So
// all loops make the same bits.

// clang-format off
#include "core/cpu/activation.h"
#include "kernels/depthwise/cpu/lanes.h"
#include "kernels/depthwise/cpu/channels.h"
#include "kernels/depthwise/cpu/plane_tiles.h"
#include "kernels/depthwise/cpu/planes.h"
#include "kernels/depthwise/cpu/blocks.h"
#if TC_X86_FMA && TC_VEC_BYTES == 64
#include "kernels/depthwise/cpu/plane_strips.h"
#ifdef TC_X86_BF16
#include "kernels/depthwise/cpu/pairs.h"
#include "kernels/depthwise/cpu/pair_channels.h"
#include "kernels/depthwise/cpu/pair_blocks.h"
#endif
#endif
// clang-format on

template <typename A>
void depthwise_units(const Depthwise& p, const Plan& plan, Range units) {
  if (std::strcmp(plan.variant, "channels") == 0) channel_units<A>(p, plan, units);
  else if (std::strcmp(plan.variant, "blocks") == 0) block_units<A>(p, plan, units);
  else plane_units<A>(p, plan, units);
}

#ifdef TC_X86_BF16
// The variants of pairs, for problems that the refusals of plan.h allow.
template <int K>
void pair_units_of(const Depthwise& p, const Plan& plan, Range units) {
  if (std::strcmp(plan.variant, "channel_pairs") == 0) return channel_pair_units<K>(p, plan, units);
  if (std::strcmp(plan.variant, "block_pairs") == 0) return each_block_unit<PairBlocks<K>>(p, plan, units);
  if (p.place.stride_x == 1) return strip_units<PairStrip<K, 1>>(p, plan, units);
  if constexpr (K < 7) strip_units<PairStrip<K, 2>>(p, plan, units);
}

void pair_units(const Depthwise& p, const Plan& plan, Range units) {
  const auto run = p.kw == 3 ? pair_units_of<3> : p.kw == 5 ? pair_units_of<5> : pair_units_of<7>;
  run(p, plan, units);
}
#endif
