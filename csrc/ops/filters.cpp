#include "ops/filters.h"

#include "ops/rooms.h"

namespace torch_conv {

namespace {

int64_t anchor_of(const char* op, const std::optional<Sizes>& anchor, int axis, int64_t k) {
  if (!anchor) return (k - 1) / 2;
  const int64_t a = (*anchor)[axis] == -1 ? k / 2 : (*anchor)[axis];
  check(a >= 0 && a < k, op, "anchor must lie in the window (0 to ", k - 1, ", or -1 for the middle), got ", a);
  return a;
}

}  // namespace

void check_input(const char* op, const Tensor& input) {
  check(input.dim() >= 2, op, "input must have at least 2 dimensions, got ", input.dim());
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

bool normalize_taps(const char* op, const FilterOptions& o) {
  return o.normalized && border_of(op, o.border_type) != Border::skip;
}

Tensor produce(const char* op, const Tensor& input, const ImageView& in, const Geometry& g, const FilterOptions& o,
               const std::optional<Tensor>& out, const std::function<void(const Image&)>& fill) {
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
  if (auto image = merge_leading(result, dtype)) {
    fill(*image);
  } else {  // a caller's `out` whose leading dimensions do not merge
    Tensor merged = empty_contiguous(result, sizes_of(result), result.scalar_type());
    fill(*merge_leading(merged, dtype));
    if (!explain_mode()) torch::stable::copy_(result, merged);
  }
  return result;
}

}  // namespace torch_conv
