// The room's doors on CUDA.
#include "cuda/launch.h"

#include "weight_gradient/plan.h"

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
  const Image &in = p.in, &grad = p.grad;
  float* const sums = static_cast<float*>(site.scratch);
  launch_kernel(*site.kernels[0], {c.splits, unsigned(c.groups), unsigned(c.rounds)}, {kThreads}, 0, site.stream,
                SumsArgs{.in = in.data,
                         .grad = grad.data,
                         .sums = sums,
                         .in_n = unsigned(in.stride_n),
                         .in_c = unsigned(in.stride_c),
                         .in_h = unsigned(in.stride_h),
                         .in_w = unsigned(in.stride_w),
                         .grad_n = unsigned(grad.stride_n),
                         .grad_c = unsigned(grad.stride_c),
                         .grad_h = unsigned(grad.stride_h),
                         .grad_w = unsigned(grad.stride_w),
                         .in_rows = int(in.h),
                         .in_columns = int(in.w),
                         .grad_rows = int(grad.h),
                         .grad_columns = int(grad.w),
                         .pad_y = int(p.place.pad_y),
                         .pad_x = int(p.place.pad_x),
                         .channels = int(grad.c),
                         .taps_y = int(p.kh),
                         .band = int(c.band),
                         .items = unsigned(c.strips * c.bands * grad.n),
                         .strips = FastDivisor::of(unsigned(c.strips)),
                         .bands = FastDivisor::of(unsigned(c.bands)),
                         .multiplier = FastDivisor::of(unsigned(p.multiplier()))});
  const int64_t numbers = p.kh * p.kw + 1, count = grad.c * numbers;
  launch_kernel(*site.kernels[1], {ceil_div(count, 32)}, {32 * kWays}, 0, site.stream,
                FinishArgs{.sums = sums,
                           .weight = p.weight,
                           .bias = p.bias,
                           .blocks = int(c.splits),
                           .taps = int(numbers - 1),
                           .count = unsigned(count),
                           .each = FastDivisor::of(unsigned(numbers))});
}

}  // namespace torch_conv::weight_gradient
