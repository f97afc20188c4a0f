// direct2d's MMA as its plan launches it, on the host, against sums in float64: images on 16 bytes and such as
// start anywhere, and HWC images. Not a byte is read or written beyond an image's memory, behind which no page stands.
#include "direct_mma.h"

namespace {

const Kernels kKernels = {
    KERNEL(half_t, 5, 5, 1, 1, true, true, false, false),
    KERNEL(half_t, 5, 5, 1, 1, true, false, false, false),
    KERNEL(half_t, 7, 7, 1, 1, true, true, true, false),
    KERNEL(half_t, 7, 7, 1, 1, true, true, false, false),
    KERNEL(half_t, 7, 7, 1, 1, true, false, true, false),
    KERNEL(half_t, 7, 7, 1, 1, true, false, false, false),
    KERNEL(half_t, 4, 4, 1, 1, true, true, false, false),
    KERNEL(half_t, 6, 3, 1, 1, true, true, false, false),
    KERNEL(half_t, 9, 11, 1, 1, true, true, false, false),
    KERNEL(half_t, 15, 15, 1, 1, true, true, true, false),
    KERNEL(half_t, 2, 14, 1, 1, true, true, false, false),
    KERNEL(bhalf_t, 5, 5, 1, 1, true, true, false, false),
    KERNEL(bhalf_t, 7, 7, 1, 1, true, true, true, false),
    KERNEL(bhalf_t, 12, 13, 1, 1, true, true, false, false),
    KERNEL(half_t, 31, 31, 1, 1, true, true, true, false),
    KERNEL(half_t, 17, 20, 1, 1, true, true, false, false),
    KERNEL(bhalf_t, 21, 29, 1, 1, true, true, false, false),
    KERNEL(half_t, 5, 31, 1, 1, true, true, false, false),
    KERNEL(half_t, 31, 3, 1, 1, true, true, false, false),
    KERNEL(half_t, 1, 1, 1, 1, true, true, false, false),
    KERNEL(half_t, 8, 7, 1, 1, true, false, true, false),
    KERNEL(half_t, 5, 5, 1, 1, true, true, true, false),
    KERNEL(half_t, 5, 5, 1, 1, true, true, false, true),
    KERNEL(bhalf_t, 7, 7, 1, 1, true, true, true, true),
    KERNEL(half_t, 15, 15, 1, 1, true, true, true, true),
    KERNEL(half_t, 5, 5, 1, 1, false, false, false, false),
    KERNEL(half_t, 5, 5, 1, 1, false, true, false, false),
    KERNEL(half_t, 5, 5, 1, 1, false, false, false, true),
    KERNEL(bhalf_t, 5, 5, 1, 1, false, false, false, false),
    KERNEL(half_t, 7, 7, 1, 1, false, false, false, false),
    KERNEL(half_t, 7, 7, 1, 1, false, true, false, false),
    KERNEL(bhalf_t, 7, 7, 1, 1, false, false, false, true),
    KERNEL(half_t, 9, 9, 1, 1, false, false, false, false),
    KERNEL(half_t, 15, 15, 1, 1, false, false, false, true),
    KERNEL(bhalf_t, 12, 13, 1, 1, false, false, false, false),
    KERNEL(half_t, 31, 31, 1, 1, false, false, false, false),
    KERNEL(half_t, 4, 7, 1, 1, false, false, false, true),
    KERNEL(bhalf_t, 4, 7, 1, 1, false, true, false, true),
    // HWC images.
    KERNEL(half_t, 5, 5, 2, 1, true, false, false, false),
    KERNEL(half_t, 7, 7, 3, 1, true, true, true, false),
    KERNEL(half_t, 7, 7, 3, 1, false, false, false, false),
    KERNEL(half_t, 7, 7, 3, 1, true, true, true, true),
    KERNEL(half_t, 5, 5, 3, 1, true, true, false, false),
    KERNEL(half_t, 5, 5, 3, 1, false, false, false, true),
    KERNEL(half_t, 9, 9, 3, 1, true, true, false, false),
    KERNEL(half_t, 9, 9, 4, 1, false, false, false, false),
    KERNEL(half_t, 7, 7, 4, 1, true, true, true, false),
    KERNEL(half_t, 7, 7, 2, 1, true, true, true, false),
    KERNEL(half_t, 7, 7, 2, 1, true, true, false, false),
    KERNEL(bhalf_t, 15, 15, 3, 1, true, true, true, false),
    KERNEL(half_t, 15, 15, 4, 1, true, true, true, true),
    KERNEL(half_t, 31, 31, 3, 1, true, true, true, false),
    KERNEL(half_t, 31, 31, 4, 1, false, false, false, false),
    KERNEL(bhalf_t, 17, 20, 3, 1, true, true, false, false),
    KERNEL(bhalf_t, 12, 13, 3, 1, false, false, false, false),
    // ... whose channels have a window each.
    KERNEL(half_t, 5, 5, 3, 3, true, true, false, false),
    KERNEL(half_t, 5, 5, 3, 3, false, false, false, false),
    KERNEL(half_t, 7, 7, 3, 3, true, true, true, true),
    KERNEL(bhalf_t, 7, 7, 4, 4, true, false, true, false),
    KERNEL(half_t, 9, 9, 2, 2, true, true, false, false),
    KERNEL(half_t, 15, 15, 3, 3, true, true, true, false),
    KERNEL(bhalf_t, 31, 31, 4, 4, true, true, true, false),
};

const Case kCases[] = {
    {F, 1, 2, 37, 136, 5, 5, 2, 2, 0, 0, Border::reflect},
    {F, 2, 1, 8, 8, 5, 5, 2, 2, 0, 0, Border::circular, 0, true},
    {F, 1, 1, 35, 264, 5, 5, 0, 0, 4, 4, Border::constant},
    {F, 1, 1, 9, 24, 5, 5, 4, 1, 0, 0, Border::constant, 3},
    {F, 1, 1, 36, 272, 7, 7, 3, 3, 0, 0, Border::constant},
    {F, 1, 3, 20, 136, 7, 7, 3, 3, 0, 0, Border::zero_output, 0, true, true},
    {F, 1, 1, 36, 256, 7, 7, 3, 3, 0, 0, Border::reflect},
    {F, 2, 1, 20, 128, 7, 7, 3, 3, 0, 0, Border::zero_output},
    {F, 2, 2, 20, 136, 7, 7, 3, 3, 0, 0, Border::reflect, 0, true, false, 0, 5, 0},
    {B, 1, 1, 36, 24, 5, 5, 2, 2, 0, 0, Border::constant, 0, false, false, 0, 9, 2},
    {F, 1, 1, 20, 40, 7, 7, 6, 0, 0, 0, Border::symmetric},
    {F, 1, 1, 20, 136, 7, 7, 3, 3, 0, 2, Border::replicate},
    {F, 1, 1, 20, 144, 7, 7, 0, 0, 6, 6, Border::constant},
    {F, 1, 1, 20, 72, 4, 4, 1, 1, 0, 0, Border::reflect},
    {F, 1, 1, 20, 72, 6, 3, 2, 1, 0, 0, Border::replicate},
    {F, 1, 1, 34, 72, 9, 11, 4, 5, 0, 0, Border::symmetric},
    {F, 1, 1, 40, 136, 15, 15, 7, 7, 0, 0, Border::reflect},
    {F, 1, 1, 20, 64, 2, 14, 0, 6, 0, 0, Border::reflect},
    {F, 1, 1, 36, 136, 31, 31, 15, 15, 0, 0, Border::reflect},
    {F, 1, 1, 36, 72, 17, 20, 8, 9, 0, 0, Border::constant},
    {B, 1, 1, 36, 40, 21, 29, 10, 14, 0, 0, Border::circular},
    {F, 1, 1, 36, 40, 5, 31, 2, 15, 0, 0, Border::replicate},
    {F, 1, 1, 36, 40, 31, 3, 15, 1, 0, 0, Border::zero_output},
    {B, 1, 1, 33, 72, 5, 5, 2, 2, 0, 0, Border::reflect},
    {B, 1, 1, 20, 136, 7, 7, 3, 3, 0, 0, Border::circular},
    {B, 1, 1, 20, 24, 12, 13, 5, 6, 0, 0, Border::constant},
    {F, 1, 1, 3, 8, 1, 1, 0, 0, 0, 0, Border::constant},
    {F, 1, 1, 20, 72, 8, 7, 3, 3, 0, 1, Border::reflect},
    {F, 1, 2, 37, 136, 5, 5, 2, 2, 0, 0, Border::reflect, 0, false, false, INFINITY},
    {F, 1, 1, 36, 144, 7, 7, 3, 3, 0, 0, Border::constant, 0, false, false, NAN},
    {B, 1, 1, 20, 136, 7, 7, 3, 3, 0, 0, Border::zero_output, 0, false, false, INFINITY},
    {F, 1, 2, 37, 136, 5, 5, 2, 2, 0, 0, Border::reflect, 0, true, false, 0, 0, 0, true},
    {B, 1, 1, 36, 144, 7, 7, 3, 3, 0, 0, Border::replicate, 0, false, false, 0, 0, 0, true},
    {F, 1, 1, 40, 136, 15, 15, 7, 7, 0, 0, Border::zero_output, 0, false, false, INFINITY, 0, 0, true},
    {F, 1, 2, 37, 263, 5, 5, 2, 2, 0, 0, Border::reflect},
    {F, 1, 3, 25, 517, 5, 5, 2, 2, 0, 0, Border::constant, 0, true, true},
    {F, 1, 1, 26, 249, 5, 5, 2, 2, 0, 0, Border::circular, 0, false, false, 0, 0, 0, true},
    {F, 2, 1, 25, 5, 5, 5, 2, 2, 0, 0, Border::symmetric},
    {F, 1, 2, 30, 136, 5, 5, 2, 2, 0, 0, Border::replicate, 0, false, false, 0, 0, 0, false, 3, 0},
    {F, 1, 2, 30, 505, 5, 5, 0, 0, 4, 4, Border::constant, 0, false, false, 0, 0, 0, false, 2, 6},
    {F, 1, 2, 30, 264, 5, 5, 2, 2, 0, 0, Border::zero_output, 0, false, false, INFINITY, 0, 0, false, 8, 1},
    {F, 1, 1, 37, 263, 5, 5, 2, 2, 0, 0, Border::reflect, 0, false, false, NAN},
    {B, 1, 1, 24, 331, 5, 5, 4, 1, 0, 0, Border::constant, 3, false, false, 0, 9, 2},
    {F, 1, 1, 50, 257, 7, 7, 3, 3, 0, 0, Border::reflect},
    {F, 2, 1, 20, 133, 7, 7, 3, 3, 0, 0, Border::zero_output, 0, false, false, INFINITY},
    {F, 1, 1, 20, 136, 7, 7, 3, 3, 0, 0, Border::reflect, 0, false, false, 0, 5, 0, false, 7, 0},
    {F, 1, 1, 20, 136, 7, 7, 3, 3, 0, 0, Border::constant, 0, false, false, 0, 0, 0, false, 0, 5},
    {B, 1, 1, 36, 251, 7, 7, 3, 3, 0, 0, Border::replicate, 0, false, false, 0, 0, 0, true},
    {F, 1, 1, 33, 263, 9, 9, 4, 3, 0, 0, Border::constant},
    {F, 1, 1, 33, 263, 9, 9, 3, 5, 0, 0, Border::symmetric},
    {F, 1, 1, 41, 139, 15, 15, 7, 7, 0, 0, Border::zero_output, 0, false, false, INFINITY, 0, 0, true},
    {B, 1, 1, 20, 25, 12, 13, 5, 6, 0, 0, Border::circular},
    {F, 1, 1, 36, 137, 31, 31, 15, 15, 0, 0, Border::reflect},
    // Boxes with rows of the image below those that windows see, left of which lies NaN.
    {F, 1, 2, 45, 137, 31, 31, 15, 15, 0, 0, Border::replicate, 0, false, false, 0, 0, 0, false, 3, 3},
    {F, 1, 2, 30, 249, 4, 7, 1, 3, 0, 0, Border::circular, 0, false, false, 0, 0, 0, true, 2, 1},
    {B, 2, 1, 30, 136, 4, 7, 1, 3, 0, 0, Border::symmetric, 0, false, false, 0, 0, 0, true, 1, 0},
    {B, 1, 2, 45, 41, 12, 13, 5, 6, 0, 0, Border::reflect, 0, false, false, 0, 0, 0, false, 5, 8},
    {F, 1, 2, 33, 263, 9, 9, 4, 3, 0, 0, Border::zero_output, 0, false, false, 0, 0, 0, false, 5, 1},
    {B, 1, 2, 50, 251, 7, 7, 3, 3, 0, 0, Border::constant, 0, false, false, 0, 0, 0, true, 2, 3},
    {F, 1, 2, 45, 136, 15, 15, 7, 7, 0, 0, Border::circular, 0, false, false, 0, 0, 0, true, 8, 8},
    // HWC images.
    {F, 2, 3, 50, 264, 7, 7, 3, 3, 0, 0, Border::reflect, 0, false, false, 0, 0, 0, false, 0, 0, true},
    {F, 1, 3, 30, 136, 7, 7, 3, 3, 0, 0, Border::zero_output, 0, false, false, INFINITY, 0, 0, false, 0, 0, true},
    {F, 1, 3, 30, 131, 7, 7, 3, 3, 0, 0, Border::circular, 0, false, false, NAN, 0, 0, false, 0, 0, true},
    {F, 1, 3, 30, 137, 7, 7, 3, 3, 0, 0, Border::zero_output, 0, false, false, 0, 0, 0, false, 5, 1, true},
    {F, 2, 3, 36, 136, 7, 7, 3, 3, 0, 0, Border::constant, 3, false, false, 0, 7, 5, true, 0, 0, true},
    {F, 1, 3, 30, 40, 5, 5, 2, 2, 0, 0, Border::symmetric, 0, false, false, 0, 4, 4, false, 0, 0, true},
    {F, 1, 3, 26, 125, 5, 5, 2, 2, 0, 0, Border::replicate, 0, false, false, 0, 0, 0, true, 0, 0, true},
    {F, 1, 3, 33, 264, 9, 9, 4, 3, 0, 0, Border::constant, 0, false, false, 0, 0, 0, false, 0, 0, true},
    {F, 1, 4, 33, 129, 9, 9, 4, 4, 0, 0, Border::reflect, 0, false, false, INFINITY, 0, 0, false, 0, 0, true},
    {F, 1, 4, 30, 264, 7, 7, 3, 3, 0, 0, Border::circular, 0, false, false, 0, 7, 3, false, 0, 0, true},
    {F, 1, 2, 30, 136, 7, 7, 6, 0, 0, 0, Border::zero_output, 0, false, false, 0, 0, 0, false, 0, 0, true},
    {F, 1, 2, 30, 136, 7, 7, 3, 3, 0, 0, Border::replicate, 0, false, false, NAN, 0, 0, false, 0, 0, true},
    {F, 1, 2, 37, 120, 5, 5, 0, 0, 4, 4, Border::constant, 0, false, false, 0, 0, 0, false, 0, 4, true},
    {B, 1, 3, 40, 136, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, false, INFINITY, 0, 0, false, 0, 0, true},
    {F, 1, 4, 40, 130, 15, 15, 7, 7, 0, 0, Border::zero_output, 0, false, false, 0, 0, 0, true, 0, 0, true},
    {F, 1, 3, 36, 136, 31, 31, 15, 15, 0, 0, Border::reflect, 0, false, false, 0, 0, 0, false, 0, 0, true},
    {F, 1, 4, 40, 37, 31, 31, 15, 15, 0, 0, Border::constant, 0, false, false, 0, 0, 0, false, 3, 2, true},
    {B, 1, 3, 36, 72, 17, 20, 8, 9, 0, 0, Border::circular, 0, false, false, 0, 0, 0, false, 0, 0, true},
    {B, 1, 3, 45, 41, 12, 13, 5, 6, 0, 0, Border::reflect, 0, false, false, 0, 0, 0, false, 5, 8, true},
    {F, 2, 3, 30, 136, 5, 5, 2, 2, 0, 0, Border::reflect, 0, true, false, INFINITY, 0, 0, false, 0, 0, true},
    {F, 1, 3, 26, 125, 5, 5, 2, 2, 0, 0, Border::replicate, 0, true, false, 0, 0, 0, false, 0, 0, true},
    {F, 2, 3, 30, 136, 7, 7, 3, 3, 0, 0, Border::zero_output, 0, true, false, 0, 0, 0, true, 0, 0, true},
    {B, 1, 4, 30, 132, 7, 7, 3, 3, 0, 0, Border::circular, 0, true, false, 0, 0, 0, false, 0, 1, true},
    {F, 1, 2, 36, 136, 9, 9, 4, 4, 0, 0, Border::constant, 2, true, false, 0, 9, 9, false, 0, 0, true},
    {F, 1, 3, 40, 136, 15, 15, 7, 7, 0, 0, Border::reflect, 0, true, false, NAN, 0, 0, false, 0, 0, true},
    {B, 1, 4, 40, 132, 31, 31, 15, 15, 0, 0, Border::symmetric, 0, true, false, 0, 0, 0, false, 0, 0, true},
    // Outputs that are not finite because of elements outside of their windows, at edges of tiles and of images.
    {F, 1, 2, 26, 264, 5, 5, 2, 2, 0, 0, Border::reflect, 0, false, false, INFINITY, 0, 0, false, 0, 0, false, true},
    {F, 1, 2, 49, 257, 7, 7, 3, 3, 0, 0, Border::circular, 0, false, false, INFINITY, 0, 0, false, 0, 0, false, true},
    {F, 1, 2, 25, 250, 7, 7, 3, 3, 0, 0, Border::replicate, 0, false, false, INFINITY, 5, 5, false, 0, 0, false, true},
    {F, 1, 2, 33, 249, 9, 9, 3, 5, 0, 0, Border::constant, 0, false, false, INFINITY, 0, 0, false, 0, 0, false, true},
    {F, 1, 2, 26, 264, 5, 5, 2, 2, 0, 0, Border::zero_output, 0, false, false, INFINITY, 5, 5, false, 0, 0, false,
     true},
    {F, 1, 3, 26, 136, 7, 7, 3, 3, 0, 0, Border::symmetric, 0, false, false, INFINITY, 0, 0, false, 0, 0, true, true},
    {F, 1, 3, 50, 131, 7, 7, 3, 3, 0, 0, Border::reflect, 0, false, false, INFINITY, 9, 9, false, 0, 0, true, true},
    {F, 1, 2, 50, 249, 4, 7, 1, 3, 0, 0, Border::reflect, 0, false, false, INFINITY, 0, 0, true, 0, 0, false, true},
    {F, 1, 2, 47, 505, 4, 7, 1, 3, 0, 0, Border::symmetric, 0, false, false, INFINITY, 0, 0, true, 0, 0, false, true},
    {F, 1, 1, 47, 520, 9, 11, 4, 5, 0, 0, Border::circular, 0, false, false, INFINITY, 0, 0, false, 0, 0, false, true},
    {B, 1, 1, 50, 264, 12, 13, 5, 6, 0, 0, Border::reflect, 0, false, false, INFINITY, 0, 0, false, 0, 0, false, true},
    {F, 1, 1, 50, 136, 31, 31, 15, 15, 0, 0, Border::reflect, 0, false, false, INFINITY, 0, 0, false, 0, 0, false,
     true},
};

// Of one output: is it within the bound of tests/tolerance.py?
// `whole`: the image, of which p.in are rows from `first` on.
std::string judge(const Direct& p, const Image& whole, int64_t first, const float* window, int64_t n, int64_t c,
                  int64_t y, int64_t x) {
  double sum = 0, scale = 0;
  const int64_t top = first + y - p.place.pad_y, left = x - p.place.pad_x;
  for (int64_t i = 0; i < p.kh; ++i)
    for (int64_t j = 0; j < p.kw; ++j) {
      const int64_t row = map_index(top + i, whole.h, p.place.border),
                    column = map_index(left + j, p.in.w, p.place.border);
      const double pixel = row < 0 || column < 0 ? p.place.value : get(whole, n, c / (p.out.c / p.groups), row, column);
      sum += window[i * p.kw + j] * pixel, scale += std::abs(window[i * p.kw + j] * pixel);
    }
  const bool fits = top >= 0 && top + p.kh <= whole.h && left >= 0 && left + p.kw <= p.in.w;
  if (p.place.border == Border::zero_output && !fits) sum = scale = 0;
  const double got = get(p.out, n, c, y, x);
  const double unit = p.in.dtype == Dtype::f16 ? std::ldexp(1, -11) : std::ldexp(1, -8);
  const double sums = (4.0 * p.kh * p.kw + 64) * std::ldexp(1, -24) * scale;
  const bool close = std::isfinite(sum) ? std::abs(got - sum) <= sums + std::max(unit * (std::abs(sum) + sums), 3e-8)
                                        : !std::isfinite(got);
  return close ? "" : on_host::difference({n, c, y, x}, got, sum);
}

bool check(const Case& k) {
  std::mt19937 make(1);
  std::normal_distribution<float> normal;
  const Image whole = image_of(k.dtype, k.n, k.one_input ? 1 : k.c, k.above + k.h + k.below, k.w, k.in_gap, k.hwc);
  const auto rows = [&](int64_t first, int64_t count) {
    Image some = whole;
    some.data = count ? static_cast<uint16_t*>(whole.data) + first * whole.stride_h : nullptr, some.h = count;
    return some;
  };
  const Image in = rows(k.above, k.h);
  const Image out = image_of(k.dtype, k.n, k.c, k.h - k.fewer_h, k.w - k.fewer_w, k.out_gap, k.hwc);
  on_host::each_pixel(whole, [&](auto... at) { set(whole, at..., normal(make)); });
  if (k.special)
    for (int64_t c = 0; c < in.c; ++c) set(in, 0, c, in.h / 3, in.w / 2, float(k.special));
  if (k.many)
    on_host::each_pixel(whole, [&](auto... at) {
      if (make() % (8 * k.kh * k.kw) == 0) set(whole, at..., float(k.special));
    });
  const int64_t windows = k.own_windows ? k.n * k.c : 1, taps = k.kh * k.kw;
  std::vector<float> window(windows * taps);
  for (float& tap : window) {
    tap = normal(make) / 1000;
    if (k.narrow) tap = k.dtype == F ? to_acc<float>(from_acc<half_t>(tap)) : to_acc<float>(from_acc<bhalf_t>(tap));
  }
  const Image narrow_taps = image_of(k.dtype, 1, 1, windows, taps);
  for (int64_t i = 0; i < windows * taps; ++i) set(narrow_taps, 0, 0, i / taps, i % taps, window[i]);
  const bool inlined = windows * taps * (k.narrow ? 2 : 4) <= kInlineTapBytes;
  const void* data = k.narrow ? narrow_taps.data : window.data();
  const Direct p{.in = in,
                 .out = out,
                 .taps = {data, inlined, k.own_windows ? k.c * taps : 0, k.own_windows ? taps : 0, 0, k.narrow},
                 .kh = k.kh,
                 .kw = k.kw,
                 .place = {.pad_y = k.pad_y, .pad_x = k.pad_x, .border = k.border, .value = k.value},
                 .groups = in.c,
                 .bias = nullptr,
                 .peers = {rows(0, k.above), rows(k.above + k.h, k.below)},
                 .sums = Sums::mma};
  std::string name = "no kernel", wrong = launch(kKernels, p, name);
  if (wrong.empty()) {
    if (!k.special && on_host::votes > 0) wrong = "sums that are not finite";  // which chains would hide
    on_host::each_pixel(out, [&](int64_t n, int64_t c, int64_t y, int64_t x) {
      const float* const own = window.data() + (k.own_windows ? (n * k.c + c) * taps : 0);
      if (wrong.empty()) wrong = judge(p, whole, k.above, own, n, c, y, x);
    });
    if (wrong.empty() && !gaps_untouched(out)) wrong = "memory beside the image is written";
  }
  return report(name, k, wrong);
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
