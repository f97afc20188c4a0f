// CHANNELS: depthwise 3x3x3 windows over volumes whose channels are innermost (channels_last_3d). Numbers only.
#pragma once

#include <algorithm>

#include "core/rooms.h"

namespace torch_conv::direct3d {

// A block holds 64 bytes of channels, 4 bytes a lane, and 8 x 8 voxels of a plane: 2 runs of 4 columns by 4 pairs of
// rows, with 16 lanes each.
constexpr int kChannelsLanes = 16, kChannelsWidth = 8, kChannelsHeight = 8, kChannelsThreads = 128;
constexpr int kChannelsColumns = kChannelsWidth + 2, kChannelsRows = kChannelsHeight + 2;  // with the halo
// A voxel is 64 bytes; 32 bytes behind each row let a warp's two pairs of rows lie in different banks.
constexpr int kChannelsPitch = kChannelsColumns * 64 + 32, kChannelsStage = kChannelsRows * kChannelsPitch;
constexpr int kChannelsStages = 4;
// 54 taps and 40 sums of a lane of 16-bit channels need 168 registers, a lane of one float32 channel half of that.
constexpr int channels_resident(int bytes) { return bytes == 4 ? 5 : 3; }

inline bool channels_layout(const Image& x) {
  const int64_t size = size_of(x.dtype);
  auto aligned = [&](int64_t stride, int64_t count) { return count == 1 || stride * size % 16 == 0; };
  return x.stride_c == 1 && aligned(x.stride_w, x.w) && aligned(x.stride_h, x.h) && aligned(x.stride_d, x.d) &&
         aligned(x.stride_n, x.n) && reinterpret_cast<uintptr_t>(x.data) % 16 == 0 &&
         (x.h * x.stride_h + x.w * x.stride_w + x.c) * size < (int64_t(1) << 31);
}

inline bool channels_serves(const Direct& p, const Arch& arch) {
  const Placement& s = p.place;
  auto near = [](int64_t in, int64_t out, int64_t pad) { return pad >= 0 && pad < 3 && out - pad <= in; };
  if (arch.major < 8 || p.kd != 3 || p.kh != 3 || p.kw != 3) return false;
  if (p.in.c != p.groups || p.out.c != p.in.c || p.in.dtype != p.out.dtype) return false;
  if (p.in.dtype != Dtype::f32 && p.in.dtype != Dtype::f16 && p.in.dtype != Dtype::bf16) return false;
  if (p.in.c * size_of(p.in.dtype) % 16 != 0) return false;
  if (s.stride_z != 1 || s.stride_y != 1 || s.stride_x != 1 || s.dilation_z != 1 || s.dilation_y != 1 ||
      s.dilation_x != 1)
    return false;
  if (!near(p.in.d, p.out.d, s.pad_z) || !near(p.in.h, p.out.h, s.pad_y) || !near(p.in.w, p.out.w, s.pad_x))
    return false;
  if (s.border == Border::skip || s.border == Border::zero_output ||
      (s.border == Border::constant && !holds(p.in.dtype, s.value)))
    return false;
  const int64_t most = 1 << 28;
  return channels_layout(p.in) && channels_layout(p.out) && p.in.d < most && p.in.h < most && p.in.w < most &&
         p.out.d < most && p.out.h < most && p.out.w < most && p.in.c < most;
}

inline void plan_channels(const Direct& p, const Arch& arch, Plan& plan) {
  const int bytes = size_of(p.in.dtype);
  const int64_t tiles =
      p.out.n * ceil_div(p.out.c * bytes, 64) * ceil_div(p.out.h, kChannelsHeight) * ceil_div(p.out.w, kChannelsWidth);
  // Arithmetic binds, so what counts is the planes that the fullest multiprocessor computes; a block reads two more
  // than it writes and waits for the first, and one block alone leaves a multiprocessor waiting (2x32x64^3 float16,
  // chunks of 64 / 32 / 22 / 16 / 8 planes on one NVIDIA H200: 39.4 / 33.7 / 35.4 / 38.0 / 41.9 us).
  int64_t chunk = p.out.d, best = 0;
  for (int64_t chunks = 1; chunks <= std::min<int64_t>(p.out.d, 32); ++chunks) {
    const int64_t c = ceil_div(p.out.d, chunks), blocks = tiles * ceil_div(p.out.d, c);
    const int64_t cost = ceil_div(blocks, arch.multiprocessors) * (c + 3) * (blocks <= arch.multiprocessors ? 6 : 5);
    if (best == 0 || cost < best) chunk = c, best = cost;
  }
  plan.variant = "channels";
  plan.why = "3^3 window, channels innermost: lanes are channels, sums march along z in registers";
  plan.tile_w = kChannelsWidth;
  plan.tile_h = kChannelsHeight;
  plan.tile_d = int(chunk);
  plan.threads = kChannelsThreads;
  plan.shared_bytes = kChannelsStages * kChannelsStage;
  plan.blocks = tiles * ceil_div(p.out.d, chunk);
}

}  // namespace torch_conv::direct3d
