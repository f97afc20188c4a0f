#include "api/filter_call.h"

#include <algorithm>

#include "sharding/part.h"

namespace torch_conv {

namespace {

int64_t anchor_of(const char* op, const std::optional<Sizes>& anchor, int axis, int64_t k) {
  if (!anchor) return (k - 1) / 2;
  const int64_t a = (*anchor)[axis] == -1 ? k / 2 : (*anchor)[axis];
  check(a >= 0 && a < k, op, "anchor must lie in the window (0 to ", k - 1, ", or -1 for the middle), got ", a);
  return a;
}

// A call on shards copies windows from another GPU.
void check_window_device(const FilterCall& f, const char* argument, const Tensor& kernel) {
  const Call& call = f.call;
  const Tensor& input = f.input;
  if (kernel.is_cpu() || same_device(kernel, input)) return;
  if (call.on_shards && kernel.is_cuda() && input.is_cuda()) return;
  if (input.is_cpu()) refuse(call.op, argument, " must be on cpu, as the input is, got ", device_text(kernel));
  refuse(call.op, argument, " must be on cpu or ", device_text(input), ", got ", device_text(kernel));
}

// Integers and narrower floats are converted; complex numbers and booleans are no taps.
void check_tap_type(const char* op, const char* argument, ScalarType type) {
  if (type == ScalarType::Char || type == ScalarType::Int || type == ScalarType::Long || dtype_or_none(type)) return;
  refuse(op, argument, " must have dtype float32, float16, bfloat16, float64, uint8, int8, int16, uint16, int32 or ",
         "int64, got ", dtype_text(type));
}

// The dimensions before a window: (), (1|B) or (1|B, 1|C). filter1d's window has one dimension less than filter2d's.
void check_window_batch(const FilterCall& f, const char* argument, const Sizes& sizes, int window_axes) {
  const char* op = f.call.op;
  const Image& image = f.in.image;
  const size_t leading = sizes.size() - window_axes;
  const int64_t samples = leading >= 1 ? sizes[0] : 1, channels = leading >= 2 ? sizes[1] : 1;
  if (f.input.dim() > f.axes + 2 && (samples != 1 || channels != 1))
    refuse(op, argument, " must be one shared window where the input has more than ", f.axes + 2,
           " dimensions, got shape ", shape_text(sizes));
  const int64_t batch = f.input.dim() >= f.axes + 2 ? image.n : 1;
  if (samples != 1 && samples != batch) {
    Sizes channel_shape = sizes;
    channel_shape.insert(channel_shape.begin(), 1);
    const bool row = window_axes == 2 && std::min(sizes.end()[-2], sizes.end()[-1]) == 1;
    const std::string instead = row ? "(1, " + std::to_string(samples) + ", ...)" : shape_text(channel_shape);
    refuse(op, argument, "'s first dimension must be 1 or the batch size ", batch, ", got ", samples,
           leading == 1 && samples == image.c ? "; for channels give " + instead : "");
  }
  check(channels == 1 || channels == image.c, op, argument, "'s second dimension must be 1 or the ", image.c,
        " channels of the input, got ", channels);
}

Algorithm checked_algorithm(const char* op, int axes, const Tensor& input, const std::string& name,
                            std::initializer_list<Algorithm> allowed) {
  check(input.dim() >= axes, op, "input must have at least ", axes, " dimensions, got ", input.dim());
  return algorithm_of(op, name, allowed);
}

// "2x3"; a signal is an image of height 1.
std::string sizes_text(const std::vector<AxisWindow>& windows, int64_t (AxisWindow::*size)() const) {
  std::string text = windows.size() == 1 ? "1" : "";
  for (const AxisWindow& w : windows) text += (text.empty() ? "" : "x") + std::to_string((w.*size)());
  return text;
}

}  // namespace

bool larger_than_padded(const std::vector<AxisWindow>& windows) {
  return std::any_of(windows.begin(), windows.end(), [](const AxisWindow& w) { return w.span() > w.padded(); });
}

std::string spans_text(const std::vector<AxisWindow>& windows) { return sizes_text(windows, &AxisWindow::span); }
std::string padded_text(const std::vector<AxisWindow>& windows) { return sizes_text(windows, &AxisWindow::padded); }

FilterCall::FilterCall(Call& call, int axes, const Tensor& input, const FilterOptions& options,
                       std::initializer_list<Algorithm> algorithms)
    : call(call),
      axes(axes),
      input(input),
      options(options),
      algorithm(checked_algorithm(call.op, axes, input, options.algorithm, algorithms)),
      border(border_of(call.op, options.border_type)),
      valid(is_valid_padding(call.op, options.padding)),
      in(view_input(call, input, axes)),
      element(in.image.dtype) {
  if (options.in_float64) in.image.dtype = Dtype::f64;
}

Window FilterCall::window(const char* argument, const Tensor& kernel, int window_axes,
                          const WindowOptions& options) const {
  if (call.out) check_no_overlap(call.op, *call.out, argument, kernel);
  const Sizes sizes = sizes_of(kernel);
  const int dims = int(sizes.size()), k = window_axes;
  check(dims >= k && dims <= k + 2, call.op, argument, " must have ", k, ", ", k + 1, " or ", k + 2,
        " dimensions, got ", dims);
  if (std::any_of(sizes.end() - k, sizes.end(), [](int64_t taps) { return taps < 1; }))
    refuse(call.op, argument, " must have at least one tap, got shape ", shape_text(sizes));
  check_tap_type(call.op, argument, kernel.scalar_type());
  check_window_device(*this, argument, kernel);
  check_window_batch(*this, argument, sizes, k);
  return prepare_window(call, kernel, k, input, in.image, options);
}

Geometry place_axes(Call& call, const std::vector<AxisWindow>& windows, const Placement& placement) {
  Geometry g{.place = placement, .out = {.d = 1, .h = 1, .w = 1}};
  Placement& p = g.place;
  int64_t* const pads[kAxes] = {&p.pad_z, &p.pad_y, &p.pad_x};
  int64_t* const strides[kAxes] = {&p.stride_z, &p.stride_y, &p.stride_x};
  int64_t* const dilations[kAxes] = {&p.dilation_z, &p.dilation_y, &p.dilation_x};
  int64_t* const outs[kAxes] = {&g.out.d, &g.out.h, &g.out.w};
  int axis = kAxes - int(windows.size());
  for (const AxisWindow& w : windows) {
    const int64_t out = w.padded() < w.span() ? 0 : (w.padded() - w.span()) / w.stride + 1;
    *pads[axis] = w.before, *strides[axis] = w.stride, *dilations[axis] = w.dilation, *outs[axis] = out;
    call.footprint.axis[axis++] = {w.before, w.span(), w.stride, w.middle, out};
  }
  call.footprint.border = p.border;
  if (const Part* part = part_of(call)) *pads[part->axis] = part->pad, *outs[part->axis] = part->out;
  return g;
}

Geometry FilterCall::place_windows(const Extent& window) {
  const char* op = call.op;
  const FilterOptions& o = options;
  check_per_axis(op, "stride", o.stride, axes);
  check_per_axis(op, "dilation", o.dilation, axes);
  check(!o.anchor || int(o.anchor->size()) == axes, op, "anchor must have ", axes, " values, got ",
        o.anchor ? o.anchor->size() : 0);
  const Placement placement{
      .pad_y = 0, .pad_x = 0, .border = border, .value = o.value, .normalized = o.normalized && border == Border::skip};
  const Image& image = in.image;
  const int64_t pixels[kAxes] = {image.d, image.h, image.w}, taps[kAxes] = {window.d, window.h, window.w};
  std::vector<AxisWindow> windows;
  for (int i = 0; i < axes; ++i) {
    const int axis = kAxes - axes + i;
    AxisWindow& w = windows.emplace_back(AxisWindow{pixels[axis], taps[axis], o.stride[i], o.dilation[i]});
    const int64_t anchor = anchor_of(op, o.anchor, i, w.taps);
    if (valid) w.middle = (w.span() - 1) / 2;
    else w.before = anchor * w.dilation, w.after = w.span() - 1 - w.before;
  }
  if (valid && larger_than_padded(windows))
    refuse(op, "a window of ", spans_text(windows), " does not fit into ", axes == 3 ? "a volume of " : "an image of ",
           padded_text(windows), " with padding='valid'");
  return place_axes(call, windows, placement);
}

Dtype FilterCall::result_dtype() const {
  return call.out              ? dtype_of(call.op, "out", call.out->scalar_type())
         : options.output_type ? dtype_of(call.op, "output_dtype", *options.output_type)
                               : in.image.dtype;
}

Image FilterCall::expected(const Geometry& g) const {
  Image out = in.image;
  out.d = g.out.d, out.h = g.out.h, out.w = g.out.w;
  out.dtype = result_dtype();
  return out;
}

// `fill` returns false and does nothing where the leading dimensions of a tensor do not merge, as in a caller's `out`.
Tensor FilterCall::filled(const Sizes& sizes, const std::function<Tensor(ScalarType)>& allocated,
                          const std::function<bool(const Tensor&, Dtype)>& fill) const {
  if (call.out) check_out(call.op, input, *call.out, sizes);
  const Dtype dtype = result_dtype();
  call.footprint.result = sizes, call.footprint.dtype = scalar_type_of(dtype);
  if (call.only_footprint()) return input;
  const Part* part = part_of(call);
  Tensor result = call.out ? *call.out : part ? part->result : allocated(scalar_type_of(dtype));
  if (result.numel() == 0 || fill(result, dtype)) return result;
  const Tensor merged = allocate(call, result, sizes, result.scalar_type());
  fill(merged, dtype);
  if (!call.runs()) return result;
  torch::stable::copy_(result, merged);
  if (call.graph) call.graph->invalidate();
  return result;
}

Tensor FilterCall::fill(const Geometry& g, const std::function<void(const Image&)>& fill) const {
  const Sizes sizes = resized(input, g.out, axes);
  const auto allocated = [&](ScalarType type) { return empty_result(call, input, sizes, axes, type); };
  return filled(sizes, allocated, [&](const Tensor& t, Dtype dtype) {
    const auto image = merge_leading(t, dtype, axes);
    if (image) fill(*image);
    return image.has_value();
  });
}

Tensor FilterCall::fill_several(int outputs, const Geometry& g,
                                const std::function<void(const Image&, int64_t)>& fill) const {
  Sizes sizes = resized(input, g.out, axes);
  const int64_t dim = int64_t(sizes.size()) - axes;
  sizes.insert(sizes.begin() + dim, outputs);
  call.footprint.contiguous = true;
  const auto allocated = [&](ScalarType type) { return allocate(call, input, sizes, type); };
  return filled(sizes, allocated, [&](const Tensor& t, Dtype dtype) {
    const auto image = merge_leading(torch::stable::select(t, dim, 0), dtype, axes);
    if (image) fill(*image, t.stride(dim));
    return image.has_value();
  });
}

}  // namespace torch_conv
