// direct2d's PRODUCTS as its plan launches it, on the host, against sums in float64.
#include <cstdio>
#include <map>
#include <random>
#include <string>

#include "cuda.h"
#undef __shared__
#define __shared__
#include "direct2d/kernel_products.cuh"
#include "direct2d/plan_products.h"

namespace torch_conv::direct2d {
alignas(128) unsigned char products_shared[1 << 17];
}

using namespace torch_conv;
using namespace torch_conv::direct2d;

namespace {

using Kernel = void (*)(TensorMap, ProductArgs, ParamTaps);
const std::map<std::string, Kernel> kKernels = {
#define KERNEL(...) \
  { "direct2d::direct2d_products<" #__VA_ARGS__ ">", direct2d_products<__VA_ARGS__> }
    KERNEL(half_t, 5, 5, true, false, false),    KERNEL(half_t, 5, 5, false, false, false),
    KERNEL(half_t, 5, 5, false, true, false),    KERNEL(half_t, 7, 7, true, true, false),
    KERNEL(half_t, 7, 7, true, false, false),    KERNEL(half_t, 7, 7, false, true, false),
    KERNEL(half_t, 7, 7, false, false, false),   KERNEL(half_t, 4, 4, true, false, false),
    KERNEL(half_t, 6, 3, true, false, false),    KERNEL(half_t, 9, 11, true, false, false),
    KERNEL(half_t, 15, 15, true, true, false),   KERNEL(half_t, 2, 14, true, false, false),
    KERNEL(bhalf_t, 5, 5, true, false, false),   KERNEL(bhalf_t, 7, 7, true, true, false),
    KERNEL(bhalf_t, 12, 13, true, false, false), KERNEL(half_t, 31, 31, true, true, false),
    KERNEL(half_t, 17, 20, true, false, false),  KERNEL(bhalf_t, 21, 29, true, false, false),
    KERNEL(half_t, 5, 31, true, false, false),   KERNEL(half_t, 31, 3, true, false, false),
    KERNEL(half_t, 1, 1, true, false, false),    KERNEL(half_t, 8, 7, false, true, false),
    KERNEL(half_t, 5, 5, true, true, false),     KERNEL(half_t, 5, 5, true, false, true),
    KERNEL(bhalf_t, 7, 7, true, true, true),     KERNEL(half_t, 15, 15, true, true, true),
#undef KERNEL
};

struct Case {
  Dtype dtype;
  int64_t n, c, h, w, kh, kw, pad_y, pad_x;
  int64_t fewer_h, fewer_w;  // outputs that are not there
  Border border;
  double value = 0;
  bool own_windows = false, one_input = false;
  double special = 0;            // a pixel of every plane
  int64_t above = 0, below = 0;  // rows of other shards: none, or all that windows reach
  bool narrow = false;           // taps of the image's dtype
};

const Dtype F = Dtype::f16, B = Dtype::bf16;
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
};

Image image_of(Dtype dtype, std::vector<uint16_t>& data, int64_t n, int64_t c, int64_t h, int64_t w) {
  data.assign(n * c * h * w + 64, 0x7e01);  // NaN: what is not written is seen
  void* start = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(data.data()) + 63) / 64 * 64);
  return {start, dtype, n, c, 1, h, w, c * h * w, h * w, 0, w, 1};
}

double get(const Image& x, int64_t n, int64_t c, int64_t h, int64_t w) {
  const void* at = static_cast<uint16_t*>(x.data) + n * x.stride_n + c * x.stride_c + h * x.stride_h + w;
  return x.dtype == Dtype::f16 ? double(*static_cast<const half_t*>(at))
                               : to_acc<float>(*static_cast<const bhalf_t*>(at));
}

void set(const Image& x, int64_t n, int64_t c, int64_t h, int64_t w, float value) {
  void* at = static_cast<uint16_t*>(x.data) + n * x.stride_n + c * x.stride_c + h * x.stride_h + w;
  if (x.dtype == Dtype::f16) *static_cast<half_t*>(at) = from_acc<half_t>(value);
  else *static_cast<bhalf_t*>(at) = from_acc<bhalf_t>(value);
}

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
  if (close) return "";
  return "(" + std::to_string(n) + ", " + std::to_string(c) + ", " + std::to_string(y) + ", " + std::to_string(x) +
         ") is " + std::to_string(got) + ", not " + std::to_string(sum);
}

bool check(const Case& k) {
  std::mt19937 make(1);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> pixels, results;
  const Image whole = image_of(k.dtype, pixels, k.n, k.one_input ? 1 : k.c, k.above + k.h + k.below, k.w);
  const auto rows = [&](int64_t first, int64_t count) {
    Image some = whole;
    some.data = count ? static_cast<uint16_t*>(whole.data) + first * k.w : nullptr, some.h = count;
    return some;
  };
  const Image in = rows(k.above, k.h);
  const Image out = image_of(k.dtype, results, k.n, k.c, k.h - k.fewer_h, k.w - k.fewer_w);
  for (int64_t n = 0; n < in.n; ++n)
    for (int64_t c = 0; c < in.c; ++c)
      for (int64_t y = 0; y < whole.h; ++y)
        for (int64_t x = 0; x < in.w; ++x) set(whole, n, c, y, x, normal(make));
  if (k.special)
    for (int64_t c = 0; c < in.c; ++c) set(in, 0, c, in.h / 3, in.w / 2, float(k.special));
  const int64_t windows = k.own_windows ? k.n * k.c : 1, taps = k.kh * k.kw;
  std::vector<float> window(windows * taps);
  for (float& tap : window) {
    tap = normal(make) / 1000;
    if (k.narrow) tap = k.dtype == F ? to_acc<float>(from_acc<half_t>(tap)) : to_acc<float>(from_acc<bhalf_t>(tap));
  }
  std::vector<uint16_t> narrow;
  const Image narrow_taps = image_of(k.dtype, narrow, 1, 1, windows, taps);
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
                 .beside = {rows(0, k.above), rows(k.above + k.h, k.below)},
                 .sums = Sums::products};
  const Arch arch{.major = 9, .minor = 0, .multiprocessors = 132, .bulk_copy = true};
  std::string wrong;
  Plan plan{};
  if (const char* no = products_refusal(p, arch)) wrong = no;
  else fill_products(p, plan);
  const std::string name = wrong.empty() ? plan.kernels[0].name : "no kernel";
  if (wrong.empty() && !kKernels.contains(name)) wrong = "no such kernel here";
  if (wrong.empty()) {
    const ProductShape s = product_shape(int(p.kh), int(p.kw));
    memset(products_shared, 0xff, sizeof(products_shared));  // NaN, where nothing is put
    on_host::votes = 0;
    on_host::launch(kKernels.at(name), {unsigned(plan.blocks), 1, 1}, plan.threads,
                    tma::map_of(in, s.box_w() / 2, s.box_h()), product_args(p, plan), ParamTaps::of(p));
    if (!k.special && on_host::votes > 0) wrong = "sums that are not finite";  // which chains would hide
    for (int64_t n = 0; n < out.n; ++n)
      for (int64_t c = 0; c < out.c; ++c)
        for (int64_t y = 0; y < out.h; ++y)
          for (int64_t x = 0; x < out.w && wrong.empty(); ++x)
            wrong = judge(p, whole, k.above, window.data() + (k.own_windows ? (n * k.c + c) * taps : 0), n, c, y, x);
  }
  std::printf("%s %lldx%lldx%lldx%lld %s%s: %s\n", name.c_str(), (long long)k.n, (long long)k.c, (long long)k.h,
              (long long)k.w, name_of(k.border), k.special ? " with a pixel that is not finite" : "",
              wrong.empty() ? "right" : wrong.c_str());
  std::fflush(stdout);
  return wrong.empty();
}

}  // namespace

int main() {
  bool right = true;
  for (const Case& k : kCases) right = check(k) && right;
  return right ? 0 : 1;
}
