// filter2d, filter2d_separable and box2d: tensors -> problems.
#include "ops/rooms.h"
#include "ops/windows.h"

namespace torch_conv {

namespace {

// What the filters share; documented at torch_conv.functional.filter2d.
struct FilterOptions {
  std::string border_type;
  bool normalized;
  std::string padding;
  double value;
  std::optional<Sizes> anchor;
  Sizes stride;
  Sizes dilation;
  std::optional<ScalarType> output_type;
  std::string algorithm;
};

// The spatial half of a filter call: where the window sits and how large the result is.
struct Geometry {
  Placement place;
  int64_t out_h, out_w;
};

int64_t anchor_of(const char* op, const std::optional<Sizes>& anchor, int axis, int64_t k) {
  if (!anchor) return (k - 1) / 2;
  const int64_t a = (*anchor)[axis] == -1 ? k / 2 : (*anchor)[axis];
  check(a >= 0 && a < k, op, "anchor must lie in the window (0 to ", k - 1, ", or -1 for the middle), got ", a);
  return a;
}

Geometry place_window(const char* op, const Image& image, int64_t kh, int64_t kw, const FilterOptions& o) {
  check_pair(op, "stride", o.stride);
  check_pair(op, "dilation", o.dilation);
  check(!o.anchor || o.anchor->size() == 2, op, "anchor must have 2 values, got ", o.anchor ? o.anchor->size() : 0);
  const int64_t extent_y = (kh - 1) * o.dilation[0] + 1, extent_x = (kw - 1) * o.dilation[1] + 1;
  const int64_t anchor_y = anchor_of(op, o.anchor, 0, kh), anchor_x = anchor_of(op, o.anchor, 1, kw);
  Geometry g{.place = {.pad_y = anchor_y * o.dilation[0],
                       .pad_x = anchor_x * o.dilation[1],
                       .stride_y = o.stride[0],
                       .stride_x = o.stride[1],
                       .dilation_y = o.dilation[0],
                       .dilation_x = o.dilation[1],
                       .border = border_of(op, o.border_type),
                       .value = o.value},
             .out_h = (image.h + o.stride[0] - 1) / o.stride[0],
             .out_w = (image.w + o.stride[1] - 1) / o.stride[1]};
  if (is_valid_padding(op, o.padding)) {
    check(extent_y <= image.h && extent_x <= image.w, op, "a window of ", extent_y, "x", extent_x,
          " does not fit into an image of ", image.h, "x", image.w, " with padding='valid'");
    g.place.pad_y = g.place.pad_x = 0;
    g.out_h = (image.h - extent_y) / o.stride[0] + 1;
    g.out_w = (image.w - extent_x) / o.stride[1] + 1;
  }
  g.place.normalized = o.normalized && g.place.border == Border::skip;
  return g;
}

void check_input(const char* op, const Tensor& input) {
  check(input.dim() >= 2, op, "input must have at least 2 dimensions, got ", input.dim());
}

// Allocates the result (or checks `out`), lets `fill` compute into an image of it, and returns it.
template <typename Fill>
Tensor produce(const char* op, const Tensor& input, const ImageView& in, const Geometry& g, const FilterOptions& o,
               const std::optional<Tensor>& out, Fill&& fill) {
  if (out) {
    Sizes expected = sizes_of(input);
    expected[expected.size() - 2] = g.out_h;
    expected[expected.size() - 1] = g.out_w;
    check_out(op, input, *out, expected);
  }
  const Dtype dtype = out             ? dtype_of(op, "out", out->scalar_type())
                      : o.output_type ? dtype_of(op, "output_dtype", *o.output_type)
                                      : in.image.dtype;
  Tensor result = out ? *out : empty_result(input, g.out_h, g.out_w, scalar_type_of(dtype));
  if (result.numel() == 0) return result;
  if (auto image = writable_image(result, dtype)) {
    fill(*image);
  } else {  // a caller's `out` whose leading dimensions do not merge
    Tensor merged = empty_contiguous(result, sizes_of(result), result.scalar_type());
    fill(*writable_image(merged, dtype));
    torch::stable::copy_(result, merged);
  }
  return result;
}

// Border::skip divides by the taps inside, which only the room knows; every other border by all of them, here.
bool normalize_taps(const char* op, const FilterOptions& o) {
  return o.normalized && border_of(op, o.border_type) != Border::skip;
}

Tensor filter2d(const char* op, const Tensor& input, const Tensor& kernel, const std::string& behaviour,
                const FilterOptions& o, const std::optional<Tensor>& out) {
  static constexpr const char* algorithms[] = {"auto", "direct"};
  check_input(op, input);
  check_algorithm(op, o.algorithm, algorithms);
  check(behaviour == "corr" || behaviour == "conv", op, "behaviour must be 'corr' or 'conv', got '", behaviour, "'");
  const ImageView in = view_input(op, input);
  Window window =
      prepare_window2d(op, kernel, input, in.image, {.flip = behaviour == "conv", .normalized = normalize_taps(op, o)});
  const Geometry g = place_window(op, in.image, window.kh, window.kw, o);
  return produce(op, input, in, g, o, out, [&](const Image& image) {
    const Place place(op, input);
    upload_large(window, input, place.stream());
    run(op, place, input,
        Direct2d{.in = in.image,
                 .out = image,
                 .taps = window.taps,
                 .kh = window.kh,
                 .kw = window.kw,
                 .place = g.place,
                 .groups = in.image.c,
                 .bias = nullptr});
  });
}

Tensor filter2d_separable(const char* op, const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y,
                          const FilterOptions& o, const std::optional<Tensor>& out) {
  static constexpr const char* algorithms[] = {"auto", "separable"};
  check_input(op, input);
  check_algorithm(op, o.algorithm, algorithms);
  const ImageView in = view_input(op, input);
  const WindowOptions options{.flip = false, .normalized = normalize_taps(op, o)};
  Window x = prepare_window1d(op, "kernel_x", kernel_x, input, in.image, false, options);
  Window y = prepare_window1d(op, "kernel_y", kernel_y, input, in.image, true, options);
  const Geometry g = place_window(op, in.image, y.kh, x.kw, o);
  return produce(op, input, in, g, o, out, [&](const Image& image) {
    const Place place(op, input);
    upload_large(x, input, place.stream());
    upload_large(y, input, place.stream());
    run(op, place, input,
        Separable2d{.in = in.image,
                    .out = image,
                    .taps_x = x.taps,
                    .taps_y = y.taps,
                    .kh = y.kh,
                    .kw = x.kw,
                    .place = g.place});
  });
}

Tensor box2d(const char* op, const Tensor& input, const Sizes& kernel_size, const FilterOptions& o,
             const std::optional<Tensor>& out) {
  static constexpr const char* algorithms[] = {"auto", "box"};
  check_input(op, input);
  check_algorithm(op, o.algorithm, algorithms);
  check_pair(op, "kernel_size", kernel_size);
  const ImageView in = view_input(op, input);
  const Geometry g = place_window(op, in.image, kernel_size[0], kernel_size[1], o);
  return produce(op, input, in, g, o, out, [&](const Image& image) {
    const Place place(op, input);
    const double area = double(kernel_size[0]) * double(kernel_size[1]);
    run(op, place, input,
        Box2d{.in = in.image,
              .out = image,
              .kh = kernel_size[0],
              .kw = kernel_size[1],
              .scale = o.normalized ? 1.0 / area : 1.0,
              .place = g.place});
  });
}

using Type = std::optional<ScalarType>;
using Anchor = std::optional<Sizes>;

Tensor filter2d_op(Tensor input, Tensor kernel, std::string border_type, bool normalized, std::string padding,
                   std::string behaviour, double value, Anchor anchor, Sizes stride, Sizes dilation, Type output_dtype,
                   std::string algorithm) {
  return filter2d("filter2d", input, kernel, behaviour,
                  {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm}, {});
}

void filter2d_out_op(Tensor input, Tensor kernel, std::string border_type, bool normalized, std::string padding,
                     std::string behaviour, double value, Anchor anchor, Sizes stride, Sizes dilation,
                     std::string algorithm, Tensor out) {
  filter2d("filter2d", input, kernel, behaviour,
           {border_type, normalized, padding, value, anchor, stride, dilation, {}, algorithm}, out);
}

Tensor separable_op(Tensor input, Tensor kernel_x, Tensor kernel_y, std::string border_type, bool normalized,
                    std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation, Type output_dtype,
                    std::string algorithm) {
  return filter2d_separable(
      "filter2d_separable", input, kernel_x, kernel_y,
      {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm}, {});
}

void separable_out_op(Tensor input, Tensor kernel_x, Tensor kernel_y, std::string border_type, bool normalized,
                      std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation,
                      std::string algorithm, Tensor out) {
  filter2d_separable("filter2d_separable", input, kernel_x, kernel_y,
                     {border_type, normalized, padding, value, anchor, stride, dilation, {}, algorithm}, out);
}

Tensor box2d_op(Tensor input, Sizes kernel_size, std::string border_type, bool normalized, std::string padding,
                double value, Anchor anchor, Type output_dtype, std::string algorithm) {
  return box2d("box2d", input, kernel_size,
               {border_type, normalized, padding, value, anchor, {1, 1}, {1, 1}, output_dtype, algorithm}, {});
}

void box2d_out_op(Tensor input, Sizes kernel_size, std::string border_type, bool normalized, std::string padding,
                  double value, Anchor anchor, std::string algorithm, Tensor out) {
  box2d("box2d", input, kernel_size, {border_type, normalized, padding, value, anchor, {1, 1}, {1, 1}, {}, algorithm},
        out);
}

void register_filters(torch::stable::detail::StableLibrary& m) {
  m.impl("filter2d", TORCH_BOX(&filter2d_op));
  m.impl("filter2d_out", TORCH_BOX(&filter2d_out_op));
  m.impl("filter2d_separable", TORCH_BOX(&separable_op));
  m.impl("filter2d_separable_out", TORCH_BOX(&separable_out_op));
  m.impl("box2d", TORCH_BOX(&box2d_op));
  m.impl("box2d_out", TORCH_BOX(&box2d_out_op));
}

}  // namespace

// One function serves both: the rooms part by device.
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_filters(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_filters(m); }

}  // namespace torch_conv
