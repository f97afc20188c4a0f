// The kernel family's entry points on CUDA.
#include "runtime/launch.h"

#include "kernels/weight_gradient/arguments.h"

namespace torch_conv::weight_gradient {

Plan plan_cuda(const WeightGradient& p, const Arch& arch, const char* variant) {
  const auto bytes = [](const Image& x) { return double(x.n * x.c) * double(x.h * x.w) * size_of(x.dtype); };
  const double outputs = double(p.grad.n * p.grad.c) * double(p.grad.h * p.grad.w);
  const Plan base{
      .algorithm = "weight_gradient", .bytes = bytes(p.in) + bytes(p.grad), .flops = 2 * outputs * double(p.kh * p.kw)};
  return choose(kCandidates, p, arch, variant, base);
}

void run_cuda(const WeightGradient& p, const Plan& plan, const Site& site) {
  const auto& c = *std::any_cast<Config>(&plan.config);
  float* const sums = static_cast<float*>(site.scratch);
  launch_kernel(*site.kernels[0], {c.splits, unsigned(c.groups), unsigned(c.rounds)}, {kThreads}, 0, site.stream,
                sums_args(p, c, sums));
  const FinishArgs finish = finish_args(p, c, sums);
  launch_kernel(*site.kernels[1], {ceil_div(finish.count, 32)}, {32 * kPartials}, 0, site.stream, finish);
}

}  // namespace torch_conv::weight_gradient
