// filter2d: any window, directly.
#include "ops/filters.h"
#include "ops/rooms.h"
#include "ops/windows.h"

namespace torch_conv {

namespace {

Tensor filter2d(const char* op, const Tensor& input, const Tensor& kernel, const std::string& behaviour,
                const FilterOptions& o, const std::optional<Tensor>& out) {
  static constexpr const char* algorithms[] = {"auto", "direct"};
  check_input(op, input);
  check_algorithm(op, o.algorithm, algorithms);
  check(behaviour == "corr" || behaviour == "conv", op, "behaviour must be 'corr' or 'conv', got '", behaviour, "'");
  if (out) check_no_overlap(op, *out, "kernel", kernel);
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

void register_operators(torch::stable::detail::StableLibrary& m) {
  m.impl("filter2d", TORCH_BOX(&filter2d_op));
  m.impl("filter2d_out", TORCH_BOX(&filter2d_out_op));
}

}  // namespace

// One function serves both: the rooms part by device.
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
