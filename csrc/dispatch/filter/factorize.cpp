#include "dispatch/filter/factorize.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace torch_conv {

namespace {

// Cross approximation with full pivoting, in float64. The row and the column through the remainder's largest element
// make the next term, which leaves zeros there. The remainder of a window of rank r is roundings after r terms.
class Remainder {
 public:
  template <typename A>
  Remainder(const A* taps, int64_t kh, int64_t kw) : kh_(kh), kw_(kw), left_(taps, taps + kh * kw) {
    find_largest();
    sum_ = left_sum_, peak_ = std::abs(left_[largest_]);
  }

  double magnitude() const { return sum_; }  // the sum of the window's |taps|
  // Whether the remainder is roundings of A, as a sum and against the largest tap.
  template <typename A>
  bool is_rounding() const {
    constexpr double unit = std::numeric_limits<A>::epsilon();
    return left_sum_ <= 2 * unit * sum_ && std::abs(left_[largest_]) <= 4 * unit * peak_;
  }

  // Subtracts the next term, column y times row x.
  void subtract_term(std::vector<double>& y, std::vector<double>& x) {
    const double pivot = left_[largest_];
    const int64_t row = largest_ / kw_, column = largest_ % kw_;
    const double scale = std::sqrt(std::abs(pivot));
    for (int64_t i = 0; i < kh_; ++i) y[i] = left_[i * kw_ + column] / scale;
    for (int64_t j = 0; j < kw_; ++j) x[j] = left_[row * kw_ + j] / std::copysign(scale, pivot);
    for (int64_t i = 0; i < kh_; ++i)
      for (int64_t j = 0; j < kw_; ++j) left_[i * kw_ + j] -= y[i] * x[j];
    find_largest();
  }

 private:
  void find_largest() {
    left_sum_ = 0, largest_ = 0;
    for (int64_t t = 0; t < kh_ * kw_; ++t) {
      left_sum_ += std::abs(left_[t]);
      if (std::abs(left_[t]) > std::abs(left_[largest_])) largest_ = t;
    }
  }

  int64_t kh_, kw_, largest_ = 0;
  double sum_ = 0, peak_ = 0, left_sum_ = 0;
  std::vector<double> left_;
};

double magnitude_of(const std::vector<double>& taps) {
  double sum = 0;
  for (double tap : taps) sum += std::abs(tap);
  return sum;
}

// The largest ratio of the terms' magnitudes to the window's, in which roundings grow. It is 1 for a product, and below
// 3 for Gaussians' differences and their derivatives.
constexpr double kMostGrowth = 4;

}  // namespace

template <typename A>
std::optional<Factors<A>> factors_of(const A* windows, int64_t count, int64_t kh, int64_t kw) {
  Factors<A> f{.rank = 1, .x = {}, .y = {}};
  for (int r = 0; r < kMostRank; ++r) f.x[r].assign(count * kw, A(0)), f.y[r].assign(count * kh, A(0));
  std::vector<double> x(kw), y(kh);
  for (int64_t w = 0; w < count; ++w) {
    Remainder left(windows + w * kh * kw, kh, kw);
    if (!std::isfinite(left.magnitude())) return std::nullopt;
    double terms = 0;
    for (int r = 0; !left.is_rounding<A>(); ++r) {
      if (r == kMostRank) return std::nullopt;
      left.subtract_term(y, x);
      for (int64_t i = 0; i < kh; ++i) f.y[r][w * kh + i] = A(y[i]);
      for (int64_t j = 0; j < kw; ++j) f.x[r][w * kw + j] = A(x[j]);
      terms += magnitude_of(y) * magnitude_of(x);
      f.rank = std::max(f.rank, r + 1);
    }
    if (!(terms <= kMostGrowth * left.magnitude())) return std::nullopt;
  }
  return f;
}

template std::optional<Factors<float>> factors_of(const float*, int64_t, int64_t, int64_t);
template std::optional<Factors<double>> factors_of(const double*, int64_t, int64_t, int64_t);

}  // namespace torch_conv
