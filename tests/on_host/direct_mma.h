// Shared by mma.cpp and mma_bits.cpp: images that start anywhere, with no page behind them, and the launch of a plan of
// MMA. Each program lists its kernels. Every launch is compared with MMA_GENERAL's, first with coarse sums.
#pragma once

#include <map>
#include <random>
#include <string>

#include "cuda.h"
#include "guarded.h"
#include "report.h"
#undef __shared__
#define __shared__
#include "kernels/direct2d/mma/kernel.cuh"
#include "kernels/direct2d/mma/plan.h"
#include "kernels/direct2d/mma_general/kernel.cuh"
#include "kernels/direct2d/mma_general/plan.h"

namespace torch_conv::direct2d {
alignas(128) unsigned char mma_shared[1 << 17], mma_general_shared[1 << 17];
}

using namespace torch_conv;
using namespace torch_conv::direct2d;

namespace {

using Kernel = void (*)(TensorMap, MmaArgs, ParamTaps);
using Kernels = std::map<std::string, Kernel>;
#define KERNEL(T, ...) \
  { "direct2d::direct2d_mma<" #T ", direct2d::MmaPolicy{" #__VA_ARGS__ "}>", direct2d_mma<T, MmaPolicy{__VA_ARGS__}> }

struct Case {
  Dtype dtype;
  int64_t n, c, h, w, kh, kw, pad_y, pad_x;
  int64_t fewer_h, fewer_w;  // outputs that are not there
  Border border;
  double value = 0;
  bool own_windows = false, one_input = false;
  double special = 0;               // a pixel of every plane
  int64_t above = 0, below = 0;     // rows of other shards: none, or all that windows reach
  bool narrow = false;              // taps of the image's dtype
  int64_t in_gap = 0, out_gap = 0;  // elements between rows
  bool hwc = false;               // interleaved channels
  bool many = false;              // pixels are `special`, one in eight windows
};

const Dtype F = Dtype::f16, B = Dtype::bf16;

constexpr uint16_t kUntouched = 0x7fff;  // NaN of either dtype: what is not written, or read beside an image, is seen

// An image with `gap` elements between rows. A page without access follows the last row. The memory is never freed.
Image image_of(Dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w, int64_t gap = 0, bool hwc = false) {
  if (hwc) {
    Image x = image_of(dtype, n, 1, h, w * c, gap);
    x.c = c, x.stride_c = 1, x.w = w, x.stride_w = c;
    return x;
  }
  const int64_t pitch = w + gap, bytes = 2 * (n * c * h * pitch - gap);
  const std::span<char> memory = on_host::guarded_memory(bytes, kUntouched);
  char* const start = memory.data() + (memory.size() - bytes);
  return {start, dtype, n, c, 1, h, w, c * h * pitch, h * pitch, 0, pitch, 1};
}

// Are the elements between an image's rows, and those before it, what they were?
bool gaps_untouched(Image x) {
  if (x.stride_c == 1) x = as_rows(x, x.c);
  const uint16_t* const data = static_cast<const uint16_t*>(x.data);
  for (int64_t r = 0; r < x.n * x.c * x.h; ++r)
    for (int64_t i = x.w; i < x.stride_h && r + 1 < x.n * x.c * x.h; ++i)
      if (data[r * x.stride_h + i] != kUntouched) return false;
  for (const uint16_t* at = data; reinterpret_cast<uintptr_t>(at) % on_host::kPage != 0;)
    if (*--at != kUntouched) return false;
  return true;
}

double get(const Image& x, int64_t n, int64_t c, int64_t h, int64_t w) {
  const void* at = static_cast<uint16_t*>(x.data) + n * x.stride_n + c * x.stride_c + h * x.stride_h + w * x.stride_w;
  return x.dtype == Dtype::f16 ? double(*static_cast<const half_t*>(at))
                               : to_acc<float>(*static_cast<const bhalf_t*>(at));
}

void set(const Image& x, int64_t n, int64_t c, int64_t h, int64_t w, float value) {
  void* at = static_cast<uint16_t*>(x.data) + n * x.stride_n + c * x.stride_c + h * x.stride_h + w * x.stride_w;
  if (x.dtype == Dtype::f16) *static_cast<half_t*>(at) = from_acc<half_t>(value);
  else *static_cast<bhalf_t*>(at) = from_acc<bhalf_t>(value);
}

// Launches MMA_GENERAL with outputs of its own. What is wrong, if their bits are not those of p.out.
std::string compare_general(const Direct& p, const Arch& arch) {
  Direct q = p;
  q.out = on_host::image_like(p.out, kUntouched);
  Plan plan{};
  if (const char* no = mma_general_refusal(q, arch)) return no;
  configure_mma_general(q, arch, plan);
  const bool narrow = p.taps.narrow;
  const auto halves = narrow ? direct2d_mma_general<half_t, true> : direct2d_mma_general<half_t, false>;
  const auto bhalves = narrow ? direct2d_mma_general<bhalf_t, true> : direct2d_mma_general<bhalf_t, false>;
  const auto kernel = p.in.dtype == F ? halves : bhalves;
  std::string wrong =
      on_host::launch_within(mma_general_shared, plan, kernel, mma_general_args(q, plan), ParamTaps::of(q));
  if (wrong.empty()) wrong = on_host::other_bits(q.out, p.out, get);
  if (wrong.empty() && !gaps_untouched(q.out)) wrong = "memory beside the image is written";
  return wrong.empty() ? "" : "mma_general: " + wrong;
}

// Launches the kernel that the plan names; what is wrong, if that cannot be.
std::string launch(const Kernels& kernels, const Direct& p, std::string& name) {
  const Arch arch{.major = 9, .minor = 0, .multiprocessors = 132, .shared_bytes = sizeof(mma_shared), .bulk_copy = true};
  Plan plan{};
  if (const char* no = mma_refusal(p, arch)) return no;
  configure_mma(p, arch, plan);
  name = plan.kernels[0].name;
  if (!kernels.contains(name)) return "no such kernel here";
  const MmaShape s = mma_shape(p);
  const Image rows = as_rows(p.in, s.channels);
  const TensorMap map = tma::map_of(rows, s.box_w() / s.pack(), s.box_h(), 2 * s.pack());
  std::string wrong;
  for (const bool coarse : {true, false}) {
    coarse_sums = coarse, on_host::votes = 0;
    if (wrong.empty())
      wrong = on_host::launch_within(mma_shared, plan, kernels.at(name), map, mma_args(p, plan), ParamTaps::of(p));
    if (wrong.empty()) wrong = compare_general(p, arch);
  }
  return wrong;
}

bool report(const std::string& name, const Case& k, const std::string& wrong) {
  return on_host::report(wrong, "%s %lldx%lldx%lldx%lld %s%s%s", name.c_str(), (long long)k.n, (long long)k.c,
                         (long long)k.h, (long long)k.w, name_of(k.border), k.hwc ? ", HWC" : "",
                         k.special ? " with a pixel that is not finite" : "");
}

}  // namespace
