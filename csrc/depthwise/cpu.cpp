// Depthwise convolutions on the CPU: padded rows in the cache, and register tiles over them.
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/activation.h"
#include "core/cpu_strips.h"
#include "core/parallel.h"
#include "core/rooms.h"

#define TC_CPU_BODY "depthwise/cpu_body.h"
#include "core/cpu_each_isa.h"

namespace torch_conv::depthwise {

namespace {

// Channels below this leave most of a register empty.
constexpr int64_t kFewChannels = 8;

constexpr int kChannelsOfATask = 64;  // a multiple of every register's

const char* channels_refusal(const Depthwise& p) {
  if (p.out.stride_c != 1 || p.out.c < kFewChannels) return "channels do not lie side by side, or are few";
  return nullptr;
}

// Two threads of Zen 4, float32 on 2x96x32x32, planes against channels: 31x31 2.2 ms, 3.0; 13x13 0.54, 0.72; 9x9 on
// 56x56 1.17, 0.87.
const char* channels_loses(const Depthwise& p) {
  return p.kh > 1 && p.kw > 9 ? "a wide window, whose edges are copied" : nullptr;
}

// 2x3x512x512 float32 3x3 channels_last: 0.49 ms in the room for any window, which takes the channels of a row as one
// row, 0.80 here; 5x5 1.0, 1.1.
const char* planes_loses(const Depthwise& p) {
  const bool interleaved = p.activation == Activation::none && interleaved_channels(p.in, p.out) > 1;
  return interleaved && p.out.c < kFewChannels ? "few channels side by side are one row elsewhere" : nullptr;
}

// Lanes are channels after all: those of one sample, each with one output.
const char* blocks_refusal(const Depthwise& p) {
  if (p.in.dtype == Dtype::f64) return "float64";
  if (p.in.stride_w != 1 || p.out.stride_w != 1) return "pixels of a row do not lie side by side";
  if (p.out.c != p.in.c || p.out.c < kFewChannels) return "few channels, or several outputs of each";
  // A thread keeps the rows under a window of 16 channels, whole: 4096 columns under 5x5 take 5.1 ms, PLANES 4.7, and
  // 65536 51 and 26 (16x8 planes, two threads).
  return p.in.w > 2048 ? "rows of more than 2048 pixels" : nullptr;
}

// Zen 4, one thread, float32, cycles for 16 outputs, blocks against planes: 3x3 7x7 maps 35, 86; 14x14 26, 44; 56x56
// 24, 25; 112x112 stride 2 48, 43; 5x5 56x56 40, 45; 7x7 56x56 63, 72; signals of 1024, 4 taps 30, 17.
const char* blocks_loses(const Depthwise& p) {
  if (p.kh == 1) return "signals are faster as they lie";
  const Placement& at = p.place;
  const bool few = p.kw == 3 || p.kw == 5, some = few || p.kw == 4 || p.kw == 7;
  if (at.dilation_x != 1 || !(at.stride_x == 1 ? some : few && at.stride_x == 2))
    return "a window without its own tile";
  if (p.in.w > 64 && p.kh * p.kw < 25) return "few taps, wide rows";
  return nullptr;
}

// Input rows are kept with everything that the windows of a tile reach.
const char* reach_refusal(const Depthwise& p) {
  const Placement& at = p.place;
  const int64_t rows = (p.kh - 1) * at.dilation_y + 1 + 6 * at.stride_y;
  const int64_t columns = std::min<int64_t>(p.out.w, 512) * at.stride_x + (p.kw - 1) * at.dilation_x + 1;
  constexpr int64_t kMostElements = 1 << 21;
  if (rows > kMostElements || columns > kMostElements || rows * columns > kMostElements) return "windows reach far";
  return nullptr;
}

// The largest tile of at most `most`, all tiles of an axis being about as large.
int even_tile(int64_t n, int64_t most) { return int(ceil_div(n, ceil_div(n, std::max<int64_t>(1, most)))); }

void plan_channels(const Depthwise& p, Plan& plan) {
  plan.why = "registers of channels";
  plan.tile_w = even_tile(p.out.w, 112);
  plan.tile_h = even_tile(p.out.h, 7);
  plan.tile_d = kChannelsOfATask;
  plan.blocks =
      p.out.n * ceil_div(p.out.c, plan.tile_d) * ceil_div(p.out.h, plan.tile_h) * ceil_div(p.out.w, plan.tile_w);
}

void plan_blocks(const Depthwise& p, Plan& plan) {
  plan.why = "planes turned to registers of channels";
  // The rows of a register's channels stay in the second-level cache.
  constexpr int64_t kPixels = (128 << 10) / 64;
  plan.tile_w = int(p.out.w);
  plan.tile_h = even_tile(p.out.h, std::max<int64_t>(2 * p.kh, kPixels / (p.in.w * p.place.stride_y)));
  plan.tile_d = 16;
  plan.blocks = p.out.n * ceil_div(p.out.c, plan.tile_d) * ceil_div(p.out.h, plan.tile_h);
}

void plan_planes(const Depthwise& p, Plan& plan) {
  plan.why = "registers of pixels of a row";
  plan.tile_w = even_tile(p.out.w, p.kh == 1 ? 2048 : 512);
  plan.tile_h = even_tile(p.out.h, 56);
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.h, plan.tile_h) * ceil_div(p.out.w, plan.tile_w);
}

}  // namespace

Plan plan_cpu(const Depthwise& p, const char* pinned) {
  Plan plan{.algorithm = "depthwise"};
  const auto refused = [&](const char* variant, const char* why) {
    plan.refused.push_back({variant, why}), plan.why = why;
  };
  const auto asked = [&](const char* variant) { return !*pinned || std::strcmp(pinned, variant) == 0; };
  const char* const none = p.sums == Sums::products ? "no tensor cores" : reach_refusal(p);
  if (none) {
    plan.why = none;
    return plan;
  }
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  plan.flops = 2.0 * double(p.kh * p.kw) * elements_of(p.out);
  if (asked("channels")) {
    const char* why = channels_refusal(p);
    if (!why && !*pinned) why = channels_loses(p);
    if (why) refused("channels", why);
    else plan.variant = "channels", plan_channels(p, plan);
  }
  if (!plan.variant && asked("blocks")) {
    const char* why = blocks_refusal(p);
    if (!why && !*pinned) why = blocks_loses(p);
    if (why) refused("blocks", why);
    else plan.variant = "blocks", plan_blocks(p, plan);
  }
  if (!plan.variant && asked("planes")) {
    const char* why = *pinned ? nullptr : planes_loses(p);
    if (why) refused("planes", why);
    else plan.variant = "planes", plan_planes(p, plan);
  }
  return plan;
}

void run_cpu(const Depthwise& p, const Plan& plan) {
  const auto run =
      p.in.dtype == Dtype::f64 ? TC_BEST_ISA(depthwise_units<double>) : TC_BEST_ISA(depthwise_units<float>);
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { run(p, plan, {begin, end}); });
}

}  // namespace torch_conv::depthwise
