// filter2d_separable: a row pass and a column pass.
#include "ops/filters.h"
#include "ops/rooms.h"
#include "ops/windows.h"

namespace torch_conv {

namespace {

Tensor filter2d_separable(const char* op, const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y,
                          const FilterOptions& o, const std::optional<Tensor>& out) {
  static constexpr const char* algorithms[] = {"auto", "separable"};
  check_input(op, input);
  check_algorithm(op, o.algorithm, algorithms);
  if (out) check_no_overlap(op, *out, "kernel_x", kernel_x);
  if (out) check_no_overlap(op, *out, "kernel_y", kernel_y);
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

void register_operators(torch::stable::detail::StableLibrary& m) {
  m.impl("filter2d_separable", TORCH_BOX(&separable_op));
  m.impl("filter2d_separable_out", TORCH_BOX(&separable_out_op));
}

}  // namespace

// One function serves both: the rooms part by device.
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
