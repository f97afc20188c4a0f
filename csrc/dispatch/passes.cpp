#include "dispatch/passes.h"

#include "dispatch/volumes.h"
#include "graph/allocate.h"
#include "graph/launch_graph.h"
#include "tensors/windows.h"

namespace torch_conv {

namespace {

constexpr Placement kStill{.pad_y = 0, .pad_x = 0};  // a pixel where it was

// Taps of sample n where every sample has its own, whose windows then are those of an image with z as sample axis.
Taps of_sample(const Taps& taps, int64_t n, Dtype image) {
  Taps own = taps;
  own.data = static_cast<const char*>(taps.data) + n * taps.stride_n * acc_bytes(image);
  own.stride_n = 0;
  return own;
}

// The input between two planes of `value`, in the accumulation dtype: a border of that value is not a value to the
// depth pass, which reads planes that have been filtered, but what repeats these two.
ImageView between_planes(const Call& call, const ImageView& in, const Separable& p) {
  const ScalarType type = accumulation_type(p.in.dtype);
  const int64_t last = (p.out.d - 1) * p.place.stride_z + (p.kd - 1) * p.place.dilation_z - p.place.pad_z;
  const Sizes pads{0, 0, 0, 0, p.place.pad_z > 0, last >= p.in.d};
  const Extent size{.d = p.in.d + pads[4] + pads[5], .h = p.in.h, .w = p.in.w};
  const auto pad = [type, pads, value = p.place.value](const Tensor& t) {
    return torch::stable::pad(t.scalar_type() == type ? t : torch::stable::to(t, type), pads, "constant", value);
  };
  return view_input(call, make_of(call, in.tensor, in.tensor, resized(in.tensor, size, 3), type, pad), 3);
}

// Every plane into scratch memory, then along z.
void in_two_passes(Call& call, const Place& place, const Tensor& input, ImageView in, Separable p) {
  Placement along_z = p.place;
  along_z.pad_y = along_z.pad_x = 0;
  along_z.stride_y = along_z.stride_x = along_z.dilation_y = along_z.dilation_x = 1;
  if (p.place.border == Border::constant && p.place.value != 0 && p.kd > 1) {
    in = between_planes(call, in, p);
    p.in = in.image;
    along_z.pad_z -= along_z.pad_z > 0;
    along_z.border = Border::replicate;
  }
  const Tensor scratch = empty_result(call, in.tensor, resized(in.tensor, {.d = p.in.d, .h = p.out.h, .w = p.out.w}, 3),
                                      3, accumulation_type(p.in.dtype));
  const Image planes = *merge_leading(scratch, accumulation_dtype(p.in.dtype), 3);
  const bool own_samples = p.taps_x.stride_n || p.taps_y.stride_n;
  const bool own_channels = p.taps_x.stride_c || p.taps_y.stride_c;
  for_each_plane(p.in, planes, own_samples, own_channels, [&](const Image& from, const Image& to, int64_t n) {
    Separable q = p;
    q.in = from, q.out = to, q.kd = 1;
    q.taps_x = of_sample(p.taps_x, n, p.in.dtype), q.taps_y = of_sample(p.taps_y, n, p.in.dtype);
    q.place.pad_z = 0, q.place.stride_z = q.place.dilation_z = 1;
    run(call, place, input, q);
  });
  const auto depth = [&](Range y, Range x, const Taps& taps, int64_t kd, const Placement& at) {
    if (y.size() == 0 || x.size() == 0) return;
    run(call, place, input,
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
  const Taps keep = one_tap(call, accumulation_dtype(p.in.dtype), place.cuda());
  depth(y, x, p.taps_z, p.kd, along_z);
  depth({0, y.begin}, columns, keep, 1, kStill);
  depth({y.end, p.out.h}, columns, keep, 1, kStill);
  depth(y, {0, x.begin}, keep, 1, kStill);
  depth(y, {x.end, p.out.w}, keep, 1, kStill);
}

// Large windows of other dtypes: converting both images costs less than the row results that go through memory. The
// sums are the same, and rounded once. Without room for two images of float32: as it is.
void in_float32(Call& call, const Place& place, const Tensor& input, const ImageView& in, Separable p) {
  const auto fresh = [&](const Image& like) {
    const Sizes sizes = resized(in.tensor, {.h = like.h, .w = like.w}, 2);
    return empty_result(call, in.tensor, sizes, 2, ScalarType::Float);
  };
  const Image from = p.in, to = p.out;
  std::optional<Tensor> wide_in, wide_out;
  try {
    if (from.dtype != Dtype::f32) wide_in = fresh(from);
    if (to.dtype != Dtype::f32) wide_out = fresh(to);
  } catch (const OutOfMemory&) {
    if (call.graph) call.graph->invalidate();
    return run(call, place, input, p);
  }
  const auto convert = [&](const Image& from, const Image& to) {
    run(call, place, input,
        Direct{.in = from,
               .out = to,
               .taps = one_tap(call, Dtype::f32, place.cuda()),
               .kd = 1,
               .kh = 1,
               .kw = 1,
               .place = kStill,
               .groups = from.c,
               .bias = nullptr});
  };
  if (wide_in) convert(from, p.in = *merge_leading(*wide_in, Dtype::f32, 2));
  if (wide_out) p.out = *merge_leading(*wide_out, Dtype::f32, 2);
  run(call, place, input, p);
  if (wide_out) convert(p.out, to);
}

}  // namespace

void run_passes(Call& call, const Place& place, const Tensor& input, const ImageView& in, int axes,
                const Separable& p) {
  if (axes == 2 && gains_in_float32(place, p)) in_float32(call, place, input, in, p);
  else if (axes == 2) run(call, place, input, p);
  else if (p.beside.any()) run_on_shards(call, place, p);
  else if (!run_in_one_launch(call, place, input, p)) in_two_passes(call, place, input, in, p);
}

}  // namespace torch_conv
