// box2d and box3d: the sum or mean under a window.
#include <cmath>
#include <cstddef>
#include <cstring>

#include "api/filters.h"
#include "api/float64.h"
#include "api/operator.h"
#include "api/schema.h"
#include "core/ranges.h"
#include "dispatch/dispatch.h"
#include "dispatch/volumes.h"
#include "graph/launch_graph.h"
#include "kernels/box/order.h"

namespace torch_conv {

namespace {

// Whether the separable kernel family serves a box: small windows over floats, on every device and in any layout, so
// that bits are the same everywhere. On CUDA its compiled windows are faster than the box kernel family's: 3x3 of
// float32 8192^2 has 95 against 50 % of a copy's speed (one NVIDIA H200). Running sums of integers are exact.
bool separable_serves(const Box& p) {
  return !is_integer(p.in.dtype) && p.out.dtype == p.in.dtype && p.kh == p.kw && p.kh % 2 == 1 && p.kh <= 13 &&
         p.place.border != Border::skip;
}

// The window as rows of taps along x, y and z in the accumulation dtype. The last row holds the scale.
using BoxTaps = std::shared_ptr<std::vector<std::byte>>;
BoxTaps taps_of_box(const Call& call, const Box& p, bool volume) {
  const int64_t count = p.kw + p.kh + p.kd, bytes = acc_bytes(p.in.dtype);
  const Range scaled = volume ? Range{p.kw + p.kh, count} : Range{p.kw, p.kw + p.kh};
  const auto taps = std::make_shared<std::vector<std::byte>>(count * bytes);
  for (int64_t i = 0; i < count; ++i) {
    const double wide = i >= scaled.begin && i < scaled.end ? p.scale : 1.0;
    const float narrow = float(wide);
    std::memcpy(taps->data() + i * bytes, bytes == 8 ? static_cast<const void*>(&wide) : &narrow, bytes);
  }
  if (call.graph) call.graph->keep(taps, taps->data(), count * bytes);
  return taps;
}

Separable as_separable(const Box& p, const BoxTaps& taps, bool cuda) {
  const auto shared = [&](int64_t first) {
    return Taps{.data = taps->data() + first * acc_bytes(p.in.dtype),
                .on_host = cuda,
                .stride_n = 0,
                .stride_c = 0,
                .stride_ci = 0};
  };
  return {.in = p.in,
          .out = p.out,
          .taps_x = shared(0),
          .taps_y = shared(p.kw),
          .taps_z = shared(p.kw + p.kh),
          .kd = p.kd,
          .kh = p.kh,
          .kw = p.kw,
          .place = p.place,
          .peers = p.peers};
}

// float32 holds sums of whole numbers below 2^24 exactly; larger sums of integers need float64. Floats take the
// accumulation dtype.
Dtype sums_dtype(const Box& p) {
  if (!is_integer(p.in.dtype)) return accumulation_dtype(p.in.dtype);
  double largest = p.in.dtype == Dtype::u8 ? 255 : 65535;
  if (p.place.border == Border::constant) {
    if (p.place.value != std::rint(p.place.value)) return Dtype::f64;
    largest = std::max(largest, std::abs(p.place.value));
  }
  return largest * double(p.kh) * double(p.kw) < double(1 << 24) ? Dtype::f32 : Dtype::f64;
}

// The first output of the call along an axis, and the size of the whole image, where the call's image has n pixels.
struct AxisPart {
  int64_t first, whole;
};
AxisPart axis_part(const Call& call, int axis, int64_t n) {
  return call.part && call.part->axis == axis ? AxisPart{call.part->first, call.part->whole_rows} : AxisPart{0, n};
}

// Sums the planes' windows into scratch memory, then along z.
void planes_then_depth(Call& call, const Target& target, const ImageView& in, Box p, bool valid) {
  if (valid) p.place.normalized = false;  // every window lies inside, so the scale has its volume
  const Dtype dtype = sums_dtype(p);
  const double area = double(p.kh) * double(p.kw);
  const AxisPart planes = axis_part(call, 0, p.in.d);
  const Tensor scratch = empty_result(call, in.tensor, resized(in.tensor, {.d = p.in.d, .h = p.out.h, .w = p.out.w}, 3),
                                      3, scalar_type_of(dtype));
  const Image sums = *merge_leading(scratch, dtype, 3);
  for_each_plane(p.in, sums, false, false, [&](const Image& from, const Image& to, int64_t) {
    Box q = p;
    q.in = from, q.out = to, q.kd = 1, q.scale = 1;
    q.place.pad_z = 0, q.place.normalized = false;
    run(call, target, q);
  });
  run(call, target,
      BoxDepth{.sums = sums,
               .out = p.out,
               .source = p.in.dtype,
               .kd = p.kd,
               .kh = p.kh,
               .kw = p.kw,
               .scale = p.scale,
               .outside = p.place.value * area,
               .place = p.place,
               .plane_h = p.in.h,
               .plane_w = p.in.w,
               .first_plane = planes.first,
               .whole_d = planes.whole});
}

Tensor box(Call& call, int axes, const Tensor& input, const Sizes& kernel_size, const FilterOptions& o) {
  const char* op = call.op;
  check_input(op, input, axes);
  const Algorithm algorithm =
      algorithm_of(op, o.algorithm, {Algorithm::automatic, Algorithm::box, Algorithm::separable});
  check_per_axis(op, "kernel_size", kernel_size, axes);
  const Extent size{.d = axes == 3 ? kernel_size[0] : 1, .h = kernel_size[axes - 2], .w = kernel_size[axes - 1]};
  ImageView in = view_input(call, input, axes);
  const Dtype element = in.image.dtype;
  const bool wide = o.in_float64 && !is_integer(element);  // sums of integers are exact
  if (wide) in.image.dtype = Dtype::f64;
  const double volume = double(size.d) * double(size.h) * double(size.w);
  check(!is_integer(in.image.dtype) || volume <= double(INT64_MAX >> 16), op,
        "windows over integer images must hold at most 2^47 pixels");
  const Geometry g = place_window(call, in.image, size, axes, o);
  if (!is_integer(in.image.dtype)) call.footprint.axis[0].group = call.footprint.axis[1].group = box::kGroup;
  call.footprint.reads_shards = true;
  return fill_result(call, input, in, axes, g, o, [&](const Image& image) {
    const Target target(call, input);
    const AxisPart rows = axis_part(call, 1, in.image.h), columns = axis_part(call, 2, in.image.w);
    const Box problem{.in = in.image,
                      .out = image,
                      .kd = size.d,
                      .kh = size.h,
                      .kw = size.w,
                      .scale = o.normalized ? 1.0 / volume : 1.0,
                      .place = g.place,
                      .first_row = rows.first,
                      .whole_h = rows.whole,
                      .whole_w = columns.whole,
                      .peers = peers_of(call, in.image, axes)};
    const bool separable = algorithm != Algorithm::box && separable_serves(problem);
    if (axes == 3) {
      if (separable && size.d == size.h && in.image.dtype != Dtype::f64) {
        const BoxTaps taps = taps_of_box(call, problem, true);
        return run_passes(call, target, in, axes, as_separable(problem, taps, target.cuda()));
      }
      check(algorithm != Algorithm::separable, op,
            "algorithm 'separable' serves odd cubic windows up to 13x13x13 of volumes of floats of 32 and 16 bits, in "
            "their own dtype");
      if (problem.peers.any()) return;  // the depth pass reads no planes of other shards
      return planes_then_depth(call, target, in, problem, is_valid_padding(op, o.padding));
    }
    check(separable || algorithm != Algorithm::separable, op,
          "algorithm 'separable' serves odd square windows up to 13x13 of floating-point images, in their own dtype");
    if (wide && separable)
      return run_in_float64(as_separable(problem, taps_of_box(call, problem, false), false), element);
    if (wide) return run_in_float64(problem, element);
    if (separable) run(call, target, as_separable(problem, taps_of_box(call, problem, false), target.cuda()));
    else run(call, target, problem);
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
