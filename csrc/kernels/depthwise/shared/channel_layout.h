// Layouts that variants for interleaved channels serve.
#pragma once

#include "core/refusals.h"
#include "core/tma.h"

namespace torch_conv::depthwise {

// Every pixel of an image starts on `bytes`.
inline bool channels_start_on(const Image& x, int64_t bytes) {
  return rows_start_on({x.data, x.dtype, x.n, 1, 1, x.h, x.w, x.stride_n, 0, 0, x.stride_h, x.stride_w}, bytes) &&
         (x.w == 1 || x.stride_w * size_of(x.dtype) % bytes == 0);
}

// The image of a bulk copy: the channels are its rows, the pixels of a row its planes.
inline Image channels_as_rows(const Image& x) {
  return {x.data, x.dtype, x.n, x.h, 1, x.w, x.c, x.stride_n, x.stride_h, 0, x.stride_w, 1};
}

// Why bulk copies of rows of channels cannot serve a problem, or null.
inline const char* channels_bulk_refusal(const Depthwise& p, const Arch& arch) {
  const Placement& at = p.place;
  if (!arch.bulk_copy) return "no bulk copies";
  if (p.in.stride_c != 1 || p.out.stride_c != 1) return "channels are not innermost";
  if (p.multiplier() != 1) return "several windows for a channel";
  if (at.dilation_y != 1 || at.dilation_x != 1) return "dilation";
  if (at.stride_y > 4 || at.stride_x > 4) return "strides beyond 4";
  if (!tma::possible(channels_as_rows(p.in))) return "pixels not 16-byte aligned";
  constexpr int64_t most = 1 << 26;
  return below(most, {p.in.h, p.in.w, p.out.h, p.out.w, p.out.c, at.pad_y, at.pad_x})
             ? nullptr
             : "2^26 rows, columns or channels";
}

}  // namespace torch_conv::depthwise
