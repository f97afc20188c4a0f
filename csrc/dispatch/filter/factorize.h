// Windows as sums of a few separable windows, in host memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace torch_conv {

constexpr int kMostRank = 4;

// windows[w][i][j] = sum over r < rank of y[r][w][i] * x[r][w][j], for `count` windows of kh x kw taps.
template <typename A>
struct Factors {
  int rank;
  std::vector<A> x[kMostRank], y[kMostRank];
};

// None where a window has a higher rank or is not finite. The remainder of a window is at most roundings of A: 4 of the
// largest tap, and of the sum of all |taps|. The factors' magnitudes are close to the window's, because their own
// roundings grow with them.
template <typename A>
std::optional<Factors<A>> factors_of(const A* windows, int64_t count, int64_t kh, int64_t kw);

}  // namespace torch_conv
