// filter2d_separable and filter3d_separable: one pass an axis.
#include "api/filter_call.h"
#include "api/float64.h"
#include "api/operator.h"
#include "api/schema.h"
#include "dispatch/dispatch.h"

namespace torch_conv {

namespace {

// Whether the filter keeps every other pixel of every other row. The fused kernel family filters only these rows.
bool halves(const Extent& window, const Geometry& g, const Image& image, bool valid) {
  const Placement& at = g.place;
  return g.out.h == ceil_div(image.h, 2) && g.out.w == ceil_div(image.w, 2) && at.stride_y == 2 && at.stride_x == 2 &&
         at.dilation_y == 1 && at.dilation_x == 1 && !valid && window.h % 2 == 1 && window.w % 2 == 1 &&
         at.pad_y == window.h / 2 && at.pad_x == window.w / 2 && !at.normalized;
}

// `kernels` along x, y and, with three axes, z.
Tensor separable(Call& call, const Tensor& input, const std::vector<Tensor>& kernels, const FilterOptions& o) {
  static constexpr const char* names[] = {"kernel_x", "kernel_y", "kernel_z"};
  const int axes = int(kernels.size());
  using enum Algorithm;
  FilterCall f = axes == 3 ? FilterCall(call, axes, input, o, {automatic, Algorithm::separable})
                           : FilterCall(call, axes, input, o, {automatic, fused, Algorithm::separable, tensor_core});
  std::vector<Window> windows;
  for (int i = 0; i < axes; ++i)
    windows.push_back(f.window(names[i], kernels[i], 1, {.normalized = f.normalizes_taps()}));
  const Extent size{.d = axes == 3 ? windows[2].size.w : 1, .h = windows[1].size.w, .w = windows[0].size.w};
  const Geometry g = f.place_windows(size);
  const bool halving = axes == 2 && halves(size, g, f.in.image, f.valid);
  check(halving || f.algorithm != fused || part_of(call), call.op,
        "algorithm 'fused' serves odd windows in their middle, with stride 2, dilation 1 and padding='same'");
  call.footprint.reads_shards = !halving;
  return f.fill(g, [&](const Image& image) {
    const Target target(call, input);
    for (Window& window : windows) upload_large(call, window, input);
    Separable p{.in = f.in.image,
                .out = image,
                .taps_x = windows[0].taps,
                .taps_y = windows[1].taps,
                .taps_z = {},
                .kd = size.d,
                .kh = size.h,
                .kw = size.w,
                .place = g.place,
                .peers = peers_of(call, f.in.image, axes),
                .sums = axes == 2 ? sums_of(f.algorithm) : Sums::chain};
    if (axes == 3) p.taps_z = windows[2].taps;
    if (o.in_float64) run_in_float64(p, f.element);
    else run_separable(call, target, f.in, axes, p, f.algorithm, halving);
  });
}

Tensor separable2d(Call& call, const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y,
                   const std::string& border_type, const bool& normalized, const std::string& padding,
                   const double& value, const Anchor& anchor, const Sizes& stride, const Sizes& dilation,
                   const Type& output_dtype, const std::string& algorithm) {
  return separable(call, input, {kernel_x, kernel_y},
                   {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm});
}

Tensor separable3d(Call& call, const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y,
                   const Tensor& kernel_z, const std::string& border_type, const bool& normalized,
                   const std::string& padding, const double& value, const Anchor& anchor, const Sizes& stride,
                   const Sizes& dilation, const Type& output_dtype, const std::string& algorithm) {
  return separable(call, input, {kernel_x, kernel_y, kernel_z},
                   {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm});
}

void separable2d_in_float64(Tensor input, Tensor kernel_x, Tensor kernel_y, std::string border_type, int64_t anchor_y,
                            int64_t anchor_x, Tensor out) {
  Call call{.op = "filter2d_separable", .out = out};
  separable(call, input, {kernel_x, kernel_y}, in_float64(border_type, "separable", anchor_y, anchor_x));
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  Operator<"filter2d_separable", 2, 1, separable2d>::implement_with_out(m);
  Operator<"filter3d_separable", 3, 1, separable3d>::implement_with_out(m);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  define_with_out(m,
                  "filter2d_separable(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', "
                  "bool normalized=False, str padding='same', *, float value=0.0, int[2]? anchor=None, "
                  "int[2] stride=1, int[2] dilation=1, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  define_with_out(m,
                  "filter3d_separable(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, "
                  "str border_type='replicate', bool normalized=False, *, str padding='same', float value=0.0, "
                  "int[3]? anchor=None, int[3] stride=1, int[3] dilation=1, ScalarType? output_dtype=None, "
                  "str algorithm='auto') -> Tensor");
  m.def(
      "_filter2d_separable_in_float64(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type, int anchor_y, "
      "int anchor_x, Tensor(a!) out) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) {
  register_operators(m);
  implement_in_float64<&separable2d_in_float64, "_filter2d_separable_in_float64">(m);
}
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
