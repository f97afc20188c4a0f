// The rows that windows over a plane read, by numbers: those of the plane from 0 on, and kPeers behind them the rows
// of the shards below and above. So a row's number says whether the row exists, and whether it is the plane's
// own.
#pragma once

#include "core/cuda/extend.cuh"

namespace torch_conv::box {

template <bool kPeers>
struct NumberedRows {
  std::conditional_t<kPeers, ShardRows, OwnRows> shards;

  // The rows of channel number `plane`, counted over all samples.
  static __device__ NumberedRows of(const PeerRows& peers, unsigned plane, unsigned channels) {
    if constexpr (kPeers) return {{peers, plane / channels, plane % channels}};
    else return {};
  }
  // Row i of the extended image; -1: outside.
  __device__ __forceinline__ int map(int i, int height, Border border) const {
    const int row = shards.map_row(i, height, border);
    if constexpr (kPeers) return row >= 0 ? row : row == PeerRows::kOutside ? -1 : row + height_of_shards(height);
    else return row;
  }
  // The start of row number `row` of the plane at `plane`.
  template <typename T>
  __device__ __forceinline__ const T* at(const T* plane, int64_t stride, int row, int height) const {
    if constexpr (kPeers)
      return shards.row(plane, stride, row < height + below() ? row : row - height_of_shards(height), height);
    else return plane + row * stride;
  }

 private:
  __device__ __forceinline__ int below() const { return int(shards.peers.below.rows); }
  __device__ __forceinline__ int height_of_shards(int height) const {
    return height + below() + int(shards.peers.above.rows);
  }
};

}  // namespace torch_conv::box
