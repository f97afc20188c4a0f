// filter2d and filter3d: any window, directly.
#include "ops/part.h"
#include "ops/rooms.h"
#include "ops/split.h"
#include "ops/windows.h"

namespace torch_conv {

namespace {

Tensor filter(const char* op, int axes, const Tensor& input, const Tensor& kernel, const std::string& behaviour,
              const FilterOptions& o, const std::optional<Tensor>& out) {
  static constexpr const char* algorithms[] = {"auto", "direct"};
  check_input(op, input, axes);
  check_algorithm(op, o.algorithm, algorithms);
  check(behaviour == "corr" || behaviour == "conv", op, "behaviour must be 'corr' or 'conv', got '", behaviour, "'");
  if (out) check_no_overlap(op, *out, "kernel", kernel);
  const ImageView in = view_input(op, input, axes);
  Window window = prepare_window(op, "kernel", kernel, axes, input, in.image, axes,
                                 {.flip = behaviour == "conv", .normalized = normalize_taps(op, o)});
  const Geometry g = place_window(op, in.image, window.size, axes, o);
  if (current_probe()) current_probe()->direct = axes == 2;
  return produce(op, input, in, axes, g, o, out, [&](const Image& image) {
    const Place place(op, input);
    upload_large(window, input, place.stream());
    const Direct p{.in = in.image,
                   .out = image,
                   .taps = window.taps,
                   .kd = window.size.d,
                   .kh = window.size.h,
                   .kw = window.size.w,
                   .place = g.place,
                   .groups = in.image.c,
                   .bias = nullptr,
                   .beside = settle_neighbours(in.image, axes)};
    run(op, place, input, p);
  });
}

Tensor filter2d_op(Tensor input, Tensor kernel, std::string border_type, bool normalized, std::string padding,
                   std::string behaviour, double value, Anchor anchor, Sizes stride, Sizes dilation, Type output_dtype,
                   std::string algorithm) {
  return filter("filter2d", 2, input, kernel, behaviour,
                {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm}, {});
}

void filter2d_out_op(Tensor input, Tensor kernel, std::string border_type, bool normalized, std::string padding,
                     std::string behaviour, double value, Anchor anchor, Sizes stride, Sizes dilation,
                     std::string algorithm, Tensor out) {
  filter("filter2d", 2, input, kernel, behaviour,
         {border_type, normalized, padding, value, anchor, stride, dilation, {}, algorithm}, out);
}

Tensor filter3d_op(Tensor input, Tensor kernel, std::string border_type, bool normalized, std::string behaviour,
                   std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation, Type output_dtype,
                   std::string algorithm) {
  return filter("filter3d", 3, input, kernel, behaviour,
                {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm}, {});
}

void filter3d_out_op(Tensor input, Tensor kernel, std::string border_type, bool normalized, std::string behaviour,
                     std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation,
                     std::string algorithm, Tensor out) {
  filter("filter3d", 3, input, kernel, behaviour,
         {border_type, normalized, padding, value, anchor, stride, dilation, {}, algorithm}, out);
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  m.impl("filter2d", TORCH_BOX(&filter2d_op));
  m.impl("filter2d_split", TORCH_BOX((&Split<"filter2d", 2, 2, filter2d_op>::run)));
  m.impl("filter2d_out", TORCH_BOX(&filter2d_out_op));
  m.impl("filter3d", TORCH_BOX(&filter3d_op));
  m.impl("filter3d_split", TORCH_BOX((&Split<"filter3d", 3, 3, filter3d_op>::run)));
  m.impl("filter3d_out", TORCH_BOX(&filter3d_out_op));
}

}  // namespace

// One function serves both: the rooms part by device.
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
