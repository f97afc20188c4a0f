// PLAIN: fresh sums for every row, any window. Pure.
#pragma once

#include "kernels/box/config.h"

namespace torch_conv::box {

void launch_plain(const Box& p, const Plan& plan, const Site& site);

constexpr int kPlainThreads = 256;

inline const char* plain_refusal(const Box& p, const Arch&) {
  return is_integer(p.in.dtype) ? alone_refusal(p) : kOnlyIntegers;
}

inline void configure_plain(const Box& p, const Arch&, Plan& plan) {
  plan.why = "sums of their own for every row: any window";
  plan.tile_w = kPlainThreads;
  plan.tile_h = 1;
  plan.threads = kPlainThreads;
  plan.shared_bytes = kPlainThreads * 8;
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.w, kPlainThreads) * p.out.h;
  plan.kernels = {kernel_of("kernels/box/plain/kernel.cuh", "box::box_plain", {p.in.dtype, sum_type(p)})};
}

}  // namespace torch_conv::box
