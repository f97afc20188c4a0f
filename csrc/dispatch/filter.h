// A filter with one window: the algorithm, the kernel family and the dtype of the taps, decided once for a call.
#pragma once

#include "dispatch/dispatch.h"
#include "dispatch/fft_tiles.h"
#include "dispatch/filter_low_rank.h"
#include "dispatch/windows.h"

namespace torch_conv {

struct FilterDecision {
  Algorithm algorithm = Algorithm::direct;  // or fft, low_rank, depthwise
  bool by_values = false;                   // the window's values had a say
  Sums sums = Sums::chain;                  // of Algorithm::depthwise
  std::optional<LowRank> factors{};         // of Algorithm::low_rank
  std::optional<Decision<Depthwise>> depthwise{};
  // Direct sums by kernels that read 16-bit taps as they came. Else all read taps in the accumulation dtype.
  std::vector<Decision<Direct>> narrow{};
};

// `asked`: automatic, direct, tensor_core, fft or low_rank. `window` is the caller's `kernel` as `options` want it, and
// gives the problem its taps; they are narrow where they may stay so. A part of an image takes the algorithm of the
// whole.
FilterDecision dispatch_filter(Call& call, const Target& target, Algorithm asked, const Tensor& kernel,
                               const WindowOptions& options, const Window& window, const Direct& problem);

// Brings the window to the device in the dtype that was decided on, and runs the filter or explains it.
void run_filter(Call& call, const Target& target, const Tensor& input, int axes, FilterDecision decision,
                Direct problem, Window window);

// The filter in the numbers that expected times depend on.
FilterSize filter_size(const Direct& problem, const Target& target);

}  // namespace torch_conv
