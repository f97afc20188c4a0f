// The small windows of derivatives as rows of taps, one row an axis.
#pragma once

#include <array>

#include "tensors/checks.h"

namespace torch_conv {

// torch_conv/functional/_derivative_kernels.py has the same numbers; tests/test_edges.py compares them. The row
// pass, which is the first, divides by the window's scale, so that sums between passes are no larger than the window's.
class Derivatives {
 public:
  // Derivatives of images: order 1 (d/dx, d/dy) by sobel, diff, scharr or prewitt; order 2 (xx, xy, yy) by sobel or
  // diff.
  static Derivatives of_images(const char* op, const std::string& mode, int64_t order, bool normalized);
  // Derivatives of volumes: (d/dx, d/dy, d/dz) by diff or sobel, per voxel.
  static Derivatives of_volumes(const char* op, const std::string& mode);

  // The windows with taps of dtype `sums`, in this object's memory. `on_host` as in Taps.
  Stage stage(Dtype sums, bool on_host, Point point, double number = 0) const;

 private:
  static constexpr int kLongest = 5;
  using Row = std::array<double, kLongest>;

  void add(const Row& x, const Row& y, const Row& z, double scale);

  int axes_ = 2, length_ = 3, count_ = 0;
  double taps_[Stage::kMost][3][kLongest] = {};
  float narrow_[Stage::kMost][3][kLongest] = {};
};

}  // namespace torch_conv
