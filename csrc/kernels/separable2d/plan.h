// Separable + Arch -> Plan: the list of variants, and the choice. VARIANT/plan.h says which problems a variant serves
// and how; tuning.h compares the speed of two variants. Pure.
#pragma once

#include "kernels/separable2d/line_buffer/plan.h"
#include "kernels/separable2d/mma/plan.h"
#include "kernels/separable2d/mma_general/plan.h"
#include "kernels/separable2d/ring/plan.h"
#include "kernels/separable2d/strip/plan.h"
#include "kernels/separable2d/tile/plan.h"
#include "kernels/separable2d/tuning.h"
#include "kernels/separable2d/two_pass/plan.h"
#include "kernels/separable2d/typed_ring/plan.h"

namespace torch_conv::separable2d {

// STRIP serves planes that both rings refuse: before compute capability 9.0, unaligned rows of 16-bit floats and bytes
// with few taps, and windows whose ring exceeds shared memory. MMA_GENERAL serves where MMA's kernel is not there; its
// speed was not measured.
constexpr Candidate<Separable> kCandidates[] = {
    {"mma", mma_refusal, mma_is_slower, configure_mma, launch_mma, Sums::mma},
    {"ring", ring_refusal, ring_is_slower, configure_ring_bulk, launch_ring},
    {"typed_ring", typed_ring_refusal, typed_ring_is_slower, configure_typed_ring, launch_typed_ring},
    {"ring_unaligned", ring_unaligned_refusal, ring_unaligned_is_slower, configure_ring_unaligned, launch_ring},
    {"tile_tma", tile_tma_refusal, nullptr, configure_tile_tma, launch_tile},
    {"tile", tile_refusal, line_buffer_is_faster, configure_tile_plain, launch_tile},
    {"strip", strip_refusal, line_buffer_is_faster, configure_strip, launch_strip},
    {"line_buffer", line_buffer_refusal, line_buffer_is_slower, configure_line_buffer, launch_line_buffer},
    {"two_pass", two_pass_refusal, nullptr, configure_two_pass, launch_two_pass},
    {"mma_general", mma_general_refusal, mma_is_slower, configure_mma_general, launch_mma_general, Sums::mma, "mma"},
};

inline Plan plan_cuda(const Separable& p, const Arch& arch, const char* pinned) {
  return choose(kCandidates, p, arch, pinned,
                {.algorithm = "separable",
                 .bytes = bytes_of(p.in) + bytes_of(p.out),
                 .flops = 2.0 * elements_of(p.out) * double(p.kh + p.kw)});
}

}  // namespace torch_conv::separable2d
