// separable2d's MMA as its plan launches it, on the host, against sums in float64; and the bits of segments, and of
// MMA_GENERAL, first with coarse sums. A program defines BYTES and tries the kernels of bytes or those of 16 bits:
// together they take a compiler too long.
#pragma once

#include <array>
#include <map>
#include <random>
#include <string>

#include "cuda.h"
#include "guarded.h"
#include "report.h"
#undef __shared__
#define __shared__
#include "core/geometry.h"
#include "core/peer_rows.h"
#include "core/tile_order.h"
#include "core/tma.h"
#define __CUDACC__  // what is a kernel's in it
#include "kernels/separable2d/shared/taps.h"
#undef __CUDACC__
#include "kernels/separable2d/mma/kernel.cuh"
#include "kernels/separable2d/mma/plan.h"
#include "kernels/separable2d/mma_general/kernel.cuh"
#include "kernels/separable2d/mma_general/plan.h"

namespace torch_conv::separable2d {
alignas(1024) unsigned char separable_mma_shared[1 << 18], separable_mma_general_shared[1 << 18];
}

using namespace torch_conv;
using namespace torch_conv::separable2d;

namespace {

using Kernel = void (*)(TensorMap, TensorMap, BandArgs);
#define KERNEL(T, ...)                                                              \
  {                                                                                 \
    "separable2d::separable_mma<" #T ", separable2d::MmaPolicy{" #__VA_ARGS__ "}>", \
        separable_mma<T, MmaPolicy{__VA_ARGS__}>                                    \
  }
#define KERNELS(...) \
  KERNEL(__VA_ARGS__, true, true, 1), KERNEL(__VA_ARGS__, false, false, 1), KERNEL(__VA_ARGS__, true, false, 1)
const std::map<std::string, Kernel> kKernels = {
#if BYTES
    KERNELS(uint8_t, 1, 3, 3, 1, false, false), KERNELS(uint8_t, 1, 4, 3, 1, false, false),
    KERNELS(uint8_t, 1, 6, 3, 1, true, true),   KERNELS(uint8_t, 1, 3, 5, 0, true, true),
    KERNELS(uint8_t, 1, 10, 2, 0, false, true), KERNELS(uint8_t, 1, 4, 2, 0, true, true),
    KERNELS(uint8_t, 1, 5, 3, 1, true, true),
#else
    KERNELS(half_t, 2, 4, 3, 1, true, true),
    KERNELS(half_t, 2, 6, 5, 0, true, true),
    KERNELS(bhalf_t, 2, 4, 3, 1, true, true),
    KERNELS(half_t, 2, 3, 5, 0, true, true),
    KERNELS(half_t, 2, 5, 3, 1, true, true),
    KERNELS(half_t, 2, 10, 9, 0, true, true),
    KERNELS(half_t, 2, 2, 3, 1, true, true),
    KERNELS(bhalf_t, 2, 10, 3, 1, true, true),
    KERNELS(half_t, 2, 4, 3, 0, true, true),
    KERNELS(half_t, 2, 3, 1, 0, true, true),
    KERNELS(half_t, 2, 2, 1, 0, true, true),
    KERNELS(half_t, 2, 4, 5, 1, true, true),
    KERNEL(half_t, 2, 4, 3, 1, true, true, false, true, 1),
#endif
};

#define HWC(...)                                                                                                \
  KERNEL(__VA_ARGS__, true, true, 3), KERNEL(__VA_ARGS__, false, false, 3), KERNEL(__VA_ARGS__, true, true, 4), \
      KERNEL(__VA_ARGS__, false, false, 4), KERNEL(__VA_ARGS__, false, false, 2)
const std::map<std::string, Kernel> kHwcKernels = {
#if BYTES
    HWC(uint8_t, 1, 4, 3, 1, false, false),
    HWC(uint8_t, 1, 6, 3, 1, true, true),
    HWC(uint8_t, 1, 5, 3, 1, true, true),
#else
    HWC(half_t, 2, 4, 3, 1, true, true),
    HWC(half_t, 2, 6, 5, 0, true, true),
    HWC(bhalf_t, 2, 4, 3, 1, true, true),
    HWC(half_t, 2, 3, 5, 0, true, true),
#endif
};

constexpr uint16_t kUntouched = 0x7fff;

struct Case {
  Dtype dtype;
  int64_t n, c, h, w, kh, kw, pad_y, pad_x;
  int64_t fewer_h, fewer_w;  // outputs that are not there
  Border border;
  double value = 0;
  bool own_windows = false;      // for each channel
  double special = 0;            // a pixel of the last channel, or of bytes a tap
  int64_t above = 0, below = 0;  // rows of other shards: none, or all that windows reach
  double scale = 1;              // of the taps
  bool many = false;             // pixels are `special`, one in four windows
};

const Dtype F = Dtype::f16, B = Dtype::bf16, U = Dtype::u8;
const Case kCases[] = {
    {F, 1, 2, 70, 136, 15, 15, 7, 7, 0, 0, Border::reflect},
    {F, 1, 1, 33, 72, 15, 15, 7, 7, 0, 0, Border::circular, 0, true},
    {F, 1, 1, 40, 96, 31, 31, 15, 15, 0, 0, Border::symmetric},
    {B, 1, 2, 33, 72, 15, 15, 7, 7, 0, 0, Border::reflect, 0, true},
    {F, 2, 1, 20, 61, 5, 31, 2, 15, 0, 0, Border::replicate},
    {F, 1, 1, 40, 72, 21, 9, 10, 4, 0, 0, Border::constant, 3},
    {F, 1, 1, 66, 130, 63, 63, 31, 31, 0, 0, Border::reflect},
    {F, 1, 1, 30, 72, 1, 9, 0, 4, 0, 0, Border::constant},
    {F, 1, 1, 30, 72, 9, 1, 0, 0, 8, 0, Border::constant},
    {F, 1, 1, 3, 8, 1, 1, 0, 0, 0, 0, Border::constant},
    {B, 1, 1, 70, 72, 59, 9, 20, 2, 0, 0, Border::zero_output},
    {F, 1, 1, 30, 136, 15, 15, 0, 0, 14, 14, Border::constant},
    {F, 1, 1, 30, 136, 15, 18, 14, 8, 0, 1, Border::replicate},
    {F, 1, 1, 40, 136, 15, 15, 7, 7, 0, 0, Border::zero_output},
    {F, 1, 1, 40, 136, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, INFINITY},
    {B, 1, 1, 40, 136, 15, 15, 7, 7, 0, 0, Border::constant, 0, false, NAN},
    {F, 1, 1, 40, 136, 31, 31, 15, 15, 0, 0, Border::zero_output, 0, false, -INFINITY},
    {F, 1, 1, 40, 520, 15, 15, 7, 7, 0, 0, Border::circular},
    {F, 1, 1, 20, 72, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, 0, 9, 20},
    {B, 1, 1, 70, 72, 15, 15, 7, 7, 0, 0, Border::constant, 0, false, 0, 0, 7},
    {F, 1, 1, 30, 72, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, 0, 0, 0, 1e-4},
    {F, 1, 1, 30, 72, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, 0, 0, 0, 60},
    // Outputs that are not finite because of elements outside of their windows, at edges of chunks and of images.
    {F, 1, 3, 70, 136, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, INFINITY, 0, 0, 1, true},
    {F, 1, 1, 66, 193, 15, 15, 7, 7, 0, 0, Border::circular, 0, false, INFINITY, 0, 0, 1, true},
    {B, 1, 4, 33, 131, 15, 15, 7, 7, 0, 0, Border::symmetric, 0, false, INFINITY, 0, 0, 1, true},
    {F, 1, 3, 40, 200, 15, 15, 7, 7, 0, 0, Border::replicate, 0, false, INFINITY, 9, 20, 1, true},
    {F, 1, 2, 40, 136, 15, 15, 7, 7, 0, 0, Border::constant, 3, false, INFINITY, 0, 0, 1, true},
    {F, 1, 3, 40, 136, 31, 31, 15, 15, 0, 0, Border::reflect, 0, false, INFINITY, 0, 0, 1, true},
    {U, 1, 2, 70, 144, 5, 5, 2, 2, 0, 0, Border::reflect},
    {U, 2, 1, 33, 272, 15, 15, 7, 7, 0, 0, Border::circular, 0, true},
    {U, 1, 1, 40, 144, 31, 31, 15, 15, 0, 0, Border::symmetric},
    {U, 1, 1, 40, 160, 5, 63, 2, 31, 0, 0, Border::replicate},
    {U, 1, 1, 66, 80, 59, 9, 29, 0, 0, 8, Border::constant, 7},
    {U, 1, 1, 30, 144, 15, 15, 0, 0, 14, 14, Border::constant},
    {U, 1, 1, 40, 144, 19, 21, 9, 9, 0, 0, Border::zero_output},
    {U, 1, 1, 40, 144, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, NAN},
    {U, 1, 1, 20, 80, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, 0, 9, 20},
    {F, 2, 3, 40, 144, 15, 15, 7, 7, 0, 0, Border::reflect},
    {B, 1, 4, 33, 131, 15, 15, 7, 7, 0, 0, Border::circular},
    {F, 1, 3, 35, 80, 31, 31, 15, 15, 0, 0, Border::zero_output},
    {F, 1, 4, 20, 61, 5, 31, 2, 15, 0, 0, Border::replicate},
    {F, 1, 2, 40, 136, 15, 15, 7, 7, 0, 0, Border::constant, 2},
    {F, 1, 3, 40, 136, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, INFINITY},
    {F, 1, 3, 20, 72, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, 0, 9, 20},
    {F, 1, 3, 20, 72, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, INFINITY, 9, 20},
    {U, 1, 3, 40, 288, 15, 15, 7, 7, 0, 0, Border::symmetric},
    {U, 2, 4, 33, 141, 15, 15, 7, 7, 0, 0, Border::reflect},
    {U, 1, 4, 40, 144, 31, 31, 15, 15, 0, 0, Border::replicate},
    {U, 1, 2, 40, 144, 15, 15, 7, 7, 0, 0, Border::constant, 9},
    {U, 1, 3, 40, 144, 19, 21, 9, 9, 0, 0, Border::zero_output},
    {U, 1, 3, 40, 143, 15, 15, 7, 7, 0, 0, Border::reflect, 0, false, NAN},
};

constexpr int64_t kAligned = -1;

// An image with `gap` elements between rows, or whose rows start on 16 bytes. A page without access follows the last
// row. All other memory is NaN of 16 bits, so that a read of it is seen. The memory is never freed. `hwc`: channels are
// interleaved.
Image image_of(Dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w, int64_t gap, bool hwc) {
  const int64_t size = size_of(dtype), row = hwc ? w * c : w;
  const int64_t pitch = gap == kAligned ? round_up(row * size, 16) / size : row + gap;
  const int64_t bytes = (n * (hwc ? 1 : c) * h * pitch - std::max<int64_t>(gap, 0)) * size;
  const std::span<char> memory = on_host::guarded_memory(bytes, kUntouched);
  char* const start = memory.data() + (memory.size() - bytes);
  if (hwc) return {start, dtype, n, c, 1, h, w, h * pitch, 1, 0, pitch, c};
  return {start, dtype, n, c, 1, h, w, c * h * pitch, h * pitch, 0, pitch, 1};
}

// Are the elements between an image's rows what they were?
bool gaps_untouched(const Image& x) {
  const int64_t size = size_of(x.dtype);
  const char* const data = static_cast<const char*>(x.data);
  const bool hwc = x.stride_w > 1;
  for (int64_t r = 0; r + 1 < x.n * (hwc ? 1 : x.c) * x.h; ++r)
    for (int64_t i = x.w * x.stride_w * size; i < x.stride_h * size; ++i) {
      const int64_t at = r * x.stride_h * size + i;
      char untouched[2];
      memcpy(untouched, &kUntouched, 2);
      if (data[at] != untouched[reinterpret_cast<uintptr_t>(data + at) % 2]) return false;
    }
  return true;
}

double get(const Image& x, int64_t n, int64_t c, int64_t h, int64_t w) {
  double value = 0;
  with_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    value =
        to_acc<float>(static_cast<const T*>(x.data)[n * x.stride_n + c * x.stride_c + h * x.stride_h + w * x.stride_w]);
  });
  return value;
}

void set(const Image& x, int64_t n, int64_t c, int64_t h, int64_t w, float value) {
  with_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    static_cast<T*>(x.data)[n * x.stride_n + c * x.stride_c + h * x.stride_h + w * x.stride_w] = from_acc<T>(value);
  });
}

// Of one output: is it within the bound of tests/tolerance.py? `whole`: the image, of which p.in are rows from `first`.
std::string judge(const Separable& p, const Image& whole, int64_t first, const float* taps_x, const float* taps_y,
                  int64_t n, int64_t c, int64_t y, int64_t x) {
  double sum = 0, scale = 0;
  const int64_t top = first + y - p.place.pad_y, left = x - p.place.pad_x;
  for (int64_t i = 0; i < p.kh; ++i)
    for (int64_t j = 0; j < p.kw; ++j) {
      const int64_t row = map_index(top + i, whole.h, p.place.border),
                    column = map_index(left + j, p.in.w, p.place.border);
      const double pixel = row < 0 || column < 0 ? p.place.value : get(whole, n, c, row, column);
      const double tap = double(taps_y[i]) * taps_x[j];
      sum += tap * pixel, scale += std::abs(tap * pixel);
    }
  const bool fits = top >= 0 && top + p.kh <= whole.h && left >= 0 && left + p.kw <= p.in.w;
  if (p.place.border == Border::zero_output && !fits) sum = scale = 0;
  const double got = get(p.out, n, c, y, x);
  const bool bytes = p.in.dtype == Dtype::u8;
  if (bytes && std::isnan(sum)) sum = scale = 0;
  if (bytes) sum = std::min(std::max(sum, 0.0), 255.0);
  const double unit = bytes ? 0 : std::ldexp(1, p.in.dtype == Dtype::f16 ? -11 : -8);
  const double least = bytes ? 0.5 : p.in.dtype == Dtype::f16 ? std::ldexp(1, -25) : 0;
  const double sums = (4.0 * (p.kh + p.kw) + (p.in.dtype == Dtype::bf16 ? 576 : 64)) * std::ldexp(1, -24) * scale;
  const bool close = std::isfinite(sum) ? std::abs(got - sum) <= sums + std::max(unit * (std::abs(sum) + sums), least)
                                        : !std::isfinite(got);
  return close ? "" : on_host::difference({n, c, y, x}, got, sum);
}

// Launches MMA_GENERAL with outputs of its own. What is wrong, if their bits are not those of p.out.
std::string compare_general(const Separable& p, const Arch& arch, int segment, const PassTaps& taps) {
  Separable q = p;
  q.out = on_host::image_like(p.out, kUntouched);
  Plan plan{};
  if (const char* no = mma_general_refusal(q, arch)) return no;
  configure_mma_general(q, arch, plan);
  plan.config = segment;
#if BYTES
  const auto kernel = separable_mma_general<uint8_t>;
#else
  const auto kernel = p.in.dtype == F ? separable_mma_general<half_t> : separable_mma_general<bhalf_t>;
#endif
  std::string wrong =
      on_host::launch_within(separable_mma_general_shared, plan, kernel, mma_general_args(q, plan, taps));
  if (wrong.empty()) wrong = on_host::other_bits(q.out, p.out, get);
  if (wrong.empty() && !gaps_untouched(q.out)) wrong = "memory beside the image is written";
  return wrong.empty() ? "" : "mma_general: " + wrong;
}

// Launches the kernel that the plan names, in segments of so many chunks; what is wrong, if that cannot be.
std::string launch(const Separable& p, std::string& name, int segment) {
  const Arch arch{.major = 9, .minor = 0, .multiprocessors = 132, .shared_bytes = 232448, .bulk_copy = true};
  Plan plan{};
  if (const char* no = mma_refusal(p, arch)) return no;
  const MmaPolicy s = band_shape(p);
  configure_mma(p, arch, plan);
  plan.tile_w = segment * s.columns(), plan.blocks = band_blocks(p, s, segment);
  name = plan.kernels[0].name;
  const auto& kernels = s.channels > 1 ? kHwcKernels : kKernels;
  if (!kernels.contains(name)) return "no such kernel here";
  PassTaps taps{};
  taps.x = {p.taps_x.data, 0, p.taps_x.stride_n, p.taps_x.stride_c};
  taps.y = {p.taps_y.data, 0, p.taps_y.stride_n, p.taps_y.stride_c};
  const Image in = as_rows(p.in, s.channels);
  std::string wrong;
  for (const bool coarse : {true, false}) {
    coarse_sums = coarse, on_host::votes = 0;
    if (wrong.empty())
      wrong = on_host::launch_within(separable_mma_shared, plan, kernels.at(name), tma::rows_map_of(in, s.box_h()),
                                     tma::rows_map_of(p.out, 16), band_args(p, plan, taps));
    if (wrong.empty()) wrong = compare_general(p, arch, segment, taps);
  }
  return wrong;
}

using Taps2 = std::array<std::vector<float>, 2>;  // of x and y

// An image, or with shards the rows of it that are one, and its outputs, with gaps between rows.
struct Images {
  Image whole, in, out;
  Images(const Case& k, int64_t in_gap, int64_t out_gap, bool hwc)
      : whole(image_of(k.dtype, k.n, k.c, k.above + k.h + k.below, k.w, in_gap, hwc)),
        in(rows(k.above, k.h)),
        out(image_of(k.dtype, k.n, k.c, k.h - k.fewer_h, k.w - k.fewer_w, out_gap, hwc)) {
    std::mt19937 make(1);
    std::normal_distribution<float> normal;
    on_host::each_pixel(whole, [&](auto... at) {
      set(whole, at..., k.dtype == U ? float(make() % 256) : std::abs(normal(make)) + .01f);
    });
    if (k.many)
      on_host::each_pixel(whole, [&](auto... at) {
        if (make() % (4 * k.kh * k.kw) == 0) set(whole, at..., float(k.special));
      });
    if (k.special && k.dtype != U) set(in, 0, in.c - 1, in.h / 3, in.w / 2, float(k.special));
  }
  Image rows(int64_t first, int64_t count) const {
    Image some = whole;
    some.data = count ? static_cast<char*>(whole.data) + first * whole.stride_h * size_of(whole.dtype) : nullptr;
    some.h = count;
    return some;
  }
};

std::string run(const Case& k, const Images& images, const Taps2& windows, std::string& name, int segment,
                std::vector<double>& outputs, bool judged) {
  const auto taps = [&](const std::vector<float>& window, int64_t count) {
    return Taps{window.data(), false, k.own_windows ? k.c * count : 0, k.own_windows ? count : 0, 0};
  };
  const Image& out = images.out;
  const Separable p{.in = images.in,
                    .out = out,
                    .taps_x = taps(windows[0], k.kw),
                    .taps_y = taps(windows[1], k.kh),
                    .kh = k.kh,
                    .kw = k.kw,
                    .place = {.pad_y = k.pad_y, .pad_x = k.pad_x, .border = k.border, .value = k.value},
                    .peers = {images.rows(0, k.above), images.rows(k.above + k.h, k.below)},
                    .sums = Sums::mma};
  std::string wrong = launch(p, name, segment);
  if (wrong.empty() && !k.special && on_host::votes > 0) wrong = "sums that are not finite";  // which chains would hide
  if (wrong.empty() && !gaps_untouched(out)) wrong = "memory beside the image is written";
  outputs.clear();
  on_host::each_pixel(out, [&](int64_t n, int64_t c, int64_t y, int64_t x) {
    if (!wrong.empty()) return;
    const int64_t own = k.own_windows ? n * k.c + c : 0;
    const float *tx = windows[0].data() + own * k.kw, *ty = windows[1].data() + own * k.kh;
    if (judged) wrong = judge(p, images.whole, k.above, tx, ty, n, c, y, x);
    outputs.push_back(get(out, n, c, y, x));
  });
  return wrong;
}

bool check(const Case& k) {
  if ((k.dtype == U) != bool(BYTES)) return true;
  std::mt19937 make(2);
  std::normal_distribution<float> normal;
  Taps2 windows;
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t taps = axis ? k.kh : k.kw;
    windows[axis].resize((k.own_windows ? k.n * k.c : 1) * taps);
    for (float& tap : windows[axis]) tap = normal(make) / std::sqrt(float(taps)) * float(k.scale);
  }
  if (k.special && k.dtype == U) windows[0][3] = float(k.special);
  bool right = true;
  std::vector<double> first, again;
  const auto same = [](double a, double b) { return a == b || (a != a && b != b); };
  for (const auto& [in_gap, out_gap, segment, hwc] : {std::array<int64_t, 4>{kAligned, kAligned, 1, false},
                                                      {kAligned, kAligned, 3, false},
                                                      {0, 0, 1, false},
                                                      {3, 1, 3, false},
                                                      {kAligned, kAligned, 1, true},
                                                      {0, 0, 1, true},
                                                      {3, 1, 3, true}}) {
    if (hwc && (k.c == 1 || k.own_windows)) continue;
    const Images images(k, in_gap, out_gap, hwc);
    std::string name = "no kernel";
    std::string wrong = run(k, images, windows, name, int(segment), again, first.empty() || k.many);
    if (wrong == "no such kernel here" && !first.empty()) continue;
    // Which elements outside of all windows a block reads depends on its segment.
    if (first.empty() || k.many) first = again;
    else if (wrong.empty() && !std::equal(first.begin(), first.end(), again.begin(), again.end(), same))
      wrong = "other bits than on 16 bytes";
    right = on_host::report(wrong, "%s %lldx%lldx%lldx%lld %s%s", name.c_str(), (long long)k.n, (long long)k.c,
                            (long long)k.h, (long long)k.w, name_of(k.border),
                            k.special ? " with what is not finite" : "") &&
            right;
  }
  return right;
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
