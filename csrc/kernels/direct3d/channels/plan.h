// The volumes that `channels` serves, and its plan.
#pragma once

#include "kernels/direct3d/channels/params.h"
#include "kernels/direct3d/config.h"

namespace torch_conv::direct3d {

void launch_channels(const Direct& p, const Plan& plan, const Site& site);

inline bool channels_layout(const Image& x) {
  const int64_t size = size_of(x.dtype);
  auto aligned = [&](int64_t stride, int64_t count) { return count == 1 || stride * size % 16 == 0; };
  return x.stride_c == 1 && aligned(x.stride_w, x.w) && aligned(x.stride_h, x.h) && aligned(x.stride_d, x.d) &&
         aligned(x.stride_n, x.n) && reinterpret_cast<uintptr_t>(x.data) % 16 == 0 &&
         (x.h * x.stride_h + x.w * x.stride_w + x.c) * size < (int64_t(1) << 31);
}

inline const char* channels_refusal(const Direct& p, const Arch& arch) {
  const Placement& s = p.place;
  if (arch.major < 8) return "no asynchronous copies";
  if (const char* no = depthwise_refusal(p)) return no;
  if (p.out.c != p.in.c) return "several windows for a channel";
  if (p.in.c * size_of(p.in.dtype) % 16 != 0) return "channels that do not fill 16 bytes";
  if (!near(p.in.d, p.out.d, 3, s.pad_z) || !near(p.in.h, p.out.h, 3, s.pad_y) || !near(p.in.w, p.out.w, 3, s.pad_x))
    return "windows that lie outside the volume altogether";
  if (!channels_layout(p.in) || !channels_layout(p.out)) return "channels not interleaved and 16-byte aligned";
  const int64_t most = 1 << 28;
  return sides_below(most, p) && p.in.c < most ? nullptr : "2^28 planes, rows, columns or channels";
}

inline void configure_channels(const Direct& p, const Arch& arch, Plan& plan) {
  const int bytes = size_of(p.in.dtype);
  const int64_t tiles =
      p.out.n * ceil_div(p.out.c * bytes, 64) * ceil_div(p.out.h, kChannelsHeight) * ceil_div(p.out.w, kChannelsWidth);
  // Arithmetic limits the speed: the cost is the most planes that one multiprocessor computes. A block reads two planes
  // more than it writes, and waits for the first. One block alone leaves a multiprocessor waiting. 2x32x64^3 float16,
  // one NVIDIA H200:
  //
  //     planes of a chunk    64    32    22    16     8
  //     us                 39.4  33.7  35.4  38.0  41.9
  //
  int64_t chunk = p.out.d, best = 0;
  for (int64_t chunks = 1; chunks <= std::min<int64_t>(p.out.d, 32); ++chunks) {
    const int64_t c = ceil_div(p.out.d, chunks), blocks = tiles * ceil_div(p.out.d, c);
    const int64_t cost = ceil_div(blocks, arch.multiprocessors) * (c + 3) * (blocks <= arch.multiprocessors ? 6 : 5);
    if (best == 0 || cost < best) chunk = c, best = cost;
  }
  plan.why = "3^3 window, interleaved channels: lanes are channels, blocks stream along z";
  plan.tile_w = kChannelsWidth;
  plan.tile_h = kChannelsHeight;
  plan.tile_d = int(chunk);
  plan.threads = kChannelsThreads;
  plan.shared_bytes = kChannelsStages * kChannelsStage;
  plan.blocks = tiles * ceil_div(p.out.d, chunk);
  plan.kernels = {kernel_of("kernels/direct3d/channels/kernel.cuh", "direct3d::direct3d_channels", {p.in.dtype})};
}

}  // namespace torch_conv::direct3d
