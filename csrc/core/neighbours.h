// The rows of other shards above and below an image that is a shard itself, read where they lie. Of volumes cut along d
// they are planes: what is said of rows and of h here is then true of planes and of d.
#pragma once

#include <climits>

#include "core/border.h"
#include "core/problem.h"

namespace torch_conv {

struct Neighbours {
  static constexpr int kOutside = INT_MIN;  // of all shards: no row stands there

  struct Side {
    const void* data;  // row i in this image's numbering lies i * h further; null where the whole image ends
    int64_t n, c, h;
    int64_t rows;  // that stand there

    // `x` holds `rows` rows, `stride` elements apart, from row `first` on in this image's numbering.
    static Side of(const Image& x, int64_t first, int64_t rows, int64_t stride) {
      if (!x.data) return {};
      return {static_cast<const char*>(x.data) - first * stride * size_of(x.dtype), x.stride_n, x.stride_c, stride,
              rows};
    }
  };
  Side above, below;

  static Neighbours of(const Peers& peers, const Image& in) {
    const auto &above = peers.above, &below = peers.below;
    return {Side::of(above, -above.h, above.h, above.stride_h), Side::of(below, in.h, below.h, below.stride_h)};
  }
  static Neighbours of_planes(const Peers& peers, const Image& in) {
    const auto &above = peers.above, &below = peers.below;
    return {Side::of(above, -above.d, above.d, above.stride_d), Side::of(below, in.d, below.d, below.stride_d)};
  }

  TC_HD bool holds(int64_t i, int64_t h) const { return i < 0 ? i >= -above.rows : i >= h && i < h + below.rows; }
  // Are rows first .. last inside the image, in whichever shard?
  TC_HD bool inside(int64_t first, int64_t last, int64_t h) const {
    return first >= -above.rows && last < h + below.rows;
  }
  // Where row i is read: in this image or beside it, or kOutside.
  template <typename I>
  TC_HD I map_row(I i, I h, Border border) const {
    if (holds(i, h)) return i;
    const I m = map_index(i, h, border);
    return m < 0 ? I(kOutside) : m;
  }
  // Row m (not kOutside) of the plane of channel c of sample n, which is `plane` in this image.
  template <typename T>
  TC_HD const T* row(const T* plane, int64_t stride_h, int64_t m, int64_t h, int64_t n, int64_t c) const {
    if (m >= 0 && m < h) return plane + m * stride_h;
    const Side& side = m < 0 ? above : below;
    return static_cast<const T*>(side.data) + n * side.n + c * side.c + m * side.h;
  }
};

}  // namespace torch_conv
