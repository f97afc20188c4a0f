// separable2d's RING as its plan launches it, on the host: the bits of the row chain and the column chain, and nothing
// written beside the output.
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "cuda.h"
using std::fma;
using std::fmaf;
#undef __shared__
#define __shared__
#include "core/geometry.h"
#include "core/neighbours.h"
#include "core/tile.h"
#include "core/tma.h"
#define __CUDACC__  // what is a kernel's in it
#include "separable2d/params.h"
#undef __CUDACC__
#include "separable2d/kernel_ring.cuh"
#include "separable2d/plan_ring.h"

namespace torch_conv::separable2d {
alignas(128) unsigned char shared[1 << 18];
}

using namespace torch_conv;
using namespace torch_conv::separable2d;

namespace {

using Kernel = void (*)(RingParams, TensorMap);
#define KERNEL(...) \
  { "separable2d::separable_ring<" #__VA_ARGS__ ">", separable_ring<__VA_ARGS__> }
#define KERNELS(...) KERNEL(__VA_ARGS__, true), KERNEL(__VA_ARGS__, false)
const std::map<std::string, Kernel> kKernels = {
    KERNELS(15, 15, 1, 1), KERNELS(31, 31, 1, 1), KERNELS(63, 63, 1, 1), KERNELS(47, 15, 1, 1), KERNELS(15, 47, 1, 1),
    KERNELS(21, 9, 4, 1),  KERNELS(1, 21, 6, 1),  KERNELS(34, 32, 0, 1), KERNELS(18, 16, 0, 1), KERNELS(5, 5, 4, 2),
    KERNELS(31, 31, 2, 2), KERNELS(5, 5, 2, 3),   KERNELS(9, 15, 3, 3),  KERNELS(31, 31, 3, 3), KERNELS(18, 40, 0, 3),
    KERNELS(3, 3, 4, 4),   KERNELS(15, 15, 4, 4),
};

struct Case {
  int64_t h, w, kh, kw, pad_y, pad_x;
  Border border = Border::constant;
  double value = 0;
  int64_t fewer_h = 0, fewer_w = 0;  // outputs that are not there
  bool own_windows = false;
  int64_t above = 0, below = 0;  // rows of other shards
  int photo = 0;  // channels, innermost
};

const Case kCases[] = {
    {70, 136, 15, 15, 7, 7},
    {70, 136, 15, 15, 7, 7, Border::reflect},
    {130, 260, 31, 31, 15, 15, Border::reflect},
    {130, 260, 31, 31, 15, 15, Border::circular, 0, 0, 0, true},
    {90, 132, 63, 63, 31, 31, Border::symmetric},
    {40, 140, 47, 15, 23, 7, Border::replicate},
    {40, 140, 15, 47, 7, 23, Border::zero_output},
    {60, 136, 21, 9, 10, 4, Border::constant, 2.5},
    {45, 136, 1, 21, 0, 10, Border::reflect},
    {5, 8, 31, 31, 15, 15, Border::reflect},
    {100, 264, 34, 32, 16, 16, Border::circular},
    {33, 136, 34, 32, 16, 16, Border::circular},
    {60, 160, 18, 16, 0, 0, Border::constant, 0, 17, 15},
    {60, 160, 18, 16, 17, 8, Border::constant, 1, 0, 1},
    {33, 136, 31, 31, 15, 15, Border::reflect, 0, 0, 0, false, 20, 15},
    {33, 136, 31, 31, 15, 15, Border::constant, 0, 0, 0, false, 3, 15},
    {33, 136, 15, 15, 7, 7, Border::zero_output, 0, 0, 0, false, 0, 2},
    {70, 130, 5, 5, 2, 2, Border::reflect, 0, 0, 0, false, 0, 0, 2},
    {40, 70, 31, 31, 15, 15, Border::zero_output, 0, 0, 0, false, 0, 0, 2},
    {70, 100, 5, 5, 2, 2, Border::constant, 0, 0, 0, false, 0, 0, 3},
    {40, 100, 9, 15, 4, 7, Border::constant, 2.5, 0, 0, false, 9, 2, 3},
    {40, 36, 31, 31, 15, 15, Border::circular, 0, 0, 0, false, 0, 0, 3},
    {40, 8, 31, 31, 15, 15, Border::reflect, 0, 0, 0, false, 0, 15, 3},
    {60, 88, 18, 40, 0, 0, Border::constant, 0, 17, 39, false, 0, 0, 3},
    {40, 36, 9, 15, 4, 7, Border::zero_output, 0, 0, 0, false, 5, 0, 3},
    {34, 33, 3, 3, 1, 1, Border::symmetric, 0, 0, 0, false, 0, 0, 4},
    {70, 65, 15, 15, 7, 7, Border::replicate, 0, 0, 0, false, 0, 0, 4},
};

constexpr int64_t kN = 2, kSpare = 64;

// Planes of two channels, or a photograph.
struct Memory {
  std::vector<float> words;
  Image image;
  Memory(int64_t h, int64_t w, int photo) : words(kN * h * (w + 8) * (photo ? photo : 2) + 2 * kSpare, -7) {
    float* const start = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(words.data() + kSpare) + 15) / 16 * 16);
    const int64_t c = photo ? photo : 2, pitch = round_up((photo ? photo * w : w) + 1, 4), plane = h * pitch;
    image = photo ? Image{start, Dtype::f32, kN, c, 1, h, w, plane, 1, 0, pitch, c}
                  : Image{start, Dtype::f32, kN, c, 1, h, w, c * plane, plane, 0, pitch, 1};
  }
  float& at(int64_t n, int64_t c, int64_t y, int64_t x) {
    return static_cast<float*>(image.data)[n * image.stride_n + c * image.stride_c + y * image.stride_h +
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

bool check(const Case& k, bool on_host) {
  if (on_host && k.own_windows) return true;
  std::mt19937 make(1);
  const int64_t whole_h = k.above + k.h + k.below;
  const int64_t kC = k.photo ? k.photo : 2;
  Memory from(whole_h, k.w, k.photo), to(k.h - k.fewer_h, k.w - k.fewer_w, k.photo);
  for (float& x : from.words) x = float(make() % 10000) / 300 - 10;
  const std::vector<float> blank = to.words;
  std::vector<float> taps_x(k.kw * (k.own_windows ? kN * kC : 1)), taps_y(k.kh * (k.own_windows ? kN * kC : 1));
  for (float& tap : taps_x) tap = float(make() % 1000) / 3000 - 0.1f;
  for (float& tap : taps_y) tap = float(make() % 1000) / 3000 - 0.1f;
  const auto taps = [&](const std::vector<float>& of, int64_t size) {
    return k.own_windows ? Taps{of.data(), on_host, kC * size, size, 0} : Taps{of.data(), on_host, 0, 0, 0};
  };
  const Separable p{.in = from.part(k.above, k.h),
                    .out = to.image,
                    .taps_x = taps(taps_x, k.kw),
                    .taps_y = taps(taps_y, k.kh),
                    .kh = k.kh,
                    .kw = k.kw,
                    .place = {.pad_y = k.pad_y, .pad_x = k.pad_x, .border = k.border, .value = k.value},
                    .beside = {from.part(0, k.above), from.part(k.above + k.h, k.below)}};
  const Arch arch{.major = 9,
                  .minor = 0,
                  .multiprocessors = 2,
                  .shared_bytes = 232448,
                  .bulk_copy = true};
  Plan plan{};
  const char* const no = ring_refusal(p, arch);
  std::string wrong = no ? no : "";
  if (wrong.empty()) {
    const RingShape shape = fill_ring(p, arch, plan);
    const auto kernel = kKernels.find(plan.kernels[0].name);
    if (kernel == kKernels.end()) {
      wrong = "no kernel " + plan.kernels[0].name;
    } else {
      memset(shared, 0xff, sizeof(shared));
      PassTaps passed{{p.taps_x.data, 0, p.taps_x.stride_n, p.taps_x.stride_c},
                      {p.taps_y.data, 0, p.taps_y.stride_n, p.taps_y.stride_c}};
      if (on_host) {
        memcpy(passed.bytes, taps_x.data(), k.kw * 4);
        memcpy(passed.bytes + round_up(k.kw * 4, 16), taps_y.data(), k.kh * 4);
      }
      const Image rows = as_rows(p).in;
      on_host::launch(kernel->second, {unsigned(plan.blocks), 1, 1}, plan.threads, ring_params(p, plan, shape, passed),
                      tma::map_of(rows, shape.pitch(), kRingPiece));
    }
  }
  for (int64_t n = 0; n < kN; ++n)
    for (int64_t c = 0; c < kC; ++c) {
      const float* const tx = taps_x.data() + (k.own_windows ? n * kC + c : 0) * k.kw;
      const float* const ty = taps_y.data() + (k.own_windows ? n * kC + c : 0) * k.kh;
      std::map<int64_t, std::vector<float>> passed;  // rows' sums
      for (int64_t y = 0; y < p.out.h; ++y)
        for (int64_t x = 0; x < p.out.w && wrong.empty(); ++x) {
          float want = 0;
          const int64_t top = k.above + y - k.pad_y, left = x - k.pad_x;
          for (int64_t i = 0; i < k.kh; ++i) {
            std::vector<float>& sums = passed[top + i];
            if (sums.empty()) {
              const int64_t row = map_index(top + i, whole_h, k.border);
              for (int64_t at = 0; at < p.out.w; ++at) {
                float sum = 0;
                for (int64_t j = 0; j < k.kw; ++j) {
                  const int64_t column = map_index(at - k.pad_x + j, k.w, k.border);
                  sum = std::fma(tx[j], row < 0 || column < 0 ? float(k.value) : from.at(n, c, row, column), sum);
                }
                sums.push_back(sum);
              }
            }
            want = std::fma(ty[i], sums[x], want);
          }
          const bool fits = top >= 0 && top + k.kh <= whole_h && left >= 0 && left + k.kw <= k.w;
          if (k.border == Border::zero_output && !fits) want = 0;
          float& got = to.at(n, c, y, x);
          if (got != want)
            wrong = "(" + std::to_string(n) + ", " + std::to_string(c) + ", " + std::to_string(y) + ", " +
                    std::to_string(x) + ") is " + std::to_string(got) + ", not " + std::to_string(want);
          got = -7;
        }
    }
  // What is left is what was there before.
  if (wrong.empty() && memcmp(to.words.data(), blank.data(), blank.size() * 4) != 0)
    wrong = "something beside the output was written";
  std::printf("%s %lldx%lld in %lldx%lld %s: %s\n", plan.kernels.empty() ? "" : plan.kernels[0].name.c_str(),
              (long long)k.kh, (long long)k.kw, (long long)k.h, (long long)k.w, name_of(k.border),
              wrong.empty() ? "right" : wrong.c_str());
  std::fflush(stdout);
  return wrong.empty();
}

}  // namespace

int main() {
  bool right = true;
  for (const Case& k : kCases)
    for (bool on_host : {false, true}) right = check(k, on_host) && right;
  return right ? 0 : 1;
}
