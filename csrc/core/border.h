// The border policies and the one index map that CPU and CUDA share.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace torch_conv {

// `constant` to `circular` extend the image. Border `skip` omits taps outside the image. Border `zero_output` writes 0
// where the window is not inside the image, and so never reads outside.
enum class Border : int8_t { constant, replicate, reflect, symmetric, circular, skip, zero_output };

// The elements that stand for elements outside the image.
enum class Outside : int8_t {
  none,   // no elements: `skip` and `zero_output`
  value,  // the border's value: `constant`
  near,   // elements near the same end of the image
  far,    // elements near the other end: `circular`
};

struct BorderRule {
  const char* names[4];  // its name, then the names in other libraries; docs/conventions.md has the table
  Outside outside;
  bool edge_twice;  // a mirror that repeats the element at the edge
};

constexpr BorderRule rule_of(Border b) {
  switch (b) {
    case Border::constant: return {{"constant", "zeros"}, Outside::value, false};
    case Border::replicate: return {{"replicate", "edge", "nearest"}, Outside::near, false};
    case Border::reflect: return {{"reflect", "mirror", "reflect_101", "reflect101"}, Outside::near, false};
    case Border::symmetric: return {{"symmetric", "reflect_1001", "grid-mirror"}, Outside::near, true};
    case Border::circular: return {{"circular", "wrap", "grid-wrap"}, Outside::far, false};
    case Border::skip: return {{"skip"}, Outside::none, false};
    case Border::zero_output: return {{"zero_output"}, Outside::none, false};
  }
  return {};
}

constexpr int kBorders = [] {
  int count = 0;
  while (rule_of(Border(count)).names[0]) ++count;
  return count;
}();

constexpr const char* name_of(Border b) { return rule_of(b).names[0]; }

// Whether the border gives elements outside the image a value.
constexpr bool extends(Border b) { return rule_of(b).outside != Outside::none; }

// Whether elements near an end of the image stand for the elements outside of that end.
// A loop over constants becomes comparisons; rule_of(b) gives box_bytes 14 branches more (NVRTC 13, sm_90).
constexpr bool is_mirror(Border b) {
  for (int i = 0; i < kBorders; ++i)
    if (rule_of(Border(i)).outside == Outside::near && b == Border(i)) return true;
  return false;
}

// The element that position i (at any distance outside) of an axis of n >= 1 elements stands for: an index in [0, n),
// or -1 for none (constant, skip, zero_output).
template <typename I>
TC_HD constexpr I map_index(I i, I n, Border border) {
  if (i >= 0 && i < n) return i;
  switch (border) {
    case Border::replicate: return i < 0 ? I(0) : n - 1;
    // One fold leads into the image unless the window is larger than the image. Only that rare case divides.
    case Border::circular: {
      I m = i < 0 ? i + n : i - n;
      if (m >= 0 && m < n) return m;
      m = i % n;
      return m < 0 ? m + n : m;
    }
    case Border::reflect: {
      I m = i < 0 ? -i : 2 * n - 2 - i;
      if (m >= 0 && m < n) return m;
      if (n == 1) return 0;
      const I period = 2 * (n - 1);
      m = i % period;
      m = m < 0 ? m + period : m;
      return m < n ? m : period - m;
    }
    case Border::symmetric: {
      I m = i < 0 ? -1 - i : 2 * n - 1 - i;
      if (m >= 0 && m < n) return m;
      const I period = 2 * n;
      m = i % period;
      m = m < 0 ? m + period : m;
      return m < n ? m : period - 1 - m;
    }
    case Border::constant:
    case Border::skip:
    case Border::zero_output: return -1;
  }
  return -1;
}

// map_index() of `constant` and the mirrors for a position i less than n outside of the axis, by selects: for unrolled
// code.
constexpr int map_near(int i, int n, Border border) {
  if (border == Border::constant) return i < 0 || i >= n ? -1 : i;
  const int edge = border == Border::reflect ? 1 : 0;  // whose element occurs once
  if (i < 0) return border == Border::replicate ? 0 : -i - 1 + edge;
  return i < n ? i : border == Border::replicate ? n - 1 : 2 * n - 1 - i - edge;
}

// map_index() for column x of a row of w values with `channels` interleaved channels. The result is the value of the
// same channel in the mapped pixel.
template <typename I>
TC_HD I map_column(I x, I w, I channels, Border border) {
  if (channels == 1 || (x >= 0 && x < w)) return map_index(x, w, border);
  const I pixel = (x < 0 ? x - channels + 1 : x) / channels, m = map_index(pixel, w / channels, border);
  return m < 0 ? m : m * channels + x - pixel * channels;
}

// The number of elements after which an extended axis repeats itself. 0: the axis never does, because elements outside
// have the border's value or repeat the last element.
constexpr int64_t period_of(Border border, int64_t n) {
  switch (border) {
    case Border::circular: return n;
    case Border::reflect: return n > 1 ? 2 * n - 2 : 1;
    case Border::symmetric: return 2 * n;
    case Border::constant:
    case Border::replicate:
    case Border::skip:
    case Border::zero_output: return 0;
  }
  __builtin_unreachable();
}

// Kernels compare with `constant`, `replicate` and `circular`: each is the only border of its kind. They take the
// mirrors from map_near(). Sums of boxes pair position i of a period with period - i, less 1 where the edge is twice.
constexpr bool is_consistent(Border b) {
  constexpr int n = 5;
  const int period = int(period_of(b, n)), twice = rule_of(b).edge_twice;
  const Outside outside = rule_of(b).outside;
  bool good = (outside == Outside::value) == (b == Border::constant);
  good &= (outside == Outside::near && period == 0) == (b == Border::replicate);
  good &= (outside == Outside::far) == (b == Border::circular);
  good &= (outside == Outside::none) == (b == Border::skip || b == Border::zero_output);
  for (int i = 1 - n; i < 2 * n - 1; ++i) {
    const int at = map_index(i, n, b);
    good &= at >= 0 || !(is_mirror(b) || b == Border::circular);
    if (is_mirror(b) || b == Border::constant) good &= map_near(i, n, b) == at;
    if (is_mirror(b) && period > 0) good &= map_index(period - i - twice, n, b) == at;
    if (period > 0) good &= map_index(i + period, n, b) == at;
  }
  return good;
}

static_assert(
    [] {
      for (int i = 0; i < kBorders; ++i)
        if (!is_consistent(Border(i))) return false;
      return true;
    }(),
    "the maps and the rule of a border disagree, or kernels do not know its kind");

}  // namespace torch_conv
