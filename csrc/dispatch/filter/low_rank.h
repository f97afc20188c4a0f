// Windows as sums of a few separable ones. Host memory and numbers only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace torch_conv {

constexpr int kMostRank = 4;

// windows[w][i][j] = sum over r < rank of y[r][w][i] * x[r][w][j], where `windows` are `count` of kh x kw taps.
template <typename A>
struct Factors {
  int rank;
  std::vector<A> x[kMostRank], y[kMostRank];
};

// None where a window is of a higher rank, or not finite: what the factors leave of a window must be roundings of A (4
// of them of the largest tap, and of the sum of all |taps|). So must be what the factors' own roundings make of it, so
// their magnitudes may not exceed the window's by much.
template <typename A>
std::optional<Factors<A>> factors_of(const A* windows, int64_t count, int64_t kh, int64_t kw);

}  // namespace torch_conv
