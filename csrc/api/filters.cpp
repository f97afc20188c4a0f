#include "api/filters.h"

#include "sharding/part.h"

namespace torch_conv {

namespace {

int64_t anchor_of(const char* op, const std::optional<Sizes>& anchor, int axis, int64_t k) {
  if (!anchor) return (k - 1) / 2;
  const int64_t a = (*anchor)[axis] == -1 ? k / 2 : (*anchor)[axis];
  check(a >= 0 && a < k, op, "anchor must lie in the window (0 to ", k - 1, ", or -1 for the middle), got ", a);
  return a;
}

}  // namespace

void apply_part(const Call& call, Geometry& g) {
  if (!call.part) return;
  int64_t* const pads[kAxes] = {&g.place.pad_z, &g.place.pad_y, &g.place.pad_x};
  int64_t* const outs[kAxes] = {&g.out.d, &g.out.h, &g.out.w};
  *pads[call.part->axis] = call.part->pad;
  *outs[call.part->axis] = call.part->out;
}

void check_input(const char* op, const Tensor& input, int axes) {
  check(input.dim() >= axes, op, "input must have at least ", axes, " dimensions, got ", input.dim());
}

Geometry place_window(Call& call, const Image& image, const Extent& window, int axes, const FilterOptions& o) {
  const char* op = call.op;
  check_per_axis(op, "stride", o.stride, axes);
  check_per_axis(op, "dilation", o.dilation, axes);
  check(!o.anchor || int(o.anchor->size()) == axes, op, "anchor must have ", axes, " values, got ",
        o.anchor ? o.anchor->size() : 0);
  Geometry g{.place = {.pad_y = 0, .pad_x = 0, .border = border_of(op, o.border_type), .value = o.value},
             .out = {.d = 1, .h = 1, .w = 1}};
  const bool valid = is_valid_padding(op, o.padding);
  Extent footprint = window;
  AxisFootprint* const along = call.footprint.axis;
  const auto place_axis = [&](int i, int64_t n, int64_t& pad, int64_t& stride, int64_t& dilation,
                              int64_t Extent::*axis) {
    stride = o.stride[i], dilation = o.dilation[i];
    footprint.*axis = (window.*axis - 1) * dilation + 1;
    const int64_t anchor = anchor_of(op, o.anchor, i, window.*axis);
    pad = valid ? 0 : anchor * dilation;
    g.out.*axis = valid ? (n - footprint.*axis) / stride + 1 : ceil_div(n, stride);
    along[kAxes - axes + i] = {pad, footprint.*axis, stride, valid ? (footprint.*axis - 1) / 2 : 0, g.out.*axis};
  };
  Placement& p = g.place;
  if (axes == 3) place_axis(0, image.d, p.pad_z, p.stride_z, p.dilation_z, &Extent::d);
  place_axis(axes - 2, image.h, p.pad_y, p.stride_y, p.dilation_y, &Extent::h);
  place_axis(axes - 1, image.w, p.pad_x, p.stride_x, p.dilation_x, &Extent::w);
  if (valid && (footprint.d > image.d || footprint.h > image.h || footprint.w > image.w))
    refuse(op, "a window of ", extent_text(footprint, axes), " does not fit into ",
           axes == 3 ? "a volume of " : "an image of ", extent_text({.d = image.d, .h = image.h, .w = image.w}, axes),
           " with padding='valid'");
  p.normalized = o.normalized && p.border == Border::skip;
  call.footprint.border = p.border;
  apply_part(call, g);
  return g;
}

bool normalize_taps(const char* op, const FilterOptions& o) {
  return o.normalized && border_of(op, o.border_type) != Border::skip;
}

namespace {

Dtype result_dtype(const Call& call, const ImageView& in, const FilterOptions& o) {
  return call.out        ? dtype_of(call.op, "out", call.out->scalar_type())
         : o.output_type ? dtype_of(call.op, "output_dtype", *o.output_type)
                         : in.image.dtype;
}

void copy_merged(const Call& call, Tensor result, const Tensor& merged) {
  if (!call.runs()) return;
  torch::stable::copy_(result, merged);
  if (call.graph) call.graph->invalidate();
}

}  // namespace

Tensor fill_result(Call& call, const Tensor& input, const ImageView& in, int axes, const Geometry& g,
                   const FilterOptions& o, const std::function<void(const Image&)>& fill) {
  const Sizes sizes = resized(input, g.out, axes);
  if (call.out) check_out(call.op, input, *call.out, sizes);
  const Dtype dtype = result_dtype(call, in, o);
  call.footprint.result = sizes, call.footprint.dtype = scalar_type_of(dtype);
  if (call.only_footprint()) return input;
  Tensor result = call.out    ? *call.out
                  : call.part ? call.part->result
                              : empty_result(call, input, sizes, axes, scalar_type_of(dtype));
  if (result.numel() == 0) return result;
  if (auto image = merge_leading(result, dtype, axes)) {
    fill(*image);
  } else {  // a caller's `out` whose leading dimensions do not merge
    Tensor merged = allocate(call, result, sizes, result.scalar_type());
    fill(*merge_leading(merged, dtype, axes));
    copy_merged(call, result, merged);
  }
  return result;
}

Tensor fill_results(Call& call, const Tensor& input, const ImageView& in, int axes, int outputs, const Extent& size,
                    const FilterOptions& o, const std::function<void(const Image&, int64_t)>& fill) {
  Sizes sizes = resized(input, size, axes);
  const size_t dim = sizes.size() - axes;
  sizes.insert(sizes.begin() + dim, outputs);
  if (call.out) check_out(call.op, input, *call.out, sizes);
  const Dtype dtype = result_dtype(call, in, o);
  call.footprint.result = sizes, call.footprint.dtype = scalar_type_of(dtype), call.footprint.contiguous = true;
  if (call.only_footprint()) return input;
  Tensor result = call.out    ? *call.out
                  : call.part ? call.part->result
                              : allocate(call, input, sizes, scalar_type_of(dtype));
  if (result.numel() == 0) return result;
  const auto fill_tensor = [&](const Tensor& t) {
    const auto image = merge_leading(torch::stable::select(t, int64_t(dim), 0), dtype, axes);
    if (image) fill(*image, strides_of(t)[dim]);
    return image.has_value();
  };
  if (!fill_tensor(result)) {  // a caller's `out` whose leading dimensions do not merge
    const Tensor merged = allocate(call, result, sizes, result.scalar_type());
    fill_tensor(merged);
    copy_merged(call, result, merged);
  }
  return result;
}

}  // namespace torch_conv
