// CHANNELS_ROWS: the template argument and the parameters of its kernel.
#pragma once

#include "core/problem.h"
#include "core/tile_order.h"

namespace torch_conv::depthwise {

// A kernel is compiled for each tile of a block and of a thread. A lane computes one channel.
struct ChannelsRows {
  int kw, stride_y, stride_x;
  int lanes;                 // along the channels
  int tx, ty;                // outputs of a thread
  int threads_x, threads_y;  // of a block
  int ahead;                 // rows in flight
  int resident;              // blocks of a multiprocessor

  // One more than rows in flight: the oldest row has arrived, but some threads have not waited for it yet.
  constexpr int barriers() const { return ahead + 1; }
  constexpr int threads() const { return lanes * threads_x * threads_y; }
  constexpr int columns() const { return (threads_x * tx - 1) * stride_x + kw; }
  // Rows of pixels that one row of the windows of all the block's outputs needs.
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
