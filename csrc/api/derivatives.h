// The small windows of derivatives as rows of taps: one pass an axis.
#pragma once

#include <array>

#include "tensors/checks.h"

namespace torch_conv {

// In torch_conv's own scales (torch_conv/functional/_derivative_kernels.py has the same numbers): the one that divides
// a window stands in its row pass, the first, so that no sum between the passes is larger than those of the whole
// window.
class Derivatives {
 public:
  // Of images: order 1 (d/dx, d/dy) by sobel, diff, scharr or prewitt; order 2 (xx, xy, yy) by sobel or diff.
  static Derivatives of_images(const char* op, const std::string& mode, int64_t order, bool normalized);
  // Of volumes: (d/dx, d/dy, d/dz) by diff or sobel, per voxel.
  static Derivatives of_volumes(const char* op, const std::string& mode);

  // The windows over what has sums of dtype `sums`; the taps are this object's. `on_host` as in Taps.
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
