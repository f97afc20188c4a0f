// A filter with one window: the algorithm, the kernel family and the dtype of the taps, decided once for a call.
#pragma once

#include "dispatch/dispatch.h"
#include "dispatch/filter/by_low_rank.h"
#include "dispatch/filter/fft_tiles.h"
#include "dispatch/windows.h"

namespace torch_conv {

// 'auto' takes low rank for windows of at least so many taps only. Looking at a window takes its own few passes over
// the taps, so smaller windows never pay for it.
constexpr int64_t kLeastTaps = 81;

struct FilterDecision {
  Algorithm algorithm = Algorithm::direct;  // or fft, low_rank, depthwise
  bool by_values = false;                   // the window's values had a say
  Sums sums = Sums::chain;                  // of Algorithm::depthwise
  std::optional<LowRank> factors{};         // of Algorithm::low_rank
  std::optional<Decision<Depthwise>> depthwise{};
  // Of Algorithm::direct. Empty where kernels read neighbour shards: each shard's pieces have plans of their own
  // (sharding/launch_shards.h).
  std::vector<Decision<Direct>> direct{};
  bool narrow = false;  // `direct` reads 16-bit taps; else all kernels read taps in the accumulation dtype
};

// `asked`: automatic, direct, tensor_core, fft or low_rank; of volumes automatic or direct. `window` is the caller's
// `kernel` with `options` applied, and gives the problem its taps. `problem.peers` are the neighbour shards that
// kernels may read. A part of an image takes the algorithm of the whole.
FilterDecision dispatch_filter(Call& call, const Target& target, int axes, Algorithm asked, const Tensor& kernel,
                               const WindowOptions& options, const Window& window, const Direct& problem);

// Uploads the window in the decision's dtype, and runs the filter or explains it.
void run_filter(Call& call, const Target& target, int axes, FilterDecision decision, Direct problem, Window window);

// The filter in the numbers that expected times depend on.
FilterSize filter_size(const Direct& problem, const Target& target);

}  // namespace torch_conv
