// What CHANNELS_ROWS' launch and kernel agree on.
#pragma once

#include "core/problem.h"
#include "core/tile.h"

namespace torch_conv::depthwise {

// A block's tile and a thread's share of it. A lane owns one channel.
struct ChannelsRows {
  int kw, stride_y, stride_x;
  int lanes;                 // along the channels
  int tx, ty;                // outputs of a thread
  int threads_x, threads_y;  // of a block
  int ahead;                 // rows on their way
  int resident;              // blocks an SM is to hold

  // One more than rows on their way: the oldest has landed, but not everybody has waited for it.
  constexpr int barriers() const { return ahead + 1; }
  constexpr int threads() const { return lanes * threads_x * threads_y; }
  constexpr int columns() const { return (threads_x * tx - 1) * stride_x + kw; }
  // Rows of pixels under one row of the windows of all the block's outputs, from the first to the last.
  constexpr int rows() const { return (threads_y * ty - 1) * stride_y + 1; }
  constexpr int ring_rows() const { return rows() + ahead; }
  constexpr int row_bytes(int size) const { return (columns() * lanes * size + 127) / 128 * 128; }
  // Shared memory: a ring of rows, two rows of taps, and a barrier for the first rows and for each one ahead.
  constexpr int taps_pitch() const { return lanes + 1; }
  constexpr int taps_at(int size) const { return ring_rows() * row_bytes(size); }
  constexpr int barriers_at(int size) const { return taps_at(size) + (2 * kw * taps_pitch() * 4 + 15) / 16 * 16; }
  constexpr int shared_bytes(int size) const { return barriers_at(size) + 8 * (1 + barriers()); }
};

struct ChannelsRowsArgs {
  const void *weight, *bias;
  void* out;
  int64_t out_n, out_h, out_w;  // strides in elements
  int c, h_out, w_out, pad_y, pad_x, kh;
  FastDivisor chunks, blocks_x, blocks_y;
};

}  // namespace torch_conv::depthwise
