// CHANNELS_TMA: the template argument and the parameters of its kernel.
#pragma once

#include "core/problem.h"
#include "core/tile_order.h"

namespace torch_conv::depthwise {

// A kernel is compiled for each tile of a block and of a thread.
struct ChannelsBox {
  int kh, kw, stride_y, stride_x;
  int vector, lanes;         // channels of a lane, and lanes along the channels
  int tx, ty;                // outputs of a thread
  int threads_x, threads_y;  // of a block
  int resident;              // blocks of a multiprocessor
  bool streaming;            // a block also computes the tiles below

  constexpr int threads() const { return lanes * threads_x * threads_y; }
  constexpr int channels() const { return lanes * vector; }
  // Pixels that a block reads.
  constexpr int columns() const { return (threads_x * tx - 1) * stride_x + kw; }
  constexpr int rows() const { return (threads_y * ty - 1) * stride_y + kh; }
  constexpr int row_bytes(int size) const { return (columns() * channels() * size + 127) / 128 * 128; }
  // From a tile to the next one below.
  constexpr int next_rows() const { return threads_y * ty * stride_y; }
  // Shared memory: a ring of rows, the taps in the layout of device memory, and two barriers.
  constexpr int ring_rows() const { return streaming ? rows() + next_rows() : rows(); }
  constexpr int taps_bytes(int weight) const { return kh * kw * channels() * weight; }
  constexpr int taps_at(int size) const { return ring_rows() * row_bytes(size); }
  constexpr int barriers_at(int size, int weight) const { return taps_at(size) + (taps_bytes(weight) + 15) / 16 * 16; }
  constexpr int shared_bytes(int size, int weight) const { return barriers_at(size, weight) + 16; }
};

struct ChannelsTmaArgs {
  const void *weight, *bias;
  void* out;
  int64_t out_n, out_h, out_w;  // strides in elements
  int c, h_out, w_out, pad_y, pad_x;
  int tiles, steps;  // in all, and of a block
  bool bulk_taps;    // the windows of a block are whole vectors of 16 bytes
  FastDivisor chunks, blocks_x, tiles_y;
};

}  // namespace torch_conv::depthwise
