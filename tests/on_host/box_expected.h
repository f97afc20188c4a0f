// The outputs that box.cpp expects of the kernels of floats: sums in the kernel family's order (box/order.h).
#pragma once

#include <optional>
#include <vector>

#include "kernels/box/plan.h"
#include "box_floats.h"

namespace {

// s_m of the columns from x on.
template <typename A>
A doubled(const std::vector<A>& v, int64_t x, int64_t m) {
  return m == 1 ? v[x] : doubled(v, x, m / 2) + doubled(v, x + m / 2, m / 2);
}

// A far window's sum along an axis of n: how often it reads every position, times what stands there.
template <typename A, typename Read>
A far(const Box& p, int64_t first, int64_t k, int64_t n, A outside, const Read& read) {
  std::vector<double> times(n + 1);
  for (int64_t i = 0; i < k; ++i) {
    const int64_t m = map_index(first + i, n, p.place.border);
    ++times[m < 0 ? n : m];
  }
  double sum = 0;
  for (int64_t m = 0; m < n; ++m)
    if (times[m] > 0) sum = std::fma(times[m], double(read(m)), sum);
  return A(outside != 0 ? std::fma(times[n], double(outside), sum) : sum);
}

// Sums of columns that outputs of one row share, from column -1 on.
template <typename A>
struct RowOfColumns {
  int64_t n = -1, c = -1, y = -1;
  std::vector<std::optional<A>> sums{};
};

template <typename A>
double output(const Box& p, int64_t n, int64_t c, int64_t y, int64_t x, RowOfColumns<A>& row) {
  if (row.n != n || row.c != c || row.y != y) row = {n, c, y, std::vector<std::optional<A>>(p.in.w + 1)};
  const Placement& s = p.place;
  const int place = position_in_group(y + p.first_row);
  const int64_t top = y - place - s.pad_y;
  const A value = A(s.border == Border::constant ? s.value : 0);
  const auto make_column = [&](int64_t at) {  // of the image, -1: outside
    const auto pixel = [&](int64_t row) { return row < 0 || at < 0 ? value : A(get(p.in, n, c, 0, row, at)); };
    if (!is_far(p.kh, p.whole_h))
      return column_sum<A>([&](int64_t i) { return pixel(map_index(top + i, p.in.h, s.border)); }, p.kh, place);
    return at < 0 ? A(double(p.kh) * double(value)) : far<A>(p, top + place, p.kh, p.in.h, value, pixel);
  };
  const auto column = [&](int64_t at) {
    std::optional<A>& sum = row.sums[at + 1];
    if (!sum) sum = make_column(at);
    return *sum;
  };
  A sum = 0;
  if (is_far(p.kw, p.whole_w)) {
    sum = far<A>(p, x - s.pad_x, p.kw, p.in.w, value != 0 ? column(-1) : A(0), column);
  } else {
    std::vector<A> v;
    for (int64_t j = 0; j < p.kw; ++j) v.push_back(column(map_index(x + j - s.pad_x, p.in.w, s.border)));
    bool any = false;
    int64_t end = p.kw;
    for (int64_t m = 1; m <= p.kw; m *= 2) {
      if (!(p.kw & m)) continue;
      end -= m;
      sum = any ? doubled(v, end, m) + sum : doubled(v, end, m);
      any = true;
    }
  }
  const int64_t count = inside(y - s.pad_y, p.kh, p.in.h) * inside(x - s.pad_x, p.kw, p.in.w), area = p.kh * p.kw;
  return ending(sum, s, count == area, count, p.scale, area, p.out.dtype);
}

}  // namespace
