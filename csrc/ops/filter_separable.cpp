// filter2d_separable and filter3d_separable: one pass an axis.
#include "ops/filters.h"
#include "ops/rooms.h"
#include "ops/volumes.h"
#include "ops/windows.h"

namespace torch_conv {

namespace {

static constexpr const char* algorithms[] = {"auto", "separable"};

// Taps of sample n where every sample has its own, whose windows then are those of an image with z as sample axis.
Taps of_sample(const Taps& taps, int64_t n, Dtype image) {
  Taps own = taps;
  own.data = static_cast<const char*>(taps.data) + n * taps.stride_n * (image == Dtype::f64 ? 8 : 4);
  own.stride_n = 0;
  return own;
}

// The input between two planes of `value`, in the accumulation dtype: a border of that value is not a value to the
// depth pass, which reads planes that have been filtered, but what repeats these two.
ImageView between_planes(const char* op, const ImageView& in, const Separable& p) {
  const ScalarType type = accumulation_type(p.in.dtype);
  const int64_t last = (p.out.d - 1) * p.place.stride_z + (p.kd - 1) * p.place.dilation_z - p.place.pad_z;
  const Sizes pads{0, 0, 0, 0, p.place.pad_z > 0, last >= p.in.d};
  if (explain_mode()) {
    const Extent size{.d = p.in.d + pads[4] + pads[5], .h = p.in.h, .w = p.in.w};
    return view_input(op, empty_result(in.tensor, resized(in.tensor, size, 3), 3, type), 3);
  }
  const Tensor wide = in.tensor.scalar_type() == type ? in.tensor : torch::stable::to(in.tensor, type);
  return view_input(op, torch::stable::pad(wide, pads, "constant", p.place.value), 3);
}

// Every plane into scratch memory, then along z.
void in_two_passes(const char* op, const Place& place, const Tensor& input, ImageView in, Separable p) {
  Placement along_z = p.place;
  along_z.pad_y = along_z.pad_x = 0;
  along_z.stride_y = along_z.stride_x = along_z.dilation_y = along_z.dilation_x = 1;
  if (p.place.border == Border::constant && p.place.value != 0 && p.kd > 1) {
    in = between_planes(op, in, p);
    p.in = in.image;
    along_z.pad_z -= along_z.pad_z > 0;
    along_z.border = Border::replicate;
  }
  const Tensor scratch = empty_result(in.tensor, resized(in.tensor, {.d = p.in.d, .h = p.out.h, .w = p.out.w}, 3), 3,
                                      accumulation_type(p.in.dtype));
  const Image planes = *merge_leading(scratch, p.in.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32, 3);
  const bool own_samples = p.taps_x.stride_n || p.taps_y.stride_n;
  const bool own_channels = p.taps_x.stride_c || p.taps_y.stride_c;
  for_each_plane(p.in, planes, own_samples, own_channels, [&](const Image& from, const Image& to, int64_t n) {
    Separable q = p;
    q.in = from, q.out = to, q.kd = 1;
    q.taps_x = of_sample(p.taps_x, n, p.in.dtype), q.taps_y = of_sample(p.taps_y, n, p.in.dtype);
    q.place.pad_z = 0, q.place.stride_z = q.place.dilation_z = 1;
    run(op, place, input, q);
  });
  const auto depth = [&](Range y, Range x, const Taps& taps, int64_t kd, const Placement& at) {
    if (y.size() == 0 || x.size() == 0) return;
    run(op, place, input,
        Direct{.in = cut(planes, y, x),
               .out = cut(p.out, y, x),
               .taps = taps,
               .kd = kd,
               .kh = 1,
               .kw = 1,
               .place = at,
               .groups = planes.c,
               .bias = nullptr});
  };
  const Range rows{0, p.out.h}, columns{0, p.out.w};
  if (p.place.border != Border::zero_output) return depth(rows, columns, p.taps_z, p.kd, along_z);
  // Where the window does not fit in y or x the planes hold 0, which a tap of Inf or NaN would not keep: there one tap
  // of 1 does.
  const Placement& s = p.place;
  const Range y = outputs_inside(rows, p.kh, s.pad_y, s.stride_y, s.dilation_y, p.in.h);
  const Range x = outputs_inside(columns, p.kw, s.pad_x, s.stride_x, s.dilation_x, p.in.w);
  const double one = 1;
  const float one_float = 1;
  Taps keep{.data = &one_float, .on_host = place.cuda(), .stride_n = 0, .stride_c = 0, .stride_ci = 0};
  if (p.in.dtype == Dtype::f64) keep.data = &one;
  depth(y, x, p.taps_z, p.kd, along_z);
  const Placement still{.pad_y = 0, .pad_x = 0};
  depth({0, y.begin}, columns, keep, 1, still);
  depth({y.end, p.out.h}, columns, keep, 1, still);
  depth(y, {0, x.begin}, keep, 1, still);
  depth(y, {x.end, p.out.w}, keep, 1, still);
}

// `kernels`: along x, then y, then z where there are three axes.
Tensor separable(const char* op, const Tensor& input, const std::vector<Tensor>& kernels, const FilterOptions& o,
                 const std::optional<Tensor>& out) {
  static constexpr const char* names[] = {"kernel_x", "kernel_y", "kernel_z"};
  const int axes = int(kernels.size());
  check_input(op, input, axes);
  check_algorithm(op, o.algorithm, algorithms);
  for (int i = 0; out && i < axes; ++i) check_no_overlap(op, *out, names[i], kernels[i]);
  const ImageView in = view_input(op, input, axes);
  const WindowOptions options{.flip = false, .normalized = normalize_taps(op, o)};
  std::vector<Window> windows;
  for (int i = 0; i < axes; ++i)
    windows.push_back(prepare_window(op, names[i], kernels[i], 1, input, in.image, axes, options));
  const Extent size{.d = axes == 3 ? windows[2].size.w : 1, .h = windows[1].size.w, .w = windows[0].size.w};
  const Geometry g = place_window(op, in.image, size, axes, o);
  return produce(op, input, in, axes, g, o, out, [&](const Image& image) {
    const Place place(op, input);
    for (Window& window : windows) upload_large(window, input, place.stream());
    const Separable problem{.in = in.image,
                            .out = image,
                            .taps_x = windows[0].taps,
                            .taps_y = windows[1].taps,
                            .taps_z = axes == 3 ? windows[2].taps : Taps{},
                            .kd = size.d,
                            .kh = size.h,
                            .kw = size.w,
                            .place = g.place};
    if (axes == 2) run(op, place, input, problem);
    else if (!run_in_one_launch(op, place, input, problem)) in_two_passes(op, place, input, in, problem);
  });
}

Tensor separable2d_op(Tensor input, Tensor kernel_x, Tensor kernel_y, std::string border_type, bool normalized,
                      std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation, Type output_dtype,
                      std::string algorithm) {
  return separable("filter2d_separable", input, {kernel_x, kernel_y},
                   {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm}, {});
}

void separable2d_out_op(Tensor input, Tensor kernel_x, Tensor kernel_y, std::string border_type, bool normalized,
                        std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation,
                        std::string algorithm, Tensor out) {
  separable("filter2d_separable", input, {kernel_x, kernel_y},
            {border_type, normalized, padding, value, anchor, stride, dilation, {}, algorithm}, out);
}

Tensor separable3d_op(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, std::string border_type,
                      bool normalized, std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation,
                      Type output_dtype, std::string algorithm) {
  return separable("filter3d_separable", input, {kernel_x, kernel_y, kernel_z},
                   {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm}, {});
}

void separable3d_out_op(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, std::string border_type,
                        bool normalized, std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation,
                        std::string algorithm, Tensor out) {
  separable("filter3d_separable", input, {kernel_x, kernel_y, kernel_z},
            {border_type, normalized, padding, value, anchor, stride, dilation, {}, algorithm}, out);
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  m.impl("filter2d_separable", TORCH_BOX(&separable2d_op));
  m.impl("filter2d_separable_out", TORCH_BOX(&separable2d_out_op));
  m.impl("filter3d_separable", TORCH_BOX(&separable3d_op));
  m.impl("filter3d_separable_out", TORCH_BOX(&separable3d_out_op));
}

}  // namespace

// One function serves both: the rooms part by device.
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
