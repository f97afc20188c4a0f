// Box + Arch -> Plan: the list of variants, and the choice. VARIANT/plan.h says which problems a variant serves and
// how. Pure.
#pragma once

#include "kernels/box/bytes/plan.h"
#include "kernels/box/groups/plan.h"
#include "kernels/box/plain/plan.h"
#include "kernels/box/streaming/plan.h"
#include "kernels/box/strips/plan.h"

namespace torch_conv::box {

// The first variant that serves is chosen.
//
// BYTES is faster than STREAMING for every problem that it serves. H200, us of BYTES and of STREAMING: 4096^2, k = 15
// and reflect 19 and 70, circular 19 and 66, constant 19 and 66, zero_output 20 and 150, skip 27 and 223 (k = 63: 42
// and 227), k = 200 37 and 99; widths of 4093, k = 15 28 and 94; an HWC image of 3 x 4096^2, k = 15 46 and 473; 15 x
// 700 78 and 94; 512^2, k = 5 4.9 and 5.9.
constexpr Candidate<Box> kCandidates[] = {
    {"bytes", bytes_refusal, nullptr, configure_bytes},
    {"streaming", streaming_refusal, nullptr, configure_streaming},
    {"plain", plain_refusal, nullptr, configure_plain},
    {"strips", strips_refusal, nullptr, configure_strips},
    {"groups", groups_refusal, nullptr, configure_groups},
};

inline Plan plan(const Box& p, const Arch& arch, const char* pinned) {
  const double outputs = double(p.out.n * p.out.c * p.out.h * p.out.w);
  return choose(
      kCandidates, p, arch, pinned,
      {.algorithm = "box",
       .bytes = double(p.in.n * p.in.c * p.in.h * p.in.w) * size_of(p.in.dtype) + outputs * size_of(p.out.dtype),
       // A row enters and leaves, then one difference of prefix sums.
       .flops = 4.0 * outputs});
}

}  // namespace torch_conv::box
