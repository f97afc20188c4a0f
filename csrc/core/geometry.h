// The images and volumes of a launch in a kernel's parameters: addresses, strides in elements, sizes. Rows are dense.
#pragma once

#include "core/problem.h"

namespace torch_conv {

struct PlaneGeometry {
  const void* in;
  void* out;
  int64_t in_stride_n, in_stride_c, in_stride_h;
  int64_t out_stride_n, out_stride_c, out_stride_h;
  int in_h, in_w, out_h, out_w;

  static PlaneGeometry of(const Image& in, const Image& out) {
    return {in.data,      out.data,     in.stride_n, in.stride_c, in.stride_h, out.stride_n,
            out.stride_c, out.stride_h, int(in.h),   int(in.w),   int(out.h),  int(out.w)};
  }

  // Channel c of sample n.
  template <typename T, typename I>
  TC_HD const T* in_plane(I n, I c) const {
    return static_cast<const T*>(in) + n * in_stride_n + c * in_stride_c;
  }
  template <typename T, typename I>
  TC_HD T* out_plane(I n, I c) const {
    return static_cast<T*>(out) + n * out_stride_n + c * out_stride_c;
  }
  template <typename T, typename I>
  TC_HD T* out_at(I n, I c, int y, int x) const {
    return out_plane<T>(n, c) + y * out_stride_h + x;
  }
};

struct VolumeGeometry {
  const void* in;
  void* out;
  int64_t in_stride_n, in_stride_c, in_stride_d, in_stride_h;
  int64_t out_stride_n, out_stride_c, out_stride_d, out_stride_h;
  int in_d, in_h, in_w, out_d, out_h, out_w;

  static VolumeGeometry of(const Image& in, const Image& out) {
    return {in.data,      out.data,     in.stride_n, in.stride_c, in.stride_d, in.stride_h, out.stride_n, out.stride_c,
            out.stride_d, out.stride_h, int(in.d),   int(in.h),   int(in.w),   int(out.d),  int(out.h),   int(out.w)};
  }

  // Channel c of sample n.
  template <typename T, typename I>
  TC_HD const T* in_volume(I n, I c) const {
    return static_cast<const T*>(in) + n * in_stride_n + c * in_stride_c;
  }
  template <typename T, typename I>
  TC_HD T* out_volume(I n, I c) const {
    return static_cast<T*>(out) + n * out_stride_n + c * out_stride_c;
  }
};

}  // namespace torch_conv
