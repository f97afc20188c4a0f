// filter2d and filter3d: any window, directly.
#include "ops/filters.h"
#include "ops/operator.h"
#include "ops/rooms.h"
#include "ops/windows.h"

namespace torch_conv {

namespace {

Sums sums_of(const std::string& algorithm) {
  return algorithm == "direct" ? Sums::chain : algorithm == "tensor_core" ? Sums::products : Sums::any;
}

Tensor filter(Call& call, int axes, const Tensor& input, const Tensor& kernel, const std::string& behaviour,
              const FilterOptions& o) {
  static constexpr const char* algorithms[] = {"auto", "direct", "tensor_core"};
  check_input(call.op, input, axes);
  check_algorithm(call.op, o.algorithm, std::span(algorithms).first(axes == 2 ? 3 : 2));
  check(behaviour == "corr" || behaviour == "conv", call.op, "behaviour must be 'corr' or 'conv', got '", behaviour,
        "'");
  if (call.out) check_no_overlap(call.op, *call.out, "kernel", kernel);
  const ImageView in = view_input(call, input, axes);
  Window window = prepare_window(call, "kernel", kernel, axes, input, in.image, axes,
                                 {.flip = behaviour == "conv", .normalized = normalize_taps(call.op, o)});
  const Geometry g = place_window(call, in.image, window.size, axes, o);
  call.reach.direct = axes == 2;
  return produce(call, input, in, axes, g, o, [&](const Image& image) {
    const Place place(call, input);
    upload_large(call, window, input);
    const Direct p{.in = in.image,
                   .out = image,
                   .taps = window.taps,
                   .kd = window.size.d,
                   .kh = window.size.h,
                   .kw = window.size.w,
                   .place = g.place,
                   .groups = in.image.c,
                   .bias = nullptr,
                   .beside = beside_of(call, in.image, axes),
                   .sums = axes == 2 ? sums_of(o.algorithm) : Sums::chain};
    run(call, place, input, p);
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

void register_operators(torch::stable::detail::StableLibrary& m) {
  Operator<"filter2d", 2, 2, filter2d>::implement_with_out(m);
  Operator<"filter3d", 3, 3, filter3d>::implement_with_out(m);
}

}  // namespace

// One function serves both: the rooms part by device.
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
