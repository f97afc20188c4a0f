// A filter with one window: the algorithm, the kernel family and the dtype of the taps, decided once for a call.
#pragma once

#include "dispatch/dispatch.h"
#include "dispatch/filter/by_low_rank.h"
#include "dispatch/filter/fft_tiles.h"
#include "dispatch/windows.h"

namespace torch_conv {

// 'auto' takes low rank for windows of at least so many taps only. The test of a window's rank takes a few passes over
// the taps, which smaller windows do not repay.
constexpr int64_t kLeastLowRankTaps = 81;

struct FilterDecision {
  Algorithm algorithm = Algorithm::direct;  // or fft, low_rank, depthwise
  bool by_values = false;                   // the algorithm depends on the window's values
  Sums sums = Sums::chain;                  // of Algorithm::depthwise
  std::optional<LowRank> factors{};         // of Algorithm::low_rank
  std::optional<Decision<Depthwise>> depthwise{};
  std::vector<Decision<Direct>> direct{};  // of Algorithm::direct without neighbour shards
  bool reads_shards = false;               // a kernel of Algorithm::direct may read neighbour shards
  bool narrow = false;                     // `direct` reads 16-bit taps; else taps have the accumulation dtype
};

// Kernel families plan no empty results.
inline bool is_empty(const Image& x) { return x.n * x.c * x.d * x.h * x.w == 0; }

struct FilterRequest {
  Call& call;  // for a part of an image: the part takes the algorithm of the whole image
  const Target& target;
  int axes;
  Algorithm asked;               // automatic, direct, tensor_core, fft or low_rank; of volumes automatic or direct
  const Tensor& kernel;          // the caller's
  const WindowOptions& options;  // of `window`
  const Window& window;          // prepared from `kernel`
  Direct problem;                // with the taps of `window`; kernels may read its neighbour shards `peers`
};

FilterDecision dispatch_filter(const FilterRequest& request);

// Decides, uploads the window in the decision's dtype, and runs the filter or explains it.
void run_filter(const FilterRequest& request);

// The sizes that expected times depend on.
FilterSize filter_size(const Direct& problem, const Target& target);

}  // namespace torch_conv
