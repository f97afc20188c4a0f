// filter2d and filter3d: any window, directly; over images also by FFT.
#include <algorithm>

#include "ops/filter_fft.h"
#include "ops/filters.h"
#include "ops/operator.h"
#include "ops/rooms.h"
#include "ops/windows.h"

namespace torch_conv {

namespace {

void check_words(const char* op, const std::string& algorithm, int axes) {
  static constexpr const char* images[] = {"auto", "direct", "fft"};
  static constexpr const char* volumes[] = {"auto", "direct"};
  if (axes == 2) check_algorithm(op, algorithm, images);
  else check_algorithm(op, algorithm, volumes);
}

// Is a filter of images made by FFT? What serves the whole serves its parts. (`out` has sizes, but no memory yet.)
bool by_fft(const Call& call, const Tensor& input, const Direct& p, const std::string& algorithm) {
  if (call.whole) return call.whole->by_fft;
  const FilterSize size = filter_size(p, on_cuda(call, input));
  if (algorithm == "auto") return *environment("TORCH_CONV_VARIANT") == 0 && fft_is_faster(size);
  if (algorithm == "direct") return false;
  check(std::max(size.span_h, size.span_w) <= kFftLargestSpan, call.op,
        "algorithm 'fft' cannot serve this call: the window spans ", size.span_h, "x", size.span_w,
        " pixels, more than ", kFftLargestSpan, " along an axis");
  return true;
}

Tensor filter(Call& call, int axes, const Tensor& input, const Tensor& kernel, const std::string& behaviour,
              const FilterOptions& o) {
  check_input(call.op, input, axes);
  check_words(call.op, o.algorithm, axes);
  check(behaviour == "corr" || behaviour == "conv", call.op, "behaviour must be 'corr' or 'conv', got '", behaviour,
        "'");
  if (call.out) check_no_overlap(call.op, *call.out, "kernel", kernel);
  const ImageView in = view_input(call, input, axes);
  Window window = prepare_window(call, "kernel", kernel, axes, input, in.image, axes,
                                 {.flip = behaviour == "conv", .normalized = normalize_taps(call.op, o)});
  const Geometry g = place_window(call, in.image, window.size, axes, o);
  Direct p{.in = in.image,
           .out = in.image,
           .taps = window.taps,
           .kd = window.size.d,
           .kh = window.size.h,
           .kw = window.size.w,
           .place = g.place,
           .groups = in.image.c,
           .bias = nullptr};
  p.out.d = g.out.d, p.out.h = g.out.h, p.out.w = g.out.w;
  const bool fft = axes == 2 && by_fft(call, input, p, o.algorithm);
  call.reach.by_fft = fft;
  call.reach.direct = axes == 2 && !fft;
  return produce(call, input, in, axes, g, o, [&](const Image& image) {
    const Place place(call, input);
    p.out = image;
    if (fft) {
      upload(call, window, input);
      p.taps = window.taps;
      return run_by_fft(call, place, input, p, window);
    }
    upload_large(call, window, input);
    p.taps = window.taps;
    p.beside = beside_of(call, in.image, axes);
    run(call, place, input, p);
  });
}

Tensor filter2d(Call& call, const Tensor& input, const Tensor& kernel, const std::string& border_type,
                const bool& normalized, const std::string& padding, const std::string& behaviour, const double& value,
                const Anchor& anchor, const Sizes& stride, const Sizes& dilation, const Type& output_dtype,
                const std::string& algorithm) {
  return filter(call, 2, input, kernel, behaviour,
                {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm});
}

Tensor filter3d(Call& call, const Tensor& input, const Tensor& kernel, const std::string& border_type,
                const bool& normalized, const std::string& behaviour, const std::string& padding, const double& value,
                const Anchor& anchor, const Sizes& stride, const Sizes& dilation, const Type& output_dtype,
                const std::string& algorithm) {
  return filter(call, 3, input, kernel, behaviour,
                {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm});
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  Operator<"filter2d", 2, 2, filter2d>::implement_with_out(m);
  Operator<"filter3d", 3, 3, filter3d>::implement_with_out(m);
}

}  // namespace

// One function serves both: the rooms part by device.
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
