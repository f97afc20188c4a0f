// CHANNELS_ROWS: interleaved channels and large windows.
#pragma once

#include "kernels/depthwise/channels_rows/params.h"
#include "kernels/depthwise/config.h"
#include "kernels/depthwise/shared/channel_layout.h"

namespace torch_conv::depthwise {

void launch_channels_rows(const Depthwise& p, const Plan& plan, const Site& site);

struct ChannelsRowsConfig {
  ChannelsRows rows;
  int64_t chunks, blocks_x, blocks_y;
  int64_t blocks() const { return chunks * blocks_x * blocks_y; }
};

inline ChannelsRowsConfig channels_rows_config(const Depthwise& p, const Arch&) {
  const int size = size_of(p.in.dtype);
  ChannelsRows s{.kw = int(p.kw), .stride_y = int(p.place.stride_y), .stride_x = int(p.place.stride_x)};
  s.lanes = 32;
  s.tx = p.out.w <= 8 ? 8 : 16;
  s.ty = 2;
  s.threads_x = p.out.w > s.tx && p.out.w % (2 * s.tx) != 1 ? 2 : 1;
  s.threads_y = int(std::min<int64_t>(8 / s.threads_x, ceil_div(p.out.h, s.ty)));
  s.ahead = 4;
  s.resident = 2;
  while (s.threads_y > 1 && s.resident * (s.shared_bytes(size) + 1024) > 227 * 1024) s.threads_y /= 2;
  return {s, ceil_div(p.out.c, s.lanes), ceil_div(p.out.w, s.threads_x * s.tx), ceil_div(p.out.h, s.threads_y * s.ty)};
}

inline const char* channels_rows_refusal(const Depthwise& p, const Arch& arch) {
  if (const char* no = channels_bulk_refusal(p, arch)) return no;
  if (p.kw > 64) return "more than 64 taps in a row";
  const ChannelsRowsConfig config = channels_rows_config(p, arch);
  if (config.blocks() * p.out.n >= kMostSide) return "2^30 blocks";
  return config.rows.shared_bytes(size_of(p.in.dtype)) <= arch.shared_bytes && config.rows.columns() <= 256
             ? nullptr
             : "a tile beyond shared memory";
}

inline void configure_channels_rows(const Depthwise& p, const Arch& arch, Plan& plan) {
  const ChannelsRowsConfig config = channels_rows_config(p, arch);
  const ChannelsRows& s = config.rows;
  plan.why = "interleaved channels: window row after window row over a ring of rows, lanes are channels";
  plan.tile_w = s.threads_x * s.tx;
  plan.tile_h = s.threads_y * s.ty;
  plan.threads = s.threads();
  plan.shared_bytes = s.shared_bytes(size_of(p.in.dtype));
  plan.blocks = config.blocks() * p.out.n;
  const TemplateArgument rows("depthwise::ChannelsRows", {s.kw, s.stride_y, s.stride_x, s.lanes, s.tx, s.ty,
                                                          s.threads_x, s.threads_y, s.ahead, s.resident});
  plan.kernels = {kernel_of("kernels/depthwise/channels_rows/kernel.cuh", "depthwise::depthwise_channels_rows",
                            {p.in.dtype, p.weights, rows, argument_of(p.activation)})};
  plan.config = config;
}

}  // namespace torch_conv::depthwise
