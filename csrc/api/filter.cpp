// filter2d and filter3d: any window, directly; over images also by FFT or by separable filters.
#include "dispatch/filter/filter.h"

#include "api/filter_call.h"
#include "api/float64.h"
#include "api/operator.h"
#include "api/schema.h"

namespace torch_conv {

namespace {

Tensor filter(Call& call, int axes, const Tensor& input, const Tensor& kernel, const std::string& behaviour,
              const FilterOptions& o) {
  using enum Algorithm;
  FilterCall f = axes == 3 ? FilterCall(call, axes, input, o, {automatic, direct})
                           : FilterCall(call, axes, input, o, {automatic, direct, tensor_core, fft, low_rank});
  check(behaviour == "corr" || behaviour == "conv", call.op, "behaviour must be 'corr' or 'conv', got '", behaviour,
        "'");
  const Sums sums = axes == 2 ? sums_of(f.algorithm) : Sums::chain;
  // All kernels take wide taps, so parts that may read neighbour shards have wide taps. Parts of a depthwise
  // convolution read no neighbour shards, and its kernels need narrow taps.
  const Footprint* whole = shards_of(call).whole_footprint;
  const bool reads_no_shards = !part_of(call) || (whole && whole->algorithm == depthwise);
  const WindowOptions options{.flip = behaviour == "conv",
                              .normalized = f.normalizes_taps(),
                              .narrow = sums != Sums::chain && on_cuda(call, input) && reads_no_shards};
  const Window window = f.window("kernel", kernel, axes, options);
  const Geometry g = f.place_windows(window.size);
  const Target target(call, input);
  FilterRequest request{.call = call,
                        .target = target,
                        .axes = axes,
                        .asked = f.algorithm,
                        .kernel = kernel,
                        .options = options,
                        .window = window,
                        .problem = {.in = f.in.image,
                                    .out = f.expected(g),
                                    .taps = window.taps,
                                    .kd = window.size.d,
                                    .kh = window.size.h,
                                    .kw = window.size.w,
                                    .place = g.place,
                                    .groups = f.in.image.c,
                                    .bias = nullptr,
                                    .peers = peers_of(call, f.in.image, axes),
                                    .sums = sums}};
  // `fill` does not fill an empty result; the refusals of the decision apply all the same.
  if (call.only_footprint() || is_empty(request.problem.out)) {
    const FilterDecision d = dispatch_filter(request);
    call.footprint.algorithm = d.algorithm, call.footprint.sums = d.sums, call.footprint.by_values = d.by_values;
    call.footprint.reads_shards = d.algorithm == direct;
  }
  return f.fill(g, [&](const Image& image) {
    request.problem.out = image;
    if (o.in_float64) run_in_float64(request.problem, f.element);
    else run_filter(request);
  });
}

Tensor filter2d(Call& call, const Tensor& input, const Tensor& kernel, const std::string& border_type,
                const bool& normalized, const std::string& padding, const std::string& behaviour, const double& value,
                const Anchor& anchor, const Sizes& stride, const Sizes& dilation, const Type& output_dtype,
                const std::string& algorithm) {
  return filter(call, 2, input, kernel, behaviour,
                {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm});
}

Tensor filter3d(Call& call, const Tensor& input, const Tensor& kernel, const std::string& border_type,
                const bool& normalized, const std::string& behaviour, const std::string& padding, const double& value,
                const Anchor& anchor, const Sizes& stride, const Sizes& dilation, const Type& output_dtype,
                const std::string& algorithm) {
  return filter(call, 3, input, kernel, behaviour,
                {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm});
}

void filter2d_in_float64(Tensor input, Tensor kernel, std::string border_type, int64_t anchor_y, int64_t anchor_x,
                         Tensor out) {
  Call call{.op = "filter2d", .out = out};
  filter(call, 2, input, kernel, "corr", in_float64(border_type, "direct", anchor_y, anchor_x));
}

// Whether 'auto' computes this filter, with other arguments at their defaults, by separable passes.
bool filter2d_by_passes(Tensor input, Tensor kernel) {
  Call call{.op = "filter2d", .purpose = Purpose::footprint};
  filter2d(call, input, kernel, "reflect", false, "same", "corr", 0, std::nullopt, {1, 1}, {1, 1}, std::nullopt,
           "auto");
  return call.footprint.algorithm == Algorithm::low_rank;
}

int64_t filter2d_least_taps() { return kLeastLowRankTaps; }

void register_operators(torch::stable::detail::StableLibrary& m) {
  Operator<"filter2d", 2, 2, filter2d>::implement_with_out(m);
  Operator<"filter3d", 3, 3, filter3d>::implement_with_out(m);
  m.impl("_filter2d_by_passes", boxed<&filter2d_by_passes, "_filter2d_by_passes">);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  define_with_out(
      m,
      "filter2d(Tensor input, Tensor kernel, str border_type='reflect', bool normalized=False, str padding='same', "
      "str behaviour='corr', *, float value=0.0, int[2]? anchor=None, int[2] stride=1, int[2] dilation=1, "
      "ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  // kornia's order of arguments and border
  define_with_out(m,
                  "filter3d(Tensor input, Tensor kernel, str border_type='replicate', bool normalized=False, "
                  "str behaviour='corr', *, str padding='same', float value=0.0, int[3]? anchor=None, int[3] stride=1, "
                  "int[3] dilation=1, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def("_filter2d_least_taps() -> int");
  // Whether filter2d computes a window of low rank by separable passes, for torch_conv.kernels.prepare.
  m.def("_filter2d_by_passes(Tensor input, Tensor kernel) -> bool");
  // Sums in float64 for any dtype of the image, for compat.cv2 on the CPU (api/float64.h).
  m.def(
      "_filter2d_in_float64(Tensor input, Tensor kernel, str border_type, int anchor_y, int anchor_x, "
      "Tensor(a!) out) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) {
  register_operators(m);
  implement_in_float64<&filter2d_in_float64, "_filter2d_in_float64">(m);
}
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CompositeExplicitAutograd, m) {
  m.impl("_filter2d_least_taps", boxed<&filter2d_least_taps, "_filter2d_least_taps">);
}

}  // namespace torch_conv
