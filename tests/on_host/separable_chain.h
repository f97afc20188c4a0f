// Shared by the tests of separable filters on the host: images of two planes or HWC images, shards, and windows of the
// host or of the device. The expected bits are those of the row chain and the column chain.
#pragma once

#include <cstring>
#include <map>
#include <random>
#include <string>

#include "cuda.h"
#include "report.h"
using std::fma;
using std::fmaf;
#undef __shared__
#define __shared__
#include "core/geometry.h"
#include "core/peer_rows.h"
#include "core/plan.h"
#include "core/tile_order.h"
#include "core/tma.h"
#define __CUDACC__  // what is a kernel's in it
#include "kernels/separable2d/shared/taps.h"
#undef __CUDACC__

namespace torch_conv::separable2d {
alignas(128) inline unsigned char shared[1 << 18];
}

namespace on_host {

using namespace torch_conv;
using namespace torch_conv::separable2d;

struct Case {
  int64_t h, w, kh, kw, pad_y, pad_x;
  Border border = Border::constant;
  double value = 0;
  int64_t fewer_h = 0, fewer_w = 0;  // outputs that are not there
  bool own_windows = false;
  int64_t above = 0, below = 0;  // rows of other shards
  int hwc = 0;                 // channels, innermost
  int64_t stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  bool normalized = false;     // of Border::skip
};

constexpr int64_t kN = 2, kSpare = 256;
constexpr Arch kMachine{.major = 9, .minor = 0, .multiprocessors = 2, .shared_bytes = 232448, .bulk_copy = true};

// Planes of two channels, or an HWC image. Rows start on 16 bytes, or `shift` elements behind.
template <typename T>
struct Memory {
  std::vector<T> elements;
  Image image;
  Memory(int64_t h, int64_t w, int hwc, int shift) : elements(kN * h * (w + 24) * (hwc ? hwc : 2) + 2 * kSpare) {
    constexpr int64_t kWord = 16 / sizeof(T);
    const auto aligned = (reinterpret_cast<uintptr_t>(elements.data() + kSpare / 2) + 15) / 16 * 16;
    T* const start = reinterpret_cast<T*>(aligned) + shift;
    const int64_t c = hwc ? hwc : 2, pitch = round_up((hwc ? hwc * w : w) + 1, kWord) + shift, plane = h * pitch;
    constexpr Dtype kType = sizeof(T) == 4 ? Dtype::f32 : sizeof(T) == 2 ? Dtype::f16 : Dtype::u8;
    image = hwc ? Image{start, kType, kN, c, 1, h, w, plane, 1, 0, pitch, c}
                  : Image{start, kType, kN, c, 1, h, w, c * plane, plane, 0, pitch, 1};
  }
  T& at(int64_t n, int64_t c, int64_t y, int64_t x) {
    return static_cast<T*>(image.data)[n * image.stride_n + c * image.stride_c + y * image.stride_h +
                                       x * image.stride_w];
  }
  // Rows [first, first + rows).
  Image part(int64_t first, int64_t rows) {
    if (rows == 0) return {};
    Image x = image;
    x.data = &at(0, 0, first, 0), x.h = rows;
    return x;
  }
};

// Launch(problem, taps of the parameters, plan) -> what is wrong, or nothing.
template <typename T, typename Launch>
bool check(const Case& k, bool on_host, int shift, const Launch& launch) {
  std::mt19937 make(1);
  const int64_t whole_h = k.above + k.h + k.below, channels = k.hwc ? k.hwc : 2;
  Memory<T> from(whole_h, k.w, k.hwc, shift), to(k.h - k.fewer_h, k.w - k.fewer_w, k.hwc, shift);
  for (T& x : from.elements) x = from_acc<T>(float(make() % 10000) / 300 - (sizeof(T) == 1 ? 0 : 10));
  for (T& x : to.elements) x = from_acc<T>(7.f);
  const std::vector<T> blank = to.elements;
  const int64_t windows = k.own_windows ? kN * channels : 1;
  std::vector<float> taps_x(k.kw * windows), taps_y(k.kh * windows);
  for (float& tap : taps_x) tap = float(make() % 1000) / 3000 - 0.1f;
  for (float& tap : taps_y) tap = float(make() % 1000) / 3000 - 0.1f;
  const auto taps = [&](const std::vector<float>& of, int64_t size) {
    return k.own_windows ? Taps{of.data(), on_host, channels * size, size, 0} : Taps{of.data(), on_host, 0, 0, 0};
  };
  const Separable p{.in = from.part(k.above, k.h),
                    .out = to.image,
                    .taps_x = taps(taps_x, k.kw),
                    .taps_y = taps(taps_y, k.kh),
                    .kh = k.kh,
                    .kw = k.kw,
                    .place = {.pad_y = k.pad_y,
                              .pad_x = k.pad_x,
                              .stride_y = k.stride_y,
                              .stride_x = k.stride_x,
                              .dilation_y = k.dilation_y,
                              .dilation_x = k.dilation_x,
                              .border = k.border,
                              .value = k.value,
                              .normalized = k.normalized},
                    .peers = {from.part(0, k.above), from.part(k.above + k.h, k.below)}};
  PassTaps passed{{p.taps_x.data, 0, p.taps_x.stride_n, p.taps_x.stride_c},
                  {p.taps_y.data, 0, p.taps_y.stride_n, p.taps_y.stride_c}};
  if (on_host) {
    const int second = int(round_up(k.kw * 4, 16));
    passed.x.device = passed.y.device = nullptr, passed.y.start = second;
    memcpy(passed.bytes, taps_x.data(), k.kw * 4);
    memcpy(passed.bytes + second, taps_y.data(), k.kh * 4);
  }
  memset(shared, 0xff, sizeof(shared));
  Plan plan{};
  std::string wrong = launch(p, passed, plan);
  const bool beyond = std::any_of(shared + plan.shared_bytes, shared + sizeof(shared), [](auto b) { return b != 0xff; });
  if (plan.shared_bytes > 0 && beyond) wrong = "shared memory behind the plan's was written";
  for (int64_t n = 0; n < kN; ++n)
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t window = k.own_windows ? n * channels + c : 0;
      const float *const tx = taps_x.data() + window * k.kw, *const ty = taps_y.data() + window * k.kh;
      std::map<int64_t, std::vector<float>> passed_rows;  // rows' sums
      for (int64_t y = 0; y < p.out.h; ++y)
        for (int64_t x = 0; x < p.out.w && wrong.empty(); ++x) {
          float sum = 0;
          const int64_t top = k.above + y * k.stride_y - k.pad_y, left = x * k.stride_x - k.pad_x;
          for (int64_t i = 0; i < k.kh; ++i) {
            const int64_t row = map_index(top + i * k.dilation_y, whole_h, k.border);
            if (row < 0 && k.border == Border::skip) continue;
            std::vector<float>& sums = passed_rows[top + i * k.dilation_y];
            if (sums.empty()) {
              for (int64_t at = 0; at < p.out.w; ++at) {
                float of_row = 0;
                for (int64_t j = 0; j < k.kw; ++j) {
                  const int64_t column = map_index(at * k.stride_x - k.pad_x + j * k.dilation_x, k.w, k.border);
                  if (column < 0 && k.border == Border::skip) continue;
                  const bool outside = row < 0 || column < 0;
                  const float x = outside ? float(k.value) : to_acc<float>(from.at(n, c, row, column));
                  of_row = std::fma(tx[j], x, of_row);
                }
                sums.push_back(of_row);
              }
            }
            sum = std::fma(ty[i], sums[x], sum);
          }
          if (k.normalized) {
            float weight_x = 0, weight_y = 0;
            for (int64_t j = 0; j < k.kw; ++j)
              if (const int64_t at = left + j * k.dilation_x; at >= 0 && at < k.w) weight_x += std::fabs(tx[j]);
            for (int64_t i = 0; i < k.kh; ++i)
              if (const int64_t at = top + i * k.dilation_y; at >= 0 && at < whole_h) weight_y += std::fabs(ty[i]);
            sum /= weight_x * weight_y;
          }
          const bool fits = top >= 0 && top + (k.kh - 1) * k.dilation_y < whole_h && left >= 0 &&
                            left + (k.kw - 1) * k.dilation_x < k.w;
          const T want = from_acc<T>(k.border == Border::zero_output && !fits ? 0.f : sum);
          T& got = to.at(n, c, y, x);
          if (memcmp(&got, &want, sizeof(T)) != 0)
            wrong = difference({n, c, y, x}, to_acc<float>(got), to_acc<float>(want));
          got = from_acc<T>(7.f);
        }
    }
  // All other bytes are as before.
  if (wrong.empty() && memcmp(to.elements.data(), blank.data(), blank.size() * sizeof(T)) != 0)
    wrong = "something beside the output was written";
  return report(wrong, "%s %lldx%lld in %lldx%lld %s", plan.kernels.empty() ? "" : plan.kernels[0].name.c_str(),
                (long long)k.kh, (long long)k.kw, (long long)k.h, (long long)k.w, name_of(k.border));
}

// check(on_host) for taps in device memory, and for those of the host, which serve where all share a small window.
template <typename Check>
bool with_taps(const Case& k, const Check& check) {
  const bool right = check(false), large = std::max(k.kh, k.kw) * 4 > kInlineTapBytes;
  return (k.own_windows || large || check(true)) && right;
}

}  // namespace on_host
