// CHANNELS: interleaved channels, straight from device memory to registers.
#pragma once

#include <numeric>

#include "kernels/depthwise/channels/params.h"
#include "kernels/depthwise/config.h"
#include "kernels/depthwise/shared/channel_layout.h"

namespace torch_conv::depthwise {

void launch_channels(const Depthwise& p, const Plan& plan, const Site& site);

struct ChannelsConfig {
  ChannelsShape shape;
  ChannelsAxis y, x;
  int lanes;
  int64_t chunks, blocks;
};

inline int channels_step(int64_t stride, int64_t dilation) { return int(stride / std::gcd(stride, dilation)); }

// The shape of the window and of a thread's tile.
inline ChannelsShape channels_shape(const Depthwise& p, const Arch&) {
  const int size = size_of(p.in.dtype);
  ChannelsShape s{.kh = int(p.kh),
                  .kw = int(p.kw),
                  .stride_y = channels_step(p.place.stride_y, p.place.dilation_y),
                  .stride_x = channels_step(p.place.stride_x, p.place.dilation_x)};
  const auto divides = [&](int vector) {
    return p.multiplier() == 1 && p.out.c % vector == 0 && channels_start_on(p.in, vector * size) &&
           channels_start_on(p.out, vector * size);
  };
  // Tiles by the window, us on one NVIDIA H200, 64x96x56x56 (112x112 with a stride):
  //
  //     float32  3x3            44-48 with any of 4x4, 7x4, 8x2 outputs
  //              5x5            4x4 80, 7x4 66, 4x7 64
  //              7x7            4x4 123, 4x8 98, 7x4 96
  //     float16  3x3, stride 2  4x2 outputs of 8 bytes 56, of 4 bytes 62
  //     bfloat16 16x2048x4096, 4 taps   8 outputs of 8 bytes 134, 16 of 8 bytes 250, 16 of 4 bytes 143
  //
  const int taps = s.kh * s.kw;
  const bool row = s.kh == 1 && p.out.h == 1, strides = s.stride_x > 1 || s.stride_y > 1;
  s.vector = taps > 25 ? 1 : (row && taps <= 9) || (strides && taps <= 9 && size == 2) ? 8 / size : 4 / size;
  while (s.vector > 1 && !divides(s.vector)) s.vector /= 2;
  if (s.vector < 1) s.vector = 1;
  if (row) {
    s.ty = 1, s.tx = taps <= 9 ? 8 : 16;
    s.ahead = 1, s.resident = taps * s.vector > 16 ? 3 : 4;
  } else if (taps <= 9) {
    s.tx = 4, s.ty = strides ? 2 : 4;
    s.ahead = strides ? 5 : 6, s.resident = strides ? 2 : 3;
  } else if (taps <= 25) {
    s.tx = 4, s.ty = strides ? 2 : s.vector == 1 ? 7 : 4;
    s.ahead = 4, s.resident = 2;
  } else {
    s.tx = strides || taps > 49 ? 4 : 7, s.ty = 4;
    s.ahead = 2, s.resident = taps <= 49 ? 2 : 1;
  }
  if (size == 8) s.resident = 1;
  return s;
}

inline ChannelsAxis channels_axis(int64_t in, int64_t out, int64_t stride, int64_t pad, int64_t dilation) {
  const auto spread = FastDivisor::of(unsigned(dilation / std::gcd(stride, dilation)));
  return {int(in), int(out), int(stride), int(pad), int(dilation), spread};
}

inline ChannelsConfig channels_config(const Depthwise& p, const Arch& arch) {
  const Placement& at = p.place;
  ChannelsConfig config{.shape = channels_shape(p, arch),
                        .y = channels_axis(p.in.h, p.out.h, at.stride_y, at.pad_y, at.dilation_y),
                        .x = channels_axis(p.in.w, p.out.w, at.stride_x, at.pad_x, at.dilation_x)};
  const ChannelsShape& s = config.shape;
  const int64_t vectors = ceil_div(p.out.c, s.vector);
  config.lanes = int(std::min<int64_t>(vectors, 32));
  for (int lanes = 32; vectors > 32 && lanes >= 16; --lanes)
    if (vectors % lanes == 0) {
      config.lanes = lanes;
      break;
    }
  config.chunks = ceil_div(vectors, config.lanes);
  const auto tiles = [](const ChannelsAxis& a, int outputs) {
    return ceil_div(a.out, outputs * int64_t(a.spread.divisor)) * a.spread.divisor;
  };
  const int64_t tiles_x = tiles(config.x, s.tx), tiles_y = tiles(config.y, s.ty);
  // The cost counts all pixels that a block reads and all sums that it computes, used or not.
  int64_t blocks_x = 1, blocks_y = 1;
  int threads_x = 1, threads_y = 1;
  for (int most = s.kh == 1 && p.out.h == 1 ? 128 : kChannelsThreads; most >= 64; most /= 2) {
    const int most_tiles = std::max(1, most / config.lanes);
    double best = 0;
    for (int count_x = 1; count_x <= most_tiles && count_x <= tiles_x; ++count_x) {
      const int count_y = int(std::min<int64_t>(most_tiles / count_x, tiles_y));
      const double bx = double(ceil_div(tiles_x, count_x)), by = double(ceil_div(tiles_y, count_y));
      const double read = double(count_x * s.tx * s.stride_x + s.kw - s.stride_x) *
                          double(count_y * s.ty * s.stride_y + s.kh - s.stride_y);
      const double cost = bx * by * (read / (s.stride_x * s.stride_y) + double(count_x * s.tx) * count_y * s.ty);
      if (best != 0 && cost >= best) continue;
      best = cost, threads_x = count_x, threads_y = count_y, blocks_x = int64_t(bx), blocks_y = int64_t(by);
    }
    if (config.chunks * blocks_x * blocks_y * p.out.n >= 2 * arch.multiprocessors) break;
  }
  config.x.threads = FastDivisor::of(unsigned(threads_x)), config.y.threads = FastDivisor::of(unsigned(threads_y));
  config.x.blocks = FastDivisor::of(unsigned(blocks_x)), config.y.blocks = FastDivisor::of(unsigned(blocks_y));
  config.blocks = config.chunks * blocks_x * blocks_y * p.out.n;
  return config;
}

inline const char* channels_refusal(const Depthwise& p, const Arch& arch) {
  const Placement& s = p.place;
  if (p.in.stride_c != 1 || p.out.stride_c != 1) return "channels are not innermost";
  if (p.kh * p.kw > 128) return "more than 128 taps";
  if (channels_step(s.stride_y, s.dilation_y) > 4 || channels_step(s.stride_x, s.dilation_x) > 4)
    return "strides beyond 4";
  constexpr int64_t most = 1 << 26;
  if (!below(most, {p.in.h, p.in.w, p.out.h, p.out.w, p.out.c, s.pad_y, s.pad_x, s.dilation_y * p.kh,
                    s.dilation_x * p.kw, s.stride_y * 64, s.stride_x * 64, s.stride_y * p.out.h, s.stride_x * p.out.w}))
    return "2^26 rows, columns or channels";
  const ChannelsConfig config = channels_config(p, arch);
  if (config.blocks >= kMostSide) return "2^30 blocks";
  const auto span = [&](const Image& image, int y, int x) {
    return (y * std::abs(image.stride_h) + x * std::abs(image.stride_w) + image.c) * size_of(image.dtype);
  };
  const auto pixels = [](const ChannelsAxis& a, int outputs, int window) {
    const int64_t end = (int64_t(a.threads.divisor) + a.spread.divisor) * outputs * a.spread.divisor;
    return std::pair(end, end * a.stride + window * a.dilation);
  };
  const auto [outputs_y, inputs_y] = pixels(config.y, config.shape.ty, config.shape.kh);
  const auto [outputs_x, inputs_x] = pixels(config.x, config.shape.tx, config.shape.kw);
  constexpr int64_t most_bytes = int64_t(1) << 31;
  return span(p.in, inputs_y, inputs_x) < most_bytes && span(p.out, outputs_y, outputs_x) < most_bytes
             ? nullptr
             : "pixels of a block 2^31 bytes apart";
}

inline void configure_channels(const Depthwise& p, const Arch& arch, Plan& plan) {
  const ChannelsConfig config = channels_config(p, arch);
  const ChannelsShape& s = config.shape;
  const int threads_x = int(config.x.threads.divisor), threads_y = int(config.y.threads.divisor);
  plan.why = "interleaved channels: lanes are channels, windows in registers";
  plan.tile_w = threads_x * s.tx;
  plan.tile_h = threads_y * s.ty;
  plan.threads = config.lanes * threads_x * threads_y;
  plan.shared_bytes = int(s.kh * s.kw * (config.lanes + 1) * s.vector * acc_bytes(p.in.dtype));
  plan.blocks = config.blocks;
  const TemplateArgument shape("depthwise::ChannelsShape",
                               {s.kh, s.kw, s.stride_y, s.stride_x, s.vector, s.tx, s.ty, s.ahead, s.resident});
  plan.kernels = {kernel_of("kernels/depthwise/channels/kernel.cuh", "depthwise::depthwise_channels",
                            {p.in.dtype, p.weights, shape, argument_of(p.activation)})};
  plan.config = config;
}

}  // namespace torch_conv::depthwise
