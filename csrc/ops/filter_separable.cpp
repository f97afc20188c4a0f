// filter2d_separable and filter3d_separable: one pass an axis.
#include "ops/filters.h"
#include "ops/part.h"
#include "ops/passes.h"
#include "ops/split.h"
#include "ops/windows.h"

namespace torch_conv {

namespace {

void check_words(const char* op, const std::string& algorithm, int axes) {
  static constexpr const char* images[] = {"auto", "fused", "separable"};
  static constexpr const char* volumes[] = {"auto", "separable"};
  if (axes == 2) check_algorithm(op, algorithm, images);
  else check_algorithm(op, algorithm, volumes);
}

// Smoothing that keeps every other pixel of every other row: the fused room then filters no row in vain.
bool halves(const Extent& window, const Geometry& g, const Image& image, bool valid) {
  const Placement& at = g.place;
  return g.out.h == ceil_div(image.h, 2) && g.out.w == ceil_div(image.w, 2) && at.stride_y == 2 && at.stride_x == 2 &&
         at.dilation_y == 1 && at.dilation_x == 1 && !valid && window.h % 2 == 1 && window.w % 2 == 1 &&
         at.pad_y == window.h / 2 && at.pad_x == window.w / 2 && !at.normalized;
}

Fused as_fused(const Separable& p, bool wanted) {
  const Stage stage{.windows = 1, .kh = p.kh, .kw = p.kw, .taps_x = {p.taps_x}, .taps_y = {p.taps_y}};
  return {.in = p.in,
          .out = p.out,
          .stride_output = 0,
          .count = 1,
          .stages = {stage},
          .border = p.place.border,
          .value = p.place.value,
          .valid = false,
          .stride = p.place.stride_y,
          .wanted = wanted};
}

// `kernels`: along x, then y, then z where there are three axes.
Tensor separable(const char* op, const Tensor& input, const std::vector<Tensor>& kernels, const FilterOptions& o,
                 const std::optional<Tensor>& out) {
  static constexpr const char* names[] = {"kernel_x", "kernel_y", "kernel_z"};
  const int axes = int(kernels.size());
  check_input(op, input, axes);
  check_words(op, o.algorithm, axes);
  for (int i = 0; out && i < axes; ++i) check_no_overlap(op, *out, names[i], kernels[i]);
  const ImageView in = view_input(op, input, axes);
  const WindowOptions options{.flip = false, .normalized = normalize_taps(op, o)};
  std::vector<Window> windows;
  for (int i = 0; i < axes; ++i)
    windows.push_back(prepare_window(op, names[i], kernels[i], 1, input, in.image, axes, options));
  const Extent size{.d = axes == 3 ? windows[2].size.w : 1, .h = windows[1].size.w, .w = windows[0].size.w};
  const Geometry g = place_window(op, in.image, size, axes, o);
  const bool halving = axes == 2 && halves(size, g, in.image, is_valid_padding(op, o.padding));
  const bool wanted = o.algorithm == "fused" && !current_part();  // parts of an image get the same bits either way
  check(halving || !wanted, op,
        "algorithm 'fused' serves odd windows in their middle, with stride 2, dilation 1 and padding='same'");
  if (current_probe()) current_probe()->direct = axes == 2 && !halving;
  return produce(op, input, in, axes, g, o, out, [&](const Image& image) {
    const Place place(op, input);
    for (Window& window : windows) upload_large(window, input, place.stream());
    Separable p{.in = in.image,
                .out = image,
                .taps_x = windows[0].taps,
                .taps_y = windows[1].taps,
                .taps_z = {},
                .kd = size.d,
                .kh = size.h,
                .kw = size.w,
                .place = g.place,
                .beside = settle_neighbours(in.image, axes)};
    if (axes == 3) p.taps_z = windows[2].taps;
    const bool asked = halving && (wanted || (place.cuda() && o.algorithm == "auto"));
    if (asked && run_in_one_launch(op, place, input, as_fused(p, wanted))) return;
    run_passes(op, place, input, in, axes, p);
  });
}

Tensor separable2d_op(Tensor input, Tensor kernel_x, Tensor kernel_y, std::string border_type, bool normalized,
                      std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation, Type output_dtype,
                      std::string algorithm) {
  return separable("filter2d_separable", input, {kernel_x, kernel_y},
                   {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm}, {});
}

void separable2d_out_op(Tensor input, Tensor kernel_x, Tensor kernel_y, std::string border_type, bool normalized,
                        std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation,
                        std::string algorithm, Tensor out) {
  separable("filter2d_separable", input, {kernel_x, kernel_y},
            {border_type, normalized, padding, value, anchor, stride, dilation, {}, algorithm}, out);
}

Tensor separable3d_op(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, std::string border_type,
                      bool normalized, std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation,
                      Type output_dtype, std::string algorithm) {
  return separable("filter3d_separable", input, {kernel_x, kernel_y, kernel_z},
                   {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm}, {});
}

void separable3d_out_op(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, std::string border_type,
                        bool normalized, std::string padding, double value, Anchor anchor, Sizes stride, Sizes dilation,
                        std::string algorithm, Tensor out) {
  separable("filter3d_separable", input, {kernel_x, kernel_y, kernel_z},
            {border_type, normalized, padding, value, anchor, stride, dilation, {}, algorithm}, out);
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  m.impl("filter2d_separable", TORCH_BOX(&separable2d_op));
  m.impl("filter2d_separable_split", TORCH_BOX((&Split<"filter2d_separable", 2, 1, separable2d_op>::run)));
  m.impl("filter2d_separable_out", TORCH_BOX(&separable2d_out_op));
  m.impl("filter3d_separable", TORCH_BOX(&separable3d_op));
  m.impl("filter3d_separable_split", TORCH_BOX((&Split<"filter3d_separable", 3, 1, separable3d_op>::run)));
  m.impl("filter3d_separable_out", TORCH_BOX(&separable3d_out_op));
}

}  // namespace

// One function serves both: the rooms part by device.
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
