// Copies a problem's taps into the parameters of a launch.
#pragma once

#include <cstring>

#include "kernels/separable2d/shared/taps.h"

namespace torch_conv::separable2d {

// Bytes of host taps from the first window's first tap to the last window's last one.
inline int64_t host_bytes(const Separable& p, const Taps& taps, int64_t k) {
  if (!taps.on_host) return 0;
  return ((p.out.n - 1) * taps.stride_n + (p.out.c - 1) * taps.stride_c + k) * acc_bytes(p.in.dtype);
}

// Windows of the host are contiguous, each aligned to 16 bytes. A pass whose flag is false has no taps.
inline PassTaps pass_taps(const Separable& p, bool row_pass, bool column_pass) {
  PassTaps t{};
  int64_t used = 0;
  auto window = [&](const Taps& taps, int64_t k) {
    const int64_t bytes = host_bytes(p, taps, k);
    const int start = int(used);
    if (taps.on_host) std::memcpy(t.bytes + start, taps.data, bytes);
    used = round_up(used + bytes, 16);
    return PassTaps::Pass{taps.on_host ? nullptr : taps.data, start, taps.stride_n, taps.stride_c};
  };
  if (row_pass) t.x = window(p.taps_x, p.kw);
  if (column_pass) t.y = window(p.taps_y, p.kh);
  return t;
}

}  // namespace torch_conv::separable2d
