// CHANNELS_TMA: interleaved channels, through shared memory.
#pragma once

#include "kernels/depthwise/channels_tma/params.h"
#include "kernels/depthwise/config.h"
#include "kernels/depthwise/shared/channel_layout.h"

namespace torch_conv::depthwise {

void launch_channels_tma(const Depthwise& p, const Plan& plan, const Site& site);

struct ChannelsTmaConfig {
  ChannelsBox box;
  int64_t chunks, blocks_x, tiles_y, tiles, steps;  // tiles in all, and of a block
  int64_t blocks() const { return ceil_div(tiles, steps); }
};

// The lanes of a block: a divisor of a pixel's vectors leaves none idle. `whole` lanes fill 16 bytes. The more channels
// of a pixel a block takes, the longer are its copies. Measured on one NVIDIA H200, float16 3x3:
//
//     64x144x56x56              24 lanes of 72 41.7 us, 72 lanes 38.4
//     64x96x112x112, stride 2   16 lanes of 48 58.7 us, 48 lanes 51.6
//
inline int channels_lanes(int64_t vectors, int most, int lane_multiple) {
  if (vectors <= most) return int(round_up(vectors, lane_multiple));
  for (int lanes = most / lane_multiple * lane_multiple; lanes >= 12; lanes -= lane_multiple)
    if (vectors % lanes == 0) return lanes;
  return 32;
}

// A thread's outputs along x: the widest tiles that cover a row with the fewest idle columns.
inline int channels_across(int64_t w) {
  if (w <= 4) return 4;
  return round_up(w, 7) <= round_up(w, 8) ? 7 : 8;
}

// The shape of a block for a kind of window. The registers of a thread limit the blocks of a multiprocessor.
struct ChannelsKind {
  int bytes;       // of a lane's channels
  int most_lanes;  // along the channels
  int tx, ty;      // outputs of a thread
  int most_x;      // threads of a block along x
  int threads;     // of a block
  int registers;   // of a thread
  bool streaming = false;
};

// Signals. us, here and below on one NVIDIA H200:
//
//     bfloat16 16x2048x4096    4 taps   8 bytes a lane 130-132, 4 bytes 137-146
//     float16  64x768x1024     7 taps   8 bytes a lane 52.5, 4 bytes 55.5
//                             31 taps   16 outputs of 4 bytes 86, 32 outputs of 2 bytes 98
//
inline ChannelsKind channels_signal_kind(int taps) {
  if (taps > 9)
    return {.bytes = taps <= 31 ? 4 : 2,
            .most_lanes = 32,
            .tx = 16,
            .ty = 1,
            .most_x = 64,
            .threads = 128,
            .registers = 128};
  return {.bytes = taps <= 7 ? 8 : 4,
          .most_lanes = 32,
          .tx = 8,
          .ty = 1,
          .most_x = 64,
          .threads = 128,
          .registers = taps <= 4 ? 64 : 96};
}

// Images with strides, us at 64x96x112x112:
//
//     float16  3x3   whole pixels of 8 bytes a lane 50-51, of 4 bytes 51-52, 16 lanes of 4 bytes 59-61
//     float16  5x5   whole pixels of 4 bytes a lane 57-58, 16 lanes 65-79
//     float32  3x3   92-95 with any
//
inline ChannelsKind channels_strided_kind(int taps, bool half) {
  if (taps <= 9 && half)
    return {.bytes = 8, .most_lanes = 36, .tx = 4, .ty = 2, .most_x = 2, .threads = 128, .registers = 96};
  return {.bytes = taps <= 49 ? 4
                   : half     ? 2
                              : 4,
          .most_lanes = half ? 72 : 32,
          .tx = 4,
          .ty = 2,
          .most_x = half ? 2 : 1,
          .threads = 128,
          .registers = taps <= 25   ? 80
                       : taps <= 49 ? 168
                                    : 248};
}

// Images, us at 64x96x56x56:
//
//     float32  3x3   8x2 outputs a thread 42-43, 7x4 43-46
//              5x5   28x4 outputs a block 49-50, 14x8 51, 7x16 57, streaming 51-58
//              7x7   28x4 streaming 62, 28x8 63-66, 14x8 67-72, not streaming 71-78
//              9x9   56x2 streaming 88, 28x4 96, not streaming 107
//     float16  3x3   28x4 of 16 lanes 25.5, 14x8 26.3-27, whole pixels 26.3
//              5x5   7x4 outputs a thread 39-42, 7x2 41-43, streaming 42-45
//              7x7   7x2 outputs of 4 bytes streaming 58, not streaming 64, of 2 bytes 67-86
//
inline ChannelsKind channels_kind(int taps, bool half, int64_t h, int64_t w) {
  const bool small = h <= 14 && w <= 14;
  const int tx = channels_across(w);
  if (taps <= 9 && small)
    return {.bytes = 4,
            .most_lanes = 32,
            .tx = tx,
            .ty = w > 8 && h > 4 ? 7 : 4,
            .most_x = 2,
            .threads = 64,
            .registers = 96};
  if (taps <= 9)
    return {.bytes = 4,
            .most_lanes = half ? 72 : 32,
            .tx = tx,
            .ty = 2,
            .most_x = half ? 4 : 2,
            .threads = 128,
            .registers = half ? 80 : 64};
  if (taps <= 25)
    return {.bytes = 4,
            .most_lanes = half && w > 8 ? 40 : 32,
            .tx = tx,
            .ty = !half   ? 4
                  : w > 8 ? 4
                          : 2,
            .most_x = half ? 2 : 4,
            .threads = 128,
            .registers = !half   ? 80
                         : w > 8 ? 128
                                 : 96};
  if (taps <= 49 && !half)
    return {.bytes = 4,
            .most_lanes = 32,
            .tx = tx,
            .ty = 4,
            .most_x = 4,
            .threads = 128,
            .registers = 128,
            .streaming = true};
  return {.bytes = taps <= 49 || !half ? 4 : 2,
          .most_lanes = half && w > 8 ? 40 : 32,
          .tx = 7,
          .ty = 2,
          .most_x = 8,
          .threads = taps > 49 && taps <= 81 ? 256 : 128,
          .registers = taps <= 49   ? 168
                       : taps <= 81 ? 128
                                    : 248,
          .streaming = true};
}

inline ChannelsTmaConfig channels_tma_config(const Depthwise& p, const Arch& arch) {
  const int size = size_of(p.in.dtype), taps = int(p.kh * p.kw);
  ChannelsBox s{.kh = int(p.kh), .kw = int(p.kw), .stride_y = int(p.place.stride_y), .stride_x = int(p.place.stride_x)};
  const bool strides = s.stride_y > 1 || s.stride_x > 1, row = p.out.h == 1, half = size == 2;
  const ChannelsKind kind = row       ? channels_signal_kind(taps)
                            : strides ? channels_strided_kind(taps, half)
                                      : channels_kind(taps, half, p.out.h, p.out.w);
  s.vector = std::max(1, kind.bytes / size);
  while (s.vector > 1 && (p.out.c % s.vector != 0 || !channels_start_on(p.out, s.vector * size))) s.vector /= 2;
  const int64_t vectors = ceil_div(p.out.c, s.vector);
  // 16 lanes of 4 bytes are as fast as whole pixels, and leave more threads for the tile.
  const bool sixteen = half && s.vector == 2 && vectors % 16 == 0 && !strides && !row && p.out.w > 8;
  s.lanes = sixteen ? 16 : channels_lanes(vectors, kind.most_lanes, std::max(1, 16 / (size * s.vector)));
  s.tx = kind.tx, s.ty = kind.ty, s.streaming = kind.streaming;
  int threads = kind.threads, most_x = kind.most_x;
  if (s.lanes > 32) threads = std::max(threads, s.lanes * (taps > 9 || strides ? 4 : 2));
  // Outputs of a thread, float16 3x3 64x144x56x56, lanes on whole pixels, us: 8x4 38.4, 7x4 41.8.
  if (s.lanes > 36 && !strides) most_x = 1, s.tx = taps <= 9 ? 8 : s.tx;
  // Outputs of a thread, float16 5x5 64x240x28x28, 40 lanes, us: 7x2 28, 7x4 32.
  if (half && taps > 9 && taps <= 25 && !strides && !row && !sixteen) s.ty = 2;
  const int most_tiles = std::max(1, threads / s.lanes);
  s.threads_x = int(std::min<int64_t>({ceil_div(p.out.w, s.tx), int64_t(most_x), int64_t(most_tiles)}));
  s.threads_y = int(std::min<int64_t>(ceil_div(p.out.h, s.ty), most_tiles / s.threads_x));
  const auto tiles = [&] {
    return ceil_div(p.out.c, s.channels()) * ceil_div(p.out.w, s.threads_x * s.tx) *
           ceil_div(p.out.h, s.threads_y * s.ty) * p.out.n;
  };
  // Small images and batches take smaller tiles and blocks, so that every multiprocessor has a block. float16 3x3
  // 1x96x56x56, us: 240 threads 4.1, 64 threads 2.6.
  if (tiles() < arch.multiprocessors && s.ty > 2) {
    s.ty = 2, s.streaming = false;
    s.threads_y = int(std::min<int64_t>(ceil_div(p.out.h, s.ty), most_tiles / s.threads_x));
  }
  while (tiles() < 2 * arch.multiprocessors && s.threads() > 64 && s.threads_x * s.threads_y > 1) {
    (s.threads_y > 1 ? s.threads_y : s.threads_x) /= 2;
    s.streaming = false;
  }
  const auto shared = [&] { return s.shared_bytes(size, size_of(p.weights)); };
  while (shared() > arch.shared_bytes / 2 && s.threads_x * s.threads_y > 1)
    (s.threads_y > 1 ? s.threads_y : s.threads_x) /= 2;
  s.resident = std::max(1, 65536 / kind.registers / int(round_up(s.threads(), 32)));
  ChannelsTmaConfig config{s, ceil_div(p.out.c, s.channels()), ceil_div(p.out.w, s.threads_x * s.tx),
                           ceil_div(p.out.h, s.threads_y * s.ty)};
  config.tiles = config.chunks * config.blocks_x * config.tiles_y * p.out.n;
  const int64_t fit = (arch.shared_bytes + 1024) / (shared() + 1024);
  const int64_t slots = arch.multiprocessors * std::max<int64_t>(1, std::min<int64_t>(s.resident, fit));
  config.steps = s.streaming ? ceil_div(config.tiles, slots) : 1;
  return config;
}

// True if one bulk copy can load the windows of a block.
inline bool channels_tma_bulk_taps(const Depthwise& p, const ChannelsBox& s) {
  const int64_t window = p.kh * p.kw * size_of(p.weights);
  return reinterpret_cast<uintptr_t>(p.weight) % 16 == 0 && s.channels() * window % 16 == 0 &&
         p.out.c * window % 16 == 0;
}

inline const char* channels_tma_refusal(const Depthwise& p, const Arch& arch) {
  if (const char* no = channels_bulk_refusal(p, arch)) return no;
  if (p.kh * p.kw > 81) return "more than 81 taps";
  const ChannelsTmaConfig config = channels_tma_config(p, arch);
  if (config.tiles >= kMostSide) return "2^30 tiles";
  return config.box.shared_bytes(size_of(p.in.dtype), size_of(p.weights)) <= arch.shared_bytes &&
                 config.box.columns() <= 256
             ? nullptr
             : "a tile beyond shared memory";
}

inline void configure_channels_tma(const Depthwise& p, const Arch& arch, Plan& plan) {
  const ChannelsTmaConfig config = channels_tma_config(p, arch);
  const ChannelsBox& s = config.box;
  plan.why = "interleaved channels: a tile by bulk copies, lanes are channels";
  plan.tile_w = s.threads_x * s.tx;
  plan.tile_h = s.threads_y * s.ty;
  plan.threads = s.threads();
  plan.shared_bytes = s.shared_bytes(size_of(p.in.dtype), size_of(p.weights));
  plan.blocks = config.blocks();
  const TemplateArgument box("depthwise::ChannelsBox", {s.kh, s.kw, s.stride_y, s.stride_x, s.vector, s.lanes, s.tx,
                                                        s.ty, s.threads_x, s.threads_y, s.resident, s.streaming});
  plan.kernels = {kernel_of("kernels/depthwise/channels_tma/kernel.cuh", "depthwise::depthwise_channels_tma",
                            {p.in.dtype, p.weights, box, argument_of(p.activation)})};
  plan.config = config;
}

}  // namespace torch_conv::depthwise
