// Depthwise convolutions on the CPU: register tiles over rows of pixels or over channels; which, and in which loops.
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

#if TC_X86_LEVELS
namespace torch_conv::cpu_v4_bf16 {  // depthwise/cpu_pairs.cpp
bool pairs_go_on_with_chains();
void pair_units(const Depthwise& p, const Plan& plan, Range units);
}  // namespace torch_conv::cpu_v4_bf16
#endif

namespace torch_conv::depthwise {

namespace {

// Channels below this leave most of a register empty.
constexpr int64_t kFewChannels = 8;

// A multiple of every register's channels; up to twice as many are one task, which reads whole pixels. Two threads of
// Zen 4, 8x96x56x56 float32 3x3 with tasks of 64 channels 0.78 ms, of 96 0.71; 8x384x14x14 of 64 83 us, of 128 89.
constexpr int kChannelsOfATask = 64;

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

// bfloat16, two taps at a time.
bool serves_pairs() {
#if TC_X86_LEVELS
  static const bool serves = has_bf16_pairs() && cpu_v4_bf16::pairs_go_on_with_chains();
  return serves;
#else
  return false;
#endif
}

const char* pairs_refusal(const Depthwise& p) {
  if (!serves_pairs()) return "a processor without AVX512-BF16";
  return p.in.dtype == Dtype::bf16 && p.weights == Dtype::bf16 ? nullptr : "not all is bfloat16";
}

const char* channel_pairs_refusal(const Depthwise& p) {
  if (const char* why = pairs_refusal(p)) return why;
  if (const char* why = channels_refusal(p)) return why;
  if (p.in.stride_c != 1 || p.in.c != p.out.c) return "the input's channels do not lie side by side";
  const Placement& at = p.place;
  const bool steps = at.stride_y == 1 && at.stride_x == 1 && at.dilation_x == 1;
  return steps && (p.kw == 5 || p.kw == 7) ? nullptr : "a window without its own tile";
}

// 32 channels at a time; CHANNELS takes 16, and 3x3, where a pair holds a zero too often: 8x96x56x56 0.34 ms, 0.29.
// Two threads of Zen 4, 7x7, channel_pairs and channels: 2x16x224x224 1.20 ms, 0.75; 8x96x56x56 0.86, 1.05; 8x384x14x14
// 0.22, 0.24.
const char* channel_pairs_loses(const Depthwise& p) {
  return 10 * round_up(p.out.c, 16) < 8 * round_up(p.out.c, 32) ? "channels that leave registers empty" : nullptr;
}

// Strips of planes, read in the image itself: square windows of so many taps at most at steps of 1 and of 2. (The other
// small windows of networks are few; those beyond 7 are handed to torch, or have output rows that share more.)
const char* strip_refusal(const Depthwise& p, int64_t most, int64_t most_of_two) {
  if (p.in.stride_w != 1 || p.out.stride_w != 1) return "pixels of a row do not lie side by side";
  const Placement& at = p.place;
  const int64_t k = p.kw, step = at.stride_x;
  const bool steps = at.stride_y == step && at.dilation_y == 1 && at.dilation_x == 1;
  const bool served = (k == 3 || k == 5 || k == 7) && k <= (step == 1 ? most : step == 2 ? most_of_two : 0);
  return p.kh == k && steps && served ? nullptr : "a window without its own tile";
}

const char* plane_pairs_refusal(const Depthwise& p) {
  const char* why = pairs_refusal(p);
  return why ? why : strip_refusal(p, 7, 5);
}

// 8x96x56x56 float32, two threads of Zen 4, strips against blocks: 3x3 0.49 ms, 0.61; 5x5 0.85, 0.94; 7x7 1.8, 1.5.
const char* strips_refusal(const Depthwise& p) {
  if (best_isa() != Isa::v4) return "a processor without masks";
  return p.in.dtype == Dtype::f32 ? strip_refusal(p, 5, 3) : "not float32";
}

// Zen 4, one thread, cycles for 16 outputs by columns of the map, strips and blocks:
//
//                        12       14       16       18       20       24       33       36       40       48
//   bfloat16 3x3       38, 36   33, 28   27, 29   25, 29   22, 31   18, 31   23, 29   21, 28   19, 29   16, 28
//            5x5       74, 50   66, 42   53, 45   50, 43   42, 45   35, 46   45, 44   41, 43   37, 43   31, 43
//            7x7      117, 73  103, 63   85, 66   78, 63   67, 67   56, 69   76, 67   68, 65   62, 66   52, 66
//            stride 2  54, 60   48, 50   41, 52   37, 51   33, 52   29, 56   38, 53   34, 52   32, 53   28, 52
//   float32  3x3       46, 34   41, 26   33, 27   31, 27   27, 28   22, 30   31, 27   27, 26   24, 27   20, 26
//            stride 2  67, 58   59, 49   48, 54   45, 50   40, 51   33, 53   47, 51   42, 50   37, 51   32, 54
const char* strip_loses(const Depthwise& p) {
  if (blocks_refusal(p)) return nullptr;
  const bool half = p.place.stride_x == 2 || (p.in.dtype == Dtype::bf16 && p.kw == 3);
  const int64_t lanes = round_up(p.out.w, 32);
  return 10 * p.out.w < (half ? 5 : 6) * lanes ? "a narrow map, which leaves registers empty" : nullptr;
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
  plan.tile_d = p.out.c <= 2 * kChannelsOfATask ? int(round_up(p.out.c, 32)) : kChannelsOfATask;
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

const char* never(const Depthwise&) { return nullptr; }

enum class Loops { each_isa, strips, pairs };  // a plan's configuration

// In the order in which they are asked; the last serves whatever the room does.
struct Variant {
  const char* name;
  const char* (*refusal)(const Depthwise&);
  const char* (*loses)(const Depthwise&);
  void (*configure)(const Depthwise&, Plan&);
  Loops loops;
};
constexpr Variant kVariants[] = {
    {"channel_pairs", channel_pairs_refusal, channel_pairs_loses, plan_channels, Loops::pairs},
    {"channels", channels_refusal, channels_loses, plan_channels, Loops::each_isa},
    {"plane_pairs", plane_pairs_refusal, strip_loses, plan_planes, Loops::pairs},
    {"strips", strips_refusal, strip_loses, plan_planes, Loops::strips},
    {"blocks", blocks_refusal, blocks_loses, plan_blocks, Loops::each_isa},
    {"planes", never, planes_loses, plan_planes, Loops::each_isa},
};

}  // namespace

Plan plan_cpu(const Depthwise& p, const char* pinned) {
  Plan plan{.algorithm = "depthwise"};
  if (const char* why = p.sums == Sums::products ? "no tensor cores" : reach_refusal(p)) {
    plan.why = why;
    return plan;
  }
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  plan.flops = 2.0 * double(p.kh * p.kw) * elements_of(p.out);
  for (const Variant& variant : kVariants) {
    if (*pinned && std::strcmp(pinned, variant.name) != 0) continue;
    const char* why = variant.refusal(p);
    if (!why && !*pinned) why = variant.loses(p);
    if (!why) {
      plan.variant = variant.name, plan.config = variant.loops;
      variant.configure(p, plan);
      break;
    }
    plan.refused.push_back({variant.name, why}), plan.why = why;
  }
  return plan;
}

void run_cpu(const Depthwise& p, const Plan& plan) {
  auto run = p.in.dtype == Dtype::f64 ? TC_BEST_ISA(depthwise_units<double>) : TC_BEST_ISA(depthwise_units<float>);
#if TC_X86_LEVELS
  const Loops loops = std::any_cast<Loops>(plan.config);
  if (loops == Loops::strips) run = cpu_v4::float_strip_units;
  if (loops == Loops::pairs) run = cpu_v4_bf16::pair_units;
#endif
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { run(p, plan, {begin, end}); });
}

}  // namespace torch_conv::depthwise
