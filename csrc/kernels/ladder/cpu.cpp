// The ladder's reference: plain loops on one thread with float64 sums. Benchmarks check every rung against it before
// they time the rung, and time it for the tables' CPU column.
#include <cmath>
#include <vector>

#include "kernels/ladder/entry_points.h"

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

struct Volume {
  const float* in;
  int64_t d, h, w;

  double read(int64_t z, int64_t y, int64_t x) const {  // zero padding
    const bool inside = z >= 0 && z < d && y >= 0 && y < h && x >= 0 && x < w;
    return inside ? in[(z * h + y) * w + x] : 0.0;
  }
};

// The whole window. The separable variant's reference is the definition, not the three passes.
std::vector<double> whole_window(const Ladder3d& p, Variant3d variant) {
  const int64_t taps = int64_t(p.kd) * p.kh * p.kw;
  if (variant != Variant3d::separable) return {p.taps, p.taps + taps};
  const float *z = p.taps, *y = z + p.kd, *x = y + p.kh;
  std::vector<double> window;
  window.reserve(taps);
  for (int l = 0; l < p.kd; ++l)
    for (int i = 0; i < p.kh; ++i)
      for (int j = 0; j < p.kw; ++j) window.push_back(double(z[l]) * y[i] * x[j]);
  return window;
}

double filtered(const Volume& volume, const double* tap, int kd, int kh, int kw, int64_t z, int64_t y, int64_t x) {
  double sum = 0;
  for (int l = 0; l < kd; ++l)
    for (int i = 0; i < kh; ++i)
      for (int j = 0; j < kw; ++j) sum += *tap++ * volume.read(z + l - kd / 2, y + i - kh / 2, x + j - kw / 2);
  return sum;
}

}  // namespace

void run_cpu(const Ladder1d& p, Variant1d) {
  const int radius = p.k / 2;
  const float* in = p.in;
  float* out = p.out;
  for (int64_t row = 0; row < p.rows; ++row, in += p.w)
    for (int64_t x = 0; x < p.w; ++x) {
      double sum = 0;
      for (int j = 0; j < p.k; ++j) {
        const int64_t at = x + j - radius;
        sum += double(p.taps[j]) * (at >= 0 && at < p.w ? in[at] : 0.0);  // zero padding
      }
      *out++ = float(sum);
    }
}

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

void run_cpu(const Ladder3d& p, Variant3d variant) {
  const std::vector<double> window = whole_window(p, variant);
  const float* in = p.in;
  float* out = p.out;
  for (int64_t n = 0; n < p.volumes; ++n, in += p.d * p.h * p.w) {
    const Volume volume = {.in = in, .d = p.d, .h = p.h, .w = p.w};
    for (int64_t z = 0; z < p.d; ++z)
      for (int64_t y = 0; y < p.h; ++y)
        for (int64_t x = 0; x < p.w; ++x) *out++ = float(filtered(volume, window.data(), p.kd, p.kh, p.kw, z, y, x));
  }
}

}  // namespace torch_conv::ladder
