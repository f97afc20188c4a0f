// box2d and box3d: the sum or mean under a window.
#include "api/filter_call.h"
#include "api/float64.h"
#include "api/operator.h"
#include "api/schema.h"
#include "dispatch/dispatch.h"
#include "kernels/box/order.h"

namespace torch_conv {

namespace {

Tensor box(Call& call, int axes, const Tensor& input, const Sizes& kernel_size, const FilterOptions& o) {
  const char* op = call.op;
  FilterCall f(call, axes, input, o, {Algorithm::automatic, Algorithm::box, Algorithm::separable});
  Image& in = f.in.image;
  if (is_integer(f.element)) in.dtype = f.element;  // their sums are exact
  check_per_axis(op, "kernel_size", kernel_size, axes);
  const Extent size{.d = axes == 3 ? kernel_size[0] : 1, .h = kernel_size[axes - 2], .w = kernel_size[axes - 1]};
  const double volume = double(size.d) * double(size.h) * double(size.w);
  check(!is_integer(in.dtype) || volume <= double(INT64_MAX >> 16), op,
        "windows over integer images must hold at most 2^47 pixels");
  const Geometry g = f.place_windows(size);
  if (!is_integer(in.dtype)) call.footprint.axis[0].group = call.footprint.axis[1].group = box::kGroup;
  call.footprint.reads_shards = true;
  Placement placement = g.place;
  // With 'valid' padding every window is inside the volume, so the scale is exact.
  if (axes == 3 && f.valid) placement.normalized = false;
  return f.fill(g, [&](const Image& image) {
    run_box(call, Target(call, input),
            {.axes = axes,
             .asked = f.algorithm,
             .in = f.in,
             .element = f.element,
             .problem = {.in = in,
                         .out = image,
                         .kd = size.d,
                         .kh = size.h,
                         .kw = size.w,
                         .scale = o.normalized ? 1.0 / volume : 1.0,
                         .place = placement,
                         .peers = peers_of(call, in, axes)}});
  });
}

Tensor box2d(Call& call, const Tensor& input, const Sizes& kernel_size, const std::string& border_type,
             const bool& normalized, const std::string& padding, const double& value, const Anchor& anchor,
             const Type& output_dtype, const std::string& algorithm) {
  return box(call, 2, input, kernel_size,
             {border_type, normalized, padding, value, anchor, {1, 1}, {1, 1}, output_dtype, algorithm});
}

Tensor box3d(Call& call, const Tensor& input, const Sizes& kernel_size, const std::string& border_type,
             const bool& normalized, const std::string& padding, const double& value, const Anchor& anchor,
             const Type& output_dtype, const std::string& algorithm) {
  return box(call, 3, input, kernel_size,
             {border_type, normalized, padding, value, anchor, {1, 1, 1}, {1, 1, 1}, output_dtype, algorithm});
}

void box2d_in_float64(Tensor input, int64_t kh, int64_t kw, std::string border_type, bool normalized, int64_t anchor_y,
                      int64_t anchor_x, Tensor out) {
  Call call{.op = "box_blur", .out = out};
  FilterOptions options = in_float64(border_type, "auto", anchor_y, anchor_x);
  options.normalized = normalized;
  box(call, 2, input, {kh, kw}, options);
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  Operator<"box2d", 2, 1, box2d>::implement_with_out(m);
  Operator<"box3d", 3, 1, box3d>::implement_with_out(m);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  define_with_out(
      m,
      "box2d(Tensor input, int[2] kernel_size, str border_type='reflect', bool normalized=True, str padding='same', "
      "*, float value=0.0, int[2]? anchor=None, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  define_with_out(m,
                  "box3d(Tensor input, int[3] kernel_size, str border_type='replicate', bool normalized=True, *, "
                  "str padding='same', float value=0.0, int[3]? anchor=None, ScalarType? output_dtype=None, "
                  "str algorithm='auto') -> Tensor");
  m.def(
      "_box2d_in_float64(Tensor input, int height, int width, str border_type, bool normalized, int anchor_y, "
      "int anchor_x, Tensor(a!) out) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) {
  register_operators(m);
  implement_in_float64<&box2d_in_float64, "_box2d_in_float64">(m);
}
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
