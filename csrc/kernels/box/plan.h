// Box + Arch -> Plan. VARIANT/plan.h says which problems a variant serves and how. Pure.
#pragma once

#include "kernels/box/tuning.h"

namespace torch_conv::box {

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
