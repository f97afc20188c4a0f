// Depthwise -> Plan for the CPU: the refusals of the variants, and their tasks.
#pragma once

#include <algorithm>

#include "core/activation.h"
#include "core/cpu/isa.h"

#if TC_X86_LEVELS
namespace torch_conv::cpu_v4_bf16 {  // kernels/depthwise/cpu/pairs.cpp
bool pairs_go_on_with_chains();
}  // namespace torch_conv::cpu_v4_bf16
#endif

namespace torch_conv::depthwise {

// Fewer channels leave most of a register empty.
constexpr int64_t kFewChannels = 8;

inline const char* channels_refusal(const Depthwise& p) {
  if (p.out.stride_c != 1 || p.out.c < kFewChannels) return "channels are not innermost, or are few";
  return nullptr;
}

// The lanes of BLOCKS are the channels of one sample, with one output for each input channel.
inline const char* blocks_refusal(const Depthwise& p) {
  if (p.in.dtype == Dtype::f64) return "float64";
  if (p.in.stride_w != 1 || p.out.stride_w != 1) return "pixels of a row are not contiguous";
  if (p.out.c != p.in.c || p.out.c < kFewChannels) return "few channels, or several outputs of each";
  // A thread keeps the whole rows under a window of 16 channels. ms, BLOCKS : PLANES, 5x5, 16x8 planes, two threads:
  // 4096 columns 5.1 : 4.7; 65536 columns 51 : 26.
  return p.in.w > 2048 ? "rows of more than 2048 pixels" : nullptr;
}

// Variants with two numbers of bfloat16 a lane.
inline bool serves_pairs() {
#if TC_X86_LEVELS
  static const bool serves = has_bf16_pairs() && cpu_v4_bf16::pairs_go_on_with_chains();
  return serves;
#else
  return false;
#endif
}

inline const char* pairs_refusal(const Depthwise& p) {
  if (!serves_pairs()) return "a processor without AVX512-BF16";
  return p.in.dtype == Dtype::bf16 && p.weights == Dtype::bf16 ? nullptr : "not all is bfloat16";
}

// Null if kernels/depthwise/cpu/pair_channels.h has tiles for the window.
inline const char* pair_tile_refusal(const Depthwise& p) {
  const Placement& at = p.place;
  const bool steps = at.stride_y == 1 && at.stride_x == 1 && at.dilation_x == 1;
  return steps && (p.kw == 3 || p.kw == 5 || p.kw == 7) ? nullptr : "a window without its own tile";
}

inline const char* channel_pairs_refusal(const Depthwise& p) {
  if (const char* why = pairs_refusal(p)) return why;
  if (const char* why = channels_refusal(p)) return why;
  if (p.in.stride_c != 1 || p.in.c != p.out.c) return "the input's channels are not innermost";
  return pair_tile_refusal(p);
}
inline const char* block_pairs_refusal(const Depthwise& p) {
  if (const char* why = pairs_refusal(p)) return why;
  if (const char* why = blocks_refusal(p)) return why;
  return pair_tile_refusal(p);
}

// STRIPS reads planes from the image itself, and has tiles for small square windows at strides of 1 and 2.
inline const char* strip_refusal(const Depthwise& p, int64_t most, int64_t most_of_two) {
  if (p.in.stride_w != 1 || p.out.stride_w != 1) return "pixels of a row are not contiguous";
  const Placement& at = p.place;
  const int64_t k = p.kw, stride = at.stride_x;
  const bool same_strides = at.stride_y == stride && at.dilation_y == 1 && at.dilation_x == 1;
  const bool served = (k == 3 || k == 5 || k == 7) && k <= (stride == 1 ? most : stride == 2 ? most_of_two : 0);
  return p.kh == k && same_strides && served ? nullptr : "a window without its own tile";
}

inline const char* plane_pairs_refusal(const Depthwise& p) {
  const char* why = pairs_refusal(p);
  return why ? why : strip_refusal(p, 7, 5);
}

// 8x96x56x56 float32, two threads of Zen 4, ms, STRIPS : BLOCKS. 3x3 0.49 : 0.61; 5x5 0.85 : 0.94; 7x7 1.8 : 1.5.
inline const char* strips_refusal(const Depthwise& p) {
  if (best_isa() != Isa::v4) return "a processor without masks";
  return p.in.dtype == Dtype::f32 ? strip_refusal(p, 5, 3) : "not float32";
}

// A thread keeps the input rows of the footprint of a tile.
inline const char* footprint_refusal(const Depthwise& p) {
  const Placement& at = p.place;
  const int64_t rows = (p.kh - 1) * at.dilation_y + 1 + 6 * at.stride_y;
  const int64_t columns = std::min<int64_t>(p.out.w, 512) * at.stride_x + (p.kw - 1) * at.dilation_x + 1;
  constexpr int64_t kMostElements = 1 << 21;
  if (rows > kMostElements || columns > kMostElements || rows * columns > kMostElements) return "a large footprint";
  return nullptr;
}

// A multiple of every register's channels. Up to twice as many channels are one task, which reads whole pixels.
// Channels of a task, float32 3x3, two threads of Zen 4, us:
//
//     8x96x56x56   64 780, 96 710
//     8x384x14x14  64 83, 128 89
//
constexpr int kChannelsOfATask = 64;

// The largest tile of at most `most` that makes all tiles of an axis about as large.
inline int even_tile(int64_t n, int64_t most) { return int(ceil_div(n, ceil_div(n, std::max<int64_t>(1, most)))); }

inline void plan_channels(const Depthwise& p, Plan& plan) {
  plan.why = "registers of channels";
  plan.tile_w = even_tile(p.out.w, 112);
  plan.tile_h = even_tile(p.out.h, 7);
  plan.tile_d = p.out.c <= 2 * kChannelsOfATask ? int(round_up(p.out.c, 32)) : kChannelsOfATask;
  plan.blocks =
      p.out.n * ceil_div(p.out.c, plan.tile_d) * ceil_div(p.out.h, plan.tile_h) * ceil_div(p.out.w, plan.tile_w);
}

// A pixel of a block, of 16 channels of float or 32 of bfloat16, takes 64 bytes.
template <int channels>
inline void plan_blocks(const Depthwise& p, Plan& plan) {
  plan.why = "transposed planes, registers of channels";
  // The rows of a block stay in the second-level cache.
  constexpr int64_t kPixels = (128 << 10) / 64;
  plan.tile_w = int(p.out.w);
  plan.tile_h = even_tile(p.out.h, std::max<int64_t>(2 * p.kh, kPixels / (p.in.w * p.place.stride_y)));
  plan.tile_d = channels;
  plan.blocks = p.out.n * ceil_div(p.out.c, plan.tile_d) * ceil_div(p.out.h, plan.tile_h);
}

inline void plan_planes(const Depthwise& p, Plan& plan) {
  plan.why = "registers of pixels of a row";
  plan.tile_w = even_tile(p.out.w, p.kh == 1 ? 2048 : 512);
  plan.tile_h = even_tile(p.out.h, 56);
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.h, plan.tile_h) * ceil_div(p.out.w, plan.tile_w);
}

enum class Loops { each_isa, strips, pairs };  // a plan's configuration

}  // namespace torch_conv::depthwise
