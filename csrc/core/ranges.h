// Ranges along an axis.
#pragma once

#include <algorithm>
#include <cstdint>

namespace torch_conv {

constexpr int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }  // b > 0
constexpr int64_t ceil_div_signed(int64_t a, int64_t b) { return -floor_div(-a, b); }

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// The number of positions of [first, first + k) in [0, n).
inline int64_t overlap(int64_t first, int64_t k, int64_t n) {
  return std::max<int64_t>(0, std::min(first + k, n) - std::max<int64_t>(first, 0));
}

// The positions of `wanted` for which start + position * step is in [0, n). An empty range starts inside `wanted`.
inline Range positions_inside(Range wanted, int64_t start, int64_t step, int64_t n) {
  const int64_t begin = std::clamp(ceil_div_signed(-start, step), wanted.begin, wanted.end);
  return {begin, std::clamp(floor_div(n - 1 - start, step) + 1, begin, wanted.end)};
}

// The outputs of `wanted` whose whole window (k taps, `dilation` apart) is in [0, n).
inline Range outputs_inside(Range wanted, int64_t k, int64_t pad, int64_t stride, int64_t dilation, int64_t n) {
  return positions_inside(wanted, -pad, stride, n - (k - 1) * dilation);
}

// The inputs in [0, n) under the windows of some outputs. `window`: the extent of a window, dilation included.
inline Range inputs_under(Range outputs, int64_t stride, int64_t pad, int64_t window, int64_t n) {
  return {std::clamp<int64_t>(outputs.begin * stride - pad, 0, n),
          std::clamp<int64_t>((outputs.end - 1) * stride - pad + window, 0, n)};
}

}  // namespace torch_conv
