// The two windows of a launch: in device memory, or copied into the kernel's parameters.
#pragma once

#include <cstring>

#include "separable2d/plan.h"

namespace torch_conv::separable2d {

// A kernel takes it inside a `const __grid_constant__` parameter, so that a generic pointer may reach `bytes`.
struct PassTaps {
  struct Window {
    const void* device;  // null: the taps stand in `bytes`, from `start` on
    int start;
    int64_t stride_n, stride_c;
  };
  Window x, y;
  alignas(16) unsigned char bytes[2 * kInlineTapBytes];

  template <typename A>
  __device__ const A* of(const Window& window, int64_t n, int64_t c) const {
    const void* first = window.device ? window.device : bytes + window.start;
    return static_cast<const A*>(first) + n * window.stride_n + c * window.stride_c;
  }
};

// A pass that is not named stays without taps.
inline PassTaps pass_taps(const Separable& p, bool row_pass, bool column_pass) {
  PassTaps t{};
  int64_t used = 0;
  auto window = [&](const Taps& taps, int64_t k) {
    const int64_t bytes = host_bytes(p, taps, k);
    const int start = int(used);
    if (taps.on_host) std::memcpy(t.bytes + start, taps.data, bytes);
    used = round_up(used + bytes, 16);
    return PassTaps::Window{taps.on_host ? nullptr : taps.data, start, taps.stride_n, taps.stride_c};
  };
  if (row_pass) t.x = window(p.taps_x, p.kw);
  if (column_pass) t.y = window(p.taps_y, p.kh);
  return t;
}

}  // namespace torch_conv::separable2d
