// The rows of a shard's peers as kernels address them. For volumes that are cut along d, rows are planes and `h` is d.
#pragma once

#include <climits>

#include "core/border.h"
#include "core/problem.h"

namespace torch_conv {

// Addresses and strides of `Peers`, which hold whole images.
struct PeerRows {
  static constexpr int kOutside = INT_MIN;  // the number of a row outside of all shards

  struct Side {
    const void* data;  // of row 0 in this image's numbering; null where the whole image ends
    int64_t n, c, h;   // strides
    int64_t rows;

    // `x` holds `rows` rows, `stride` elements apart, from row `first` on in this image's numbering.
    static Side of(const Image& x, int64_t first, int64_t rows, int64_t stride) {
      if (!x.data) return {};
      return {static_cast<const char*>(x.data) - first * stride * size_of(x.dtype), x.stride_n, x.stride_c, stride,
              rows};
    }
  };
  Side above, below;

  static PeerRows of(const Peers& peers, const Image& in) {
    const auto &above = peers.above, &below = peers.below;
    return {Side::of(above, -above.h, above.h, above.stride_h), Side::of(below, in.h, below.h, below.stride_h)};
  }
  static PeerRows of_planes(const Peers& peers, const Image& in) {
    const auto &above = peers.above, &below = peers.below;
    return {Side::of(above, -above.d, above.d, above.stride_d), Side::of(below, in.d, below.d, below.stride_d)};
  }

  TC_HD bool holds(int64_t i, int64_t h) const { return i < 0 ? i >= -above.rows : i >= h && i < h + below.rows; }
  // Whether rows first .. last are inside the whole image.
  TC_HD bool inside(int64_t first, int64_t last, int64_t h) const {
    return first >= -above.rows && last < h + below.rows;
  }
  // The row of this image or of a peer that row i stands for, or kOutside.
  template <typename I>
  TC_HD I map_row(I i, I h, Border border) const {
    if (holds(i, h)) return i;
    const I m = map_index(i, h, border);
    return m < 0 ? I(kOutside) : m;
  }
  // The address of row m (not kOutside) of channel c of sample n, whose plane in this image is `plane`.
  template <typename T>
  TC_HD const T* row(const T* plane, int64_t stride_h, int64_t m, int64_t h, int64_t n, int64_t c) const {
    if (m >= 0 && m < h) return plane + m * stride_h;
    const Side& side = m < 0 ? above : below;
    return static_cast<const T*>(side.data) + n * side.n + c * side.c + m * side.h;
  }
};

}  // namespace torch_conv
