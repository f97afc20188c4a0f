#include "api/filters.h"

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
void check_window_device(const Call& call, const char* argument, const Tensor& kernel, const Tensor& input) {
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
void check_window_batch(const char* op, const char* argument, const Sizes& sizes, int axes, const Tensor& input,
                        const Image& image, int image_axes) {
  const size_t leading = sizes.size() - axes;
  const int64_t samples = leading >= 1 ? sizes[0] : 1, channels = leading >= 2 ? sizes[1] : 1;
  if (input.dim() > image_axes + 2 && (samples != 1 || channels != 1))
    refuse(op, argument, " must be one shared window where the input has more than ", image_axes + 2,
           " dimensions, got shape ", shape_text(sizes));
  const int64_t batch = input.dim() >= image_axes + 2 ? image.n : 1;
  if (samples != 1 && samples != batch) {
    Sizes channel_shape = sizes;
    channel_shape.insert(channel_shape.begin(), 1);
    const bool row = axes == 2 && std::min(sizes.end()[-2], sizes.end()[-1]) == 1;
    const std::string instead = row ? "(1, " + std::to_string(samples) + ", ...)" : shape_text(channel_shape);
    refuse(op, argument, "'s first dimension must be 1 or the batch size ", batch, ", got ", samples,
           leading == 1 && samples == image.c ? "; for channels give " + instead : "");
  }
  check(channels == 1 || channels == image.c, op, argument, "'s second dimension must be 1 or the ", image.c,
        " channels of the input, got ", channels);
}

// "2x3"; a signal is an image of height 1.
std::string sizes_text(const std::vector<AxisWindow>& windows, int64_t (AxisWindow::*size)() const) {
  std::string text = windows.size() == 1 ? "1" : "";
  for (const AxisWindow& w : windows) text += (text.empty() ? "" : "x") + std::to_string((w.*size)());
  return text;
}

}  // namespace

void check_input(const char* op, const Tensor& input, int axes) {
  check(input.dim() >= axes, op, "input must have at least ", axes, " dimensions, got ", input.dim());
}

bool larger_than_padded(const std::vector<AxisWindow>& windows) {
  return std::any_of(windows.begin(), windows.end(), [](const AxisWindow& w) { return w.span() > w.padded(); });
}

std::string spans_text(const std::vector<AxisWindow>& windows) { return sizes_text(windows, &AxisWindow::span); }
std::string padded_text(const std::vector<AxisWindow>& windows) { return sizes_text(windows, &AxisWindow::padded); }

Window checked_window(const Call& call, const char* argument, const Tensor& kernel, int axes, const Tensor& input,
                      const Image& image, int image_axes, const WindowOptions& options) {
  const Sizes sizes = sizes_of(kernel);
  const int dims = int(sizes.size());
  check(dims >= axes && dims <= axes + 2, call.op, argument, " must have ", axes, ", ", axes + 1, " or ", axes + 2,
        " dimensions, got ", dims);
  if (std::any_of(sizes.end() - axes, sizes.end(), [](int64_t taps) { return taps < 1; }))
    refuse(call.op, argument, " must have at least one tap, got shape ", shape_text(sizes));
  check_tap_type(call.op, argument, kernel.scalar_type());
  check_window_device(call, argument, kernel, input);
  check_window_batch(call.op, argument, sizes, axes, input, image, image_axes);
  return prepare_window(call, kernel, axes, input, image, options);
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

Geometry place_window(Call& call, const Image& image, const Extent& window, int axes, const FilterOptions& o) {
  const char* op = call.op;
  check_per_axis(op, "stride", o.stride, axes);
  check_per_axis(op, "dilation", o.dilation, axes);
  check(!o.anchor || int(o.anchor->size()) == axes, op, "anchor must have ", axes, " values, got ",
        o.anchor ? o.anchor->size() : 0);
  Placement placement{.pad_y = 0, .pad_x = 0, .border = border_of(op, o.border_type), .value = o.value};
  placement.normalized = o.normalized && placement.border == Border::skip;
  const bool valid = is_valid_padding(op, o.padding);
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

bool normalize_taps(const char* op, const FilterOptions& o) {
  return o.normalized && border_of(op, o.border_type) != Border::skip;
}

namespace {

Dtype result_dtype(const Call& call, const ImageView& in, const FilterOptions& o) {
  return call.out        ? dtype_of(call.op, "out", call.out->scalar_type())
         : o.output_type ? dtype_of(call.op, "output_dtype", *o.output_type)
                         : in.image.dtype;
}

// `fill` returns false and does nothing where the leading dimensions of a tensor do not merge, as in a caller's `out`.
Tensor filled_result(Call& call, const Tensor& input, const ImageView& in, const FilterOptions& o, const Sizes& sizes,
                     const std::function<Tensor(ScalarType)>& allocated,
                     const std::function<bool(const Tensor&, Dtype)>& fill) {
  if (call.out) check_out(call.op, input, *call.out, sizes);
  const Dtype dtype = result_dtype(call, in, o);
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

}  // namespace

Tensor fill_result(Call& call, const Tensor& input, const ImageView& in, int axes, const Geometry& g,
                   const FilterOptions& o, const std::function<void(const Image&)>& fill) {
  const Sizes sizes = resized(input, g.out, axes);
  const auto allocated = [&](ScalarType type) { return empty_result(call, input, sizes, axes, type); };
  return filled_result(call, input, in, o, sizes, allocated, [&](const Tensor& t, Dtype dtype) {
    const auto image = merge_leading(t, dtype, axes);
    if (image) fill(*image);
    return image.has_value();
  });
}

Tensor fill_results(Call& call, const Tensor& input, const ImageView& in, int axes, int outputs, const Extent& size,
                    const FilterOptions& o, const std::function<void(const Image&, int64_t)>& fill) {
  Sizes sizes = resized(input, size, axes);
  const int64_t dim = int64_t(sizes.size()) - axes;
  sizes.insert(sizes.begin() + dim, outputs);
  call.footprint.contiguous = true;
  const auto allocated = [&](ScalarType type) { return allocate(call, input, sizes, type); };
  return filled_result(call, input, in, o, sizes, allocated, [&](const Tensor& t, Dtype dtype) {
    const auto image = merge_leading(torch::stable::select(t, dim, 0), dtype, axes);
    if (image) fill(*image, t.stride(dim));
    return image.has_value();
  });
}

}  // namespace torch_conv
