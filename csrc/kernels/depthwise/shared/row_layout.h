// Layouts that variants for signals serve.
#pragma once

#include "core/refusals.h"

namespace torch_conv::depthwise {

// Why variants for signals, which are images of one row, cannot serve a problem, or null.
inline const char* rows_layout_refusal(const Depthwise& p) {
  if (p.in.h != 1 || p.out.h != 1 || p.kh != 1) return "more than one row an image";
  if (p.place.pad_y != 0) return "padding above and below";
  if ((p.in.stride_w != 1 && p.in.w > 1) || (p.out.stride_w != 1 && p.out.w > 1))
    return "pixels of a row are not contiguous";
  if (!below(kMostSide, {p.in.w + p.place.pad_x, p.out.w})) return "2^30 columns";
  if (p.out.n * p.out.c >= int64_t(1) << 31) return "2^31 rows";
  return nullptr;
}

}  // namespace torch_conv::depthwise
