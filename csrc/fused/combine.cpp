// The plan and the launch of `combine` on CUDA: the pointwise end of a stage, where a chain is taken apart.
#include "fused/combine.h"

#include "cuda/launch.h"

namespace torch_conv::fused {

namespace {

int64_t count_pixels(const Combine& p) { return p.out.n * p.out.c * p.out.d * p.out.h * p.out.w; }

const char* pixels_refusal(const Combine& p, const Arch&) {
  return combines(p.point, p.windows) ? nullptr : "no pointwise step of so many windows";
}

void configure_pixels(const Combine& p, const Arch&, Plan& plan) {
  const Dtype sums = p.sums[0].dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  plan.why = "the pointwise end of a stage";
  plan.threads = kCombineThreads;
  plan.blocks = ceil_div(count_pixels(p), kCombineThreads);
  plan.kernels = {kernel_of("fused/kernel_combine.cuh", "fused::fused_combine", {sums})};
}

constexpr Candidate<Combine> kCombineCandidates[] = {{"pixels", pixels_refusal, nullptr, configure_pixels}};

}  // namespace

Plan plan_combine_cuda(const Combine& p, const Arch& arch, const char* pinned) {
  Plan base;
  base.algorithm = "combine";
  base.bytes = double(count_pixels(p)) *
               (p.windows * size_of(p.sums[0].dtype) + count_outputs(p.point, p.windows) * size_of(p.out.dtype) +
                (p.point == Point::sharpen ? size_of(p.centre.dtype) : 0));
  return choose(kCombineCandidates, p, arch, pinned, base);
}

void run_combine_cuda(const Combine& p, const Plan& plan, const Site& site) { launch(plan, site, p, count_pixels(p)); }

}  // namespace torch_conv::fused
