// direct2d's TILE without bulk copies, of rows that start anywhere, on the host: the bits of the plain chain, and not a
// byte read beyond the image's memory, behind which no page stands.
#include <map>
#include <random>
#include <string>

#include "cuda.h"
#include "guarded.h"
#include "report.h"
#undef __shared__
#define __shared__
#include "kernels/direct2d/tile/kernel.cuh"
#include "kernels/direct2d/plan.h"

namespace torch_conv::direct2d {
alignas(128) unsigned char shared_bytes[1 << 17];
}

using namespace torch_conv;
using namespace torch_conv::direct2d;

namespace {

using Kernel = void (*)(TensorMap, PlaneArgs, ParamTaps);
const std::map<std::string, Kernel> kKernels = {
#define KERNEL(...) \
  { "direct2d::direct2d_tile<" #__VA_ARGS__ ">", direct2d_tile<__VA_ARGS__> }
#define TILE(T, Out, own, ...) KERNEL(T, Out, direct2d::TilePolicy{__VA_ARGS__, false, false, false, false, own})
    TILE(uint8_t, uint8_t, 0, 3, 3, 1, 1, 1), TILE(uint8_t, uint8_t, 0, 5, 5, 1, 1, 1),
    TILE(uint8_t, uint8_t, 0, 3, 3, 1, 1, 2), TILE(uint8_t, float, 0, 3, 3, 1, 1, 1),
    TILE(half_t, half_t, 0, 3, 3, 1, 1, 1),   TILE(half_t, half_t, 0, 5, 4, 1, 1, 2),
    TILE(half_t, half_t, 0, 9, 9, 1, 1, 2),   TILE(float, float, 0, 3, 3, 1, 1, 1),
    TILE(float, float, 0, 5, 5, 1, 1, 2),     TILE(float, float, 0, 5, 5, 2, 2, 1),
    TILE(uint8_t, uint8_t, 2, 3, 3, 1, 2, 1), TILE(uint8_t, float, 2, 3, 3, 1, 2, 1),
    TILE(half_t, half_t, 2, 3, 5, 1, 2, 1),   TILE(half_t, half_t, 2, 7, 5, 1, 2, 1),
    TILE(float, float, 2, 3, 3, 1, 2, 1),     TILE(uint8_t, uint8_t, 3, 3, 3, 1, 3, 1),
    TILE(half_t, half_t, 3, 3, 3, 1, 3, 1),   TILE(uint8_t, uint8_t, 4, 3, 3, 1, 4, 1),
#undef TILE
#undef KERNEL
};

struct Case {
  Dtype in, out;
  int64_t h, w, kh, kw, stride, dilation;
  Border border;
  int own = 0;         // so many interleaved channels, with a window each; else there are two planes
  int64_t inside = 0;  // column where the first window starts; else its middle lies on the first pixel
};

const Case kCases[] = {
    {Dtype::u8, Dtype::u8, 35, 33, 3, 3, 1, 1, Border::reflect},
    {Dtype::u8, Dtype::u8, 70, 33, 5, 5, 1, 1, Border::constant},
    {Dtype::u8, Dtype::u8, 9, 1027, 5, 5, 1, 1, Border::circular},
    {Dtype::u8, Dtype::u8, 30, 517, 3, 3, 2, 1, Border::zero_output},
    {Dtype::u8, Dtype::f32, 27, 131, 3, 3, 1, 1, Border::replicate},
    {Dtype::f16, Dtype::f16, 34, 517, 3, 3, 1, 1, Border::symmetric},
    {Dtype::f16, Dtype::f16, 33, 263, 5, 4, 2, 1, Border::reflect},
    {Dtype::f16, Dtype::f16, 40, 133, 9, 9, 2, 1, Border::constant},
    {Dtype::f32, Dtype::f32, 35, 259, 3, 3, 1, 1, Border::zero_output},
    {Dtype::f32, Dtype::f32, 36, 131, 5, 5, 2, 1, Border::circular},
    {Dtype::f32, Dtype::f32, 33, 133, 5, 5, 1, 2, Border::constant},
    {Dtype::u8, Dtype::u8, 35, 261, 3, 3, 1, 1, Border::reflect, 2},
    {Dtype::u8, Dtype::f32, 25, 131, 3, 3, 1, 1, Border::zero_output, 2},
    {Dtype::f16, Dtype::f16, 27, 133, 3, 5, 1, 1, Border::circular, 2},
    {Dtype::f16, Dtype::f16, 27, 133, 7, 5, 1, 1, Border::constant, 2},
    {Dtype::f32, Dtype::f32, 26, 67, 3, 3, 1, 1, Border::replicate, 2},
    {Dtype::u8, Dtype::u8, 35, 259, 3, 3, 1, 1, Border::replicate, 3},
    {Dtype::f16, Dtype::f16, 26, 131, 3, 3, 1, 1, Border::constant, 3},
    {Dtype::u8, Dtype::u8, 25, 133, 3, 3, 1, 1, Border::circular, 4},
    {Dtype::f16, Dtype::f16, 9, 253, 3, 3, 1, 1, Border::symmetric},  // without a tile for what the last one makes
    {Dtype::f32, Dtype::f32, 9, 127, 3, 3, 1, 1, Border::zero_output},
    {Dtype::u8, Dtype::u8, 9, 250, 5, 5, 1, 1, Border::circular},
    {Dtype::u8, Dtype::u8, 9, 127, 3, 3, 1, 1, Border::replicate, 3},
    {Dtype::f32, Dtype::f32, 33, 300, 3, 3, 1, 1, Border::circular, 0, 14},
    {Dtype::f16, Dtype::f16, 9, 601, 3, 3, 1, 1, Border::reflect, 0, 301},
    {Dtype::u8, Dtype::u8, 26, 530, 5, 5, 1, 1, Border::zero_output, 0, 500},
    {Dtype::f32, Dtype::f32, 9, 290, 5, 5, 2, 1, Border::constant, 0, 130},
    {Dtype::u8, Dtype::u8, 25, 259, 3, 3, 1, 1, Border::replicate, 3, 1},
    {Dtype::f16, Dtype::f16, 26, 131, 3, 3, 1, 1, Border::reflect, 3, 130},
    {Dtype::u8, Dtype::u8, 25, 133, 3, 3, 1, 1, Border::circular, 4, 77},
};

Image image_of(Dtype dtype, int64_t c, int64_t h, int64_t w, bool side_by_side) {
  const int64_t bytes = c * h * w * size_of(dtype);
  const std::span<char> memory = on_host::guarded_memory(bytes, char(0));
  void* const first = memory.data() + (memory.size() - bytes);
  if (side_by_side) return {first, dtype, 1, c, 1, h, w, c * h * w, 1, 0, c * w, c};
  return {first, dtype, 1, c, 1, h, w, c * h * w, h * w, 0, w, 1};
}

template <typename F>
auto with_pixel(const Image& x, int64_t c, int64_t y, int64_t at, const F& f) {
  return with_type(x.dtype, [&](auto zero) {
    return f(static_cast<decltype(zero)*>(x.data)[c * x.stride_c + y * x.stride_h + at * x.stride_w]);
  });
}

float get(const Image& x, int64_t c, int64_t y, int64_t at) {
  return with_pixel(x, c, y, at, [](auto& pixel) { return to_acc<float>(pixel); });
}
float rounded(Dtype dtype, float value) {
  return with_type(dtype, [&](auto zero) { return to_acc<float>(from_acc<decltype(zero)>(value)); });
}

float chain(const Direct& p, const float* taps, int64_t c, int64_t y, int64_t x) {
  taps += c * p.taps.stride_c;
  const Placement& s = p.place;
  float sum = 0;
  bool fits = true;
  for (int64_t i = 0; i < p.kh; ++i)
    for (int64_t j = 0; j < p.kw; ++j) {
      const int64_t top = y * s.stride_y + i * s.dilation_y - s.pad_y,
                    left = x * s.stride_x + j * s.dilation_x - s.pad_x;
      fits &= top >= 0 && top < p.in.h && left >= 0 && left < p.in.w;
      const int64_t row = map_index(top, p.in.h, s.border), column = map_index(left, p.in.w, s.border);
      sum = std::fma(taps[i * p.kw + j], row < 0 || column < 0 ? float(s.value) : get(p.in, c, row, column), sum);
    }
  return rounded(p.out.dtype, s.border == Border::zero_output && !fits ? 0 : sum);
}

bool check(const Case& k) {
  std::mt19937 make(1);
  const int64_t channels = k.own ? k.own : 2;
  const Image in = image_of(k.in, channels, k.h, k.w, k.own);
  const int64_t width = ceil_div(k.w - k.inside, k.stride);
  const Image out = image_of(k.out, channels, ceil_div(k.h, k.stride), width, k.own);
  on_host::each_pixel(in, [&](int64_t, auto... at) {
    with_pixel(in, at..., [&](auto& p) { p = from_acc<std::decay_t<decltype(p)>>(float(make() % 256)); });
  });
  std::vector<float> taps(k.kh * k.kw * (k.own ? channels : 1));
  for (float& tap : taps) tap = float(make() % 1000) / 4000;
  const Direct p{.in = in,
                 .out = out,
                 .taps = {taps.data(), taps.size() * 4 <= kInlineTapBytes, 0, k.own ? k.kh * k.kw : 0, 0},
                 .kh = k.kh,
                 .kw = k.kw,
                 .place = {.pad_y = (k.kh - 1) / 2 * k.dilation,
                           .pad_x = k.inside ? -k.inside : (k.kw - 1) / 2 * k.dilation,
                           .stride_y = k.stride,
                           .stride_x = k.stride,
                           .dilation_y = k.dilation,
                           .dilation_x = k.dilation,
                           .border = k.border,
                           .value = 3},
                 .groups = channels,
                 .bias = nullptr};
  const Arch arch{.major = 9, .minor = 0, .multiprocessors = 132, .shared_bytes = 232448, .bulk_copy = false};
  const Plan plan = direct2d::plan_cuda(p, arch, k.own ? "tile_own" : "tile");
  std::string wrong = plan.variant ? "" : plan.why;
  const std::string name = wrong.empty() ? plan.kernels[0].name : "no kernel";
  if (wrong.empty() && !kKernels.contains(name)) wrong = "no such kernel here";
  if (wrong.empty()) {
    const auto& config = own_config<TileConfig>(plan);
    memset(shared_bytes, 0xff, sizeof(shared_bytes));
    on_host::launch(kKernels.at(name), {unsigned(plan.blocks), 1, 1}, plan.threads, TensorMap{},
                    plane_args(p, k.own ? flatten_channels(p, channels) : p, plan, config.lead, config.overlap),
                    ParamTaps::of(p));
    on_host::each_pixel(out, [&](int64_t, int64_t c, int64_t y, int64_t x) {
      const float want = chain(p, taps.data(), c, y, x), got = get(out, c, y, x);
      if (want != got && wrong.empty()) wrong = on_host::difference({c, y, x}, got, want);
    });
  }
  return on_host::report(wrong, "%s %lldx%lld %s", name.c_str(), (long long)k.h, (long long)k.w, name_of(k.border));
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
