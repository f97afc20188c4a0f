// Depthwise convolutions on the CPU: register tiles over rows of pixels or over channels; which, and in which loops.
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/activation.h"
#include "core/cpu/strips.h"
#include "core/parallel.h"
#include "kernels/families.h"

#define TC_CPU_BODY "kernels/depthwise/cpu/body.h"
#include "core/cpu/each_isa.h"

#if TC_X86_LEVELS
namespace torch_conv::cpu_v4_bf16 {  // kernels/depthwise/cpu/pairs.cpp
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

// Registers of bfloat16, two numbers a lane.
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

// What cpu_pair_channels.h has tiles for.
const char* pair_tile_refusal(const Depthwise& p) {
  const Placement& at = p.place;
  const bool steps = at.stride_y == 1 && at.stride_x == 1 && at.dilation_x == 1;
  return steps && (p.kw == 3 || p.kw == 5 || p.kw == 7) ? nullptr : "a window without its own tile";
}

const char* channel_pairs_refusal(const Depthwise& p) {
  if (const char* why = pairs_refusal(p)) return why;
  if (const char* why = channels_refusal(p)) return why;
  if (p.in.stride_c != 1 || p.in.c != p.out.c) return "the input's channels do not lie side by side";
  return pair_tile_refusal(p);
}
const char* block_pairs_refusal(const Depthwise& p) {
  if (const char* why = pairs_refusal(p)) return why;
  if (const char* why = blocks_refusal(p)) return why;
  return pair_tile_refusal(p);
}

// 32 channels at a time; CHANNELS and BLOCKS take 16. Two threads of Zen 4, 7x7, channel_pairs and channels:
// 2x16x224x224 1.20 ms, 0.75; 8x96x56x56 0.86, 1.05; 8x384x14x14 0.22, 0.24.
const char* channel_fill_loses(const Depthwise& p) {
  return 10 * round_up(p.out.c, 16) < 8 * round_up(p.out.c, 32) ? "channels that leave registers empty" : nullptr;
}

// Two threads of Zen 4, 3x3, us, channel_pairs and channels: 8x96x56x56 293, 304; 4x32x112x112 210, 195; 8x384x14x14
// 86, 81; 8x192x28x28 158, 155; 2x64x56x56 60, 59; 1x96x112x112 156, 162. Beside F.conv2d (torch-conv bench depthwise,
// which leaves the caches to others) 8x96x56x56 303 to 323 and 326 to 367.
const char* channel_pairs_loses(const Depthwise& p) {
  const bool large = p.kh > 1 && p.out.h * p.out.w > 2048 && p.out.c > 64;
  return p.kw == 3 && !large ? "rows of three taps make no pairs" : channel_fill_loses(p);
}

const char* block_pairs_loses(const Depthwise& p) {
  const char* why = blocks_loses(p);
  return why ? why : channel_fill_loses(p);
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

// Zen 4, one thread, nanoseconds for 16 outputs by columns of the map: strips, blocks, and block_pairs.
//
//                             12    14    16    18    20    24    28    33    36    40    48
//   bfloat16 3x3  strips    10.5   9.3   7.6   7.2   6.2   5.1   4.5   6.6   6.0   5.6   4.7
//                 blocks     9.5   6.9   7.8   7.5   7.9   8.3   6.8   7.6   7.3   7.6   7.3
//           block_pairs      7.6   6.8   6.9   6.8   7.1   7.2   6.4   6.9   6.6   6.6   6.7
//            5x5  strips    20.7  18.4  14.8  13.9  11.9   9.8   8.5  12.6  11.4  10.3   8.6
//                 blocks    12.1  10.3  11.5  11.3  11.7  12.1  10.6  11.7  11.2  11.4  11.4
//           block_pairs     11.1   9.5   9.7  10.0  10.3  10.1   9.1   9.9   9.4   9.8   9.7
//            7x7  strips    32.2  28.5  23.3  21.7  18.8  15.5  13.3  21.1  18.9  17.1  14.3
//                 blocks    16.8  15.6  16.5  16.1  16.9  17.9  16.2  17.6  17.3  17.4  17.6
//           block_pairs     15.4  13.3  13.8  14.1  14.6  14.5  13.2  14.4  13.7  14.0  14.4
//       stride 2  strips    14.9  13.3  11.4  10.7   9.6   8.3   7.4  10.4   9.5   8.8   7.8
//                 blocks    15.5  12.8  13.6  13.2  13.8  14.3  12.8  14.2  13.8  13.8  13.6
//   float32  3x3  strips    13.4  12.0   9.5   9.1   7.9   6.5   5.6   8.6   7.6   6.7   5.7
//                 blocks     9.5   7.2   7.5   7.7   7.9   8.1   6.5   7.5   7.2   7.5   7.4
//       stride 2  strips    18.7  16.7  13.5  12.8  11.3   9.2   8.3  12.9  11.7  10.4   8.9
//                 blocks    17.5  14.8  15.9  14.8  15.2  15.8  13.8  15.0  14.8  14.6  15.5
const char* strip_loses(const Depthwise& p) {
  if (blocks_refusal(p)) return nullptr;
  const bool pairs = !block_pairs_refusal(p) && !block_pairs_loses(p);
  const bool half = p.place.stride_x == 2 || (p.in.dtype == Dtype::bf16 && p.kw == 3);
  const int tenths = half ? 5 : !pairs ? 6 : p.kw == 5 ? 7 : 8;
  return 10 * p.out.w < tenths * round_up(p.out.w, 32) ? "a narrow map, which leaves registers empty" : nullptr;
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

// 16 channels of float or 32 of bfloat16: a pixel of them takes 64 bytes.
template <int channels>
void plan_blocks(const Depthwise& p, Plan& plan) {
  plan.why = "planes turned to registers of channels";
  // The rows of a register's channels stay in the second-level cache.
  constexpr int64_t kPixels = (128 << 10) / 64;
  plan.tile_w = int(p.out.w);
  plan.tile_h = even_tile(p.out.h, std::max<int64_t>(2 * p.kh, kPixels / (p.in.w * p.place.stride_y)));
  plan.tile_d = channels;
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
    {"block_pairs", block_pairs_refusal, block_pairs_loses, plan_blocks<32>, Loops::pairs},
    {"strips", strips_refusal, strip_loses, plan_planes, Loops::strips},
    {"blocks", blocks_refusal, blocks_loses, plan_blocks<16>, Loops::each_isa},
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
