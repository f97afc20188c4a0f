// The variants of this kernel family.
#pragma once

#include "kernels/weight_gradient/general/plan.h"
#include "kernels/weight_gradient/streaming/plan.h"

namespace torch_conv::weight_gradient {

constexpr Candidate<WeightGradient> kCandidates[] = {
    {"streaming", streaming_refusal, nullptr, configure_streaming, launch_streaming},
    {"general", streaming_refusal, general_is_slower, configure_general, launch_general, Sums::chain, "streaming"},
};

inline Plan plan_cuda(const WeightGradient& p, const Arch& arch, const char* pinned) {
  const auto bytes = [](const Image& x) { return double(x.n * x.c) * double(x.h * x.w) * size_of(x.dtype); };
  const double outputs = double(p.grad.n * p.grad.c) * double(p.grad.h * p.grad.w);
  return choose(kCandidates, p, arch, pinned,
                {.algorithm = "weight_gradient",
                 .bytes = bytes(p.in) + bytes(p.grad),
                 .flops = 2 * outputs * double(p.kh * p.kw)});
}

}  // namespace torch_conv::weight_gradient
