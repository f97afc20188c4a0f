// In which order boxes add up floats, on the CPU and on CUDA: every pixel's sum has the same bits on both. All
// operations are additions in the accumulation type A. Nothing is subtracted, so no pixel outside a window changes its
// sum.
//
//   columns  V[y][x], the sum of the kh rows y - pad_y .. y - pad_y + kh - 1. Fewer than 9 are one chain downwards.
//            Else outputs are made in groups of 8, y / 8 of the whole image, whose windows share rows in the middle:
//
//              row     t0           the group's output j = y % 8 takes
//                      | lead   8   rows t0 + j .. t0 + 7, added from the last upwards: S
//                      | rest   (kh - 9) % 8 rows, one chain downwards
//                      | block  8   ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
//                      | ...        (kh - 9) / 8 blocks; M = rest + block + block ..., a chain from the top downwards
//                      | trail  8   rows b0 = t0 + kh - 1 .. b0 + j, added downwards: P
//                      b0 + 7       V = (S + M) + P
//
//   rows     W[y][x], the sum of the kw numbers V[y][x - pad_x] .. by doubling: s_1 = V, s_2m[i] = s_m[i] + s_m[i + m].
//            The bits of kw from the lowest: t = s of the lowest bit, then t'[i] = s_m[i] + t[i + m] for each other m.
//
// Along z a box over volumes adds up the planes' W in the order of columns, in groups z / 8 of the whole volume. A
// plane outside holds the constant's value times kh * kw, rounded to A.
//
// Rows and columns outside the image are those that the border's map reads, or the constant's value, or 0. So a sum's
// error is at most some roundings of the |pixels| in its window.
#pragma once

#include "core/dtype.h"

namespace torch_conv::box {

constexpr int kGroup = 8;

// The window's rows in the middle of a group: none below 9.
constexpr bool one_chain(int64_t kh) { return kh <= kGroup; }
constexpr int64_t blocks_of(int64_t kh) { return (kh - kGroup - 1) / kGroup; }
constexpr int64_t rest_of(int64_t kh) { return (kh - kGroup - 1) % kGroup; }

// The number, within its group, of the output in this row of a whole image.
constexpr int position_in_group(int64_t y) { return int((y % kGroup + kGroup) % kGroup); }

// Eight rows of a block.
template <typename V>
TC_HD V block_sum(const V& r0, const V& r1, const V& r2, const V& r3, const V& r4, const V& r5, const V& r6,
                  const V& r7) {
  return ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7));
}

// M of a group with more than 9 rows in a window. row(i) is row t0 + i, in the accumulation type.
template <typename A, typename Row>
TC_HD A middle_sum(const Row& row, int64_t kh) {
  int64_t at = kGroup;
  const int64_t rest = rest_of(kh);
  A middle{};
  if (rest > 0) {
    middle = row(at);
    for (int64_t i = 1; i < rest; ++i) middle = middle + row(at + i);
    at += rest;
  }
  for (bool first = rest == 0; at < kh - 1; at += kGroup, first = false) {
    const A block = block_sum<A>(row(at), row(at + 1), row(at + 2), row(at + 3), row(at + 4), row(at + 5), row(at + 6),
                                 row(at + 7));
    middle = first ? block : middle + block;
  }
  return middle;
}

// V of output j of a group, one pixel at a time.
template <typename A, typename Row>
TC_HD A column_sum(const Row& row, int64_t kh, int j) {
  if (one_chain(kh)) {
    A sum = row(int64_t(j));
    for (int64_t i = 1; i < kh; ++i) sum = sum + row(j + i);
    return sum;
  }
  A lead = row(int64_t(kGroup - 1)), trail = row(kh - 1);
  for (int i = kGroup - 2; i >= j; --i) lead = row(int64_t(i)) + lead;
  for (int i = 1; i <= j; ++i) trail = trail + row(kh - 1 + i);
  return kh == kGroup + 1 ? lead + trail : (lead + middle_sum<A>(row, kh)) + trail;
}

// 1 / count in two parts, hi below it: sum * hi + sum * lo is rounded once, and +-Inf times both stays +-Inf.
template <typename A>
struct Reciprocal {
  A hi, lo;
};

#ifndef __CUDACC__
template <typename A>
inline Reciprocal<A> reciprocal(double count) {
  A hi = A(1.0 / count);
  double left = std::fma(-double(hi), count, 1.0);
  if (left <= 0) hi = std::nextafter(hi, A(0)), left = std::fma(-double(hi), count, 1.0);
  return {hi, A(left / count)};
}

// The reciprocal in the form of the kernels' parameters, for sums in float64 or float32.
inline Reciprocal<double> reciprocal_of(bool wide, double count) {
  const Reciprocal<float> rough = reciprocal<float>(count);
  return wide ? reciprocal<double>(count) : Reciprocal<double>{rough.hi, rough.lo};
}
#endif

// A mean; with Border::skip it is sum / A(pixels inside) instead.
template <typename A>
TC_HD A mean_of_sum(A sum, const Reciprocal<A>& r) {
  if constexpr (sizeof(A) == 4) return fmaf(sum, r.hi, sum * r.lo);
  else return fma(sum, r.hi, sum * r.lo);
}

// Windows much longer than the image are summed by counts: a count is the number of times that a window reads a pixel.
// Such a sum is one chain of multiply-adds in float64 from 0: count * pixel, in the order of the image. Pixels of count
// 0 are left out. Last comes the count of positions outside times the border's value. The sum is rounded to A. Without
// counts an output would take about k / 64 additions.
constexpr bool is_far(int64_t k, int64_t n) { return k > 65536 && k / 64 > n; }

}  // namespace torch_conv::box
