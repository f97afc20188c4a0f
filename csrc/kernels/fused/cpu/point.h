// The pointwise steps on rows. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
// core/point.h says the same on numbers, with the library's fma; here it is vec.h's, so that rows are vectors on
// every level: where there are no FMA instructions, a product and a sum.

template <typename A>
TC_HD A fma_or_two(A a, A b, A c) {
#if TC_X86_FMA || defined(__FP_FAST_FMA)
  if constexpr (sizeof(A) == 8) return __builtin_fma(a, b, c);
  else return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// sums[i], the pixels under the windows' middles and out[o] are rows of n elements; a row of `out` may be one of sums.
template <Point P, int W, typename A>
void point_row(const A* const* sums, const A* pixels, A number, A* const* out, int64_t n) {
  constexpr int kOutputs = count_outputs(P, W);
  const A* from[W];
  A* to[kOutputs];
  std::copy_n(sums, W, from);
  std::copy_n(out, kOutputs, to);
#pragma GCC ivdep
  for (int64_t x = 0; x < n; ++x) {
    A s[W];
#pragma GCC unroll 3
    for (int i = 0; i < W; ++i) s[i] = from[i][x];
    if constexpr (P == Point::products) {
      to[0][x] = s[0] * s[0], to[1][x] = s[0] * s[1], to[2][x] = s[1] * s[1];
    } else if constexpr (P == Point::sharpen) {
      to[0][x] = fma_or_two(number, pixels[x] - s[0], pixels[x]);
    } else if constexpr (P == Point::polar) {
      to[0][x] = fma_or_two(s[1], s[1], s[0] * s[0]), to[1][x] = s[0], to[2][x] = s[1];
    } else {
      A made = P == Point::sum ? s[0] : P == Point::l1 ? std::fabs(s[0]) : s[0] * s[0];
#pragma GCC unroll 3
      for (int i = 1; i < W; ++i)
        made = P == Point::sum ? made + s[i] : P == Point::l1 ? made + std::fabs(s[i]) : fma_or_two(s[i], s[i], made);
      to[0][x] = P == Point::l2 ? std::sqrt(made + number) : made;
    }
  }
}

template <typename A>
using PointRow = void (*)(const A* const* sums, const A* pixels, A number, A* const* out, int64_t n);

// Null for `each`, whose sums are the outputs, and for `thin`, which reads other rows.
template <typename A>
PointRow<A> row_of_point(Point point, int windows) {
  switch (point) {
    case Point::sum:
      return windows == 1   ? point_row<Point::sum, 1, A>
             : windows == 2 ? point_row<Point::sum, 2, A>
                            : point_row<Point::sum, 3, A>;
    case Point::l1:
      return windows == 1   ? point_row<Point::l1, 1, A>
             : windows == 2 ? point_row<Point::l1, 2, A>
                            : point_row<Point::l1, 3, A>;
    case Point::l2:
      return windows == 1   ? point_row<Point::l2, 1, A>
             : windows == 2 ? point_row<Point::l2, 2, A>
                            : point_row<Point::l2, 3, A>;
    case Point::products: return point_row<Point::products, 2, A>;
    case Point::sharpen: return point_row<Point::sharpen, 1, A>;
    case Point::polar: return point_row<Point::polar, 2, A>;
    case Point::each:
    case Point::thin: return nullptr;
  }
  __builtin_unreachable();
}

// `thin`: rows of squared magnitudes above, here and below. A row may be split into the columns of every phase of a
// stride. So the columns left, here and right of pixel x are elements `column[j]` + x. gx and gy begin with pixel 0.
// This is core/point.h's `thinned` on registers: g++ does not vectorize its dependent comparisons. As cover() says, a
// row shorter than a register is read and written beyond its end.
template <typename A>
void thin_row(const A* const (&magnitude)[3], const int64_t (&column)[3], const A* gx, const A* gy, A* out, int64_t n) {
  cover<A, 1>(n, [&]<int V>(int64_t x) {
    auto m = [&](int dy, int dx) { return load(magnitude[1 + dy] + column[1 + dx] + x); };
    const Vec<A> slope = splat(A(0.41421356237309503));  // tan(22.5 degrees)
    const Vec<A> sx = load(gx + x), sy = load(gy + x), zero = {};
    const Vec<A> ax = sx < zero ? -sx : sx, ay = sy < zero ? -sy : sy;
    const auto across = ay <= slope * ax, along = ax <= slope * ay, falling = (sx < zero) ^ (sy < zero);
    const Vec<A> before = across ? m(0, -1) : along ? m(-1, 0) : falling ? m(-1, 1) : m(-1, -1);
    const Vec<A> after = across ? m(0, 1) : along ? m(1, 0) : falling ? m(1, -1) : m(1, 1);
    const Vec<A> here = m(0, 0);
    store(out + x, (here <= before) | (here < after) ? zero : here);
  });
  for (int64_t x = 0; x < n; ++x) out[x] = std::sqrt(out[x]);
}
