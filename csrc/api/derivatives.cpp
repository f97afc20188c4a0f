#include "api/derivatives.h"

namespace torch_conv {

void Derivatives::add(const Row& x, const Row& y, const Row& z, double scale) {
  for (int t = 0; t < length_; ++t) {
    taps_[count_][0][t] = x[t] / scale, taps_[count_][1][t] = y[t], taps_[count_][2][t] = z[t];
    for (int axis = 0; axis < 3; ++axis) narrow_[count_][axis][t] = float(taps_[count_][axis][t]);
  }
  ++count_;
}

Derivatives Derivatives::of_images(const char* op, const std::string& mode, int64_t order, bool normalized) {
  struct Smoothing {
    const char* mode;
    Row row;
    double sum;  // of the |taps| of its 3x3 derivative
  };
  static constexpr Smoothing smoothings[] = {
      {"sobel", {1, 2, 1}, 8}, {"diff", {0, 1, 0}, 2}, {"scharr", {3, 10, 3}, 32}, {"prewitt", {1, 1, 1}, 6}};
  const Smoothing* smooth = nullptr;
  for (const Smoothing& s : smoothings)
    if (mode == s.mode) smooth = &s;
  check(smooth != nullptr, op, "mode must be 'sobel', 'diff', 'scharr' or 'prewitt', got '", mode, "'");
  const bool both = mode == "sobel" || mode == "diff";
  check(order == 1 || (order == 2 && both), op, "order must be ", both ? "1 or 2" : "1", " for mode '", mode, "', got ",
        order);
  const auto scaled = [&](double scale) { return normalized ? scale : 1.0; };
  constexpr Row slope{-1, 0, 1};
  Derivatives d;
  if (order == 1) {
    d.add(slope, smooth->row, {}, scaled(smooth->sum));
    d.add(smooth->row, slope, {}, scaled(smooth->sum));
  } else if (mode == "sobel") {  // kornia's units: the response to a second derivative of 1
    constexpr Row bend{1, 0, -2, 0, 1}, wide_slope{-1, -2, 0, 2, 1}, binomial{1, 4, 6, 4, 1};
    d.length_ = 5;
    d.add(bend, binomial, {}, scaled(64));
    d.add(wide_slope, wide_slope, {}, scaled(64));
    d.add(binomial, bend, {}, scaled(64));
  } else {
    constexpr Row bend{1, -2, 1}, one{0, 1, 0};
    d.add(bend, one, {}, 1);
    d.add(slope, slope, {}, scaled(4));
    d.add(one, bend, {}, 1);
  }
  return d;
}

Derivatives Derivatives::of_volumes(const char* op, const std::string& mode) {
  check(mode == "diff" || mode == "sobel", op, "mode must be 'diff' or 'sobel', got '", mode, "'");
  // Powers of two scale each axis. The kernel family for volumes computes such differences with fewer operations.
  const Row smooth = mode == "sobel" ? Row{0.25, 0.5, 0.25} : Row{0, 1, 0};
  constexpr Row slope{-0.5, 0, 0.5};
  Derivatives d;
  d.axes_ = 3;
  d.add(slope, smooth, smooth, 1);
  d.add(smooth, slope, smooth, 1);
  d.add(smooth, smooth, slope, 1);
  return d;
}

Stage Derivatives::stage(Dtype sums, bool on_host, Point point, double number) const {
  Stage stage{.windows = count_,
              .kd = axes_ == 3 ? length_ : 1,
              .kh = length_,
              .kw = length_,
              .point = point,
              .number = number};
  for (int i = 0; i < count_; ++i) {
    const auto row = [&](int axis) {
      const void* data = sums == Dtype::f64 ? static_cast<const void*>(taps_[i][axis]) : narrow_[i][axis];
      return Taps{.data = data, .on_host = on_host, .stride_n = 0, .stride_c = 0, .stride_ci = 0};
    };
    stage.taps_x[i] = row(0), stage.taps_y[i] = row(1);
    if (axes_ == 3) stage.taps_z[i] = row(2);
  }
  return stage;
}

}  // namespace torch_conv
