// The ladder's gold: plain loops on one thread, float64 sums, nothing clever. Every rung is checked against this
// before it is timed, and the tables' CPU column is this loop.
//
// Per output pixel: 2 K^2 flops; the fused variant 9 * 18 + 2 * 18, as its CUDA rung.
#include <cmath>

#include "core/rooms.h"

namespace torch_conv::ladder {
namespace {

struct Plane {
  const float* in;
  int64_t h, w;

  bool inside(int64_t y, int64_t x) const { return y >= 0 && y < h && x >= 0 && x < w; }
  double read(int64_t y, int64_t x) const { return inside(y, x) ? in[y * w + x] : 0.0; }  // zero padding
};

double filtered(const Plane& plane, const float* taps, int k, int64_t y, int64_t x) {
  const int radius = k / 2;
  double sum = 0;
  for (int i = 0; i < k; ++i)
    for (int j = 0; j < k; ++j) sum += double(taps[i * k + j]) * plane.read(y + i - radius, x + j - radius);
  return sum;
}

// |Gx| + |Gy| of the blurred image, which is 0 outside the image.
double gaussian_sobel(const Plane& plane, const float* gaussian, int64_t y, int64_t x) {
  constexpr double kSobel[3] = {-1, 0, 1}, kSmooth[3] = {1, 2, 1};
  double gx = 0, gy = 0;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      const int64_t cy = y + i - 1, cx = x + j - 1;
      const double g = plane.inside(cy, cx) ? filtered(plane, gaussian, 3, cy, cx) : 0.0;
      gx += kSmooth[i] * kSobel[j] * g;
      gy += kSobel[i] * kSmooth[j] * g;
    }
  return std::abs(gx) + std::abs(gy);
}

}  // namespace

void run_cpu(const Ladder2d& p, Variant variant) {
  for (int64_t n = 0; n < p.planes; ++n) {
    const Plane plane = {.in = p.in + n * p.h * p.w, .h = p.h, .w = p.w};
    float* out = p.out + n * p.h * p.w;
    for (int64_t y = 0; y < p.h; ++y)
      for (int64_t x = 0; x < p.w; ++x)
        out[y * p.w + x] =
            float(variant == Variant::fused ? gaussian_sobel(plane, p.taps, y, x) : filtered(plane, p.taps, p.k, y, x));
  }
}

}  // namespace torch_conv::ladder
