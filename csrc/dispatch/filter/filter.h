// A filter with one window: the algorithm, the kernel family and the dtype of the taps, decided once for a call.
#pragma once

#include "dispatch/dispatch.h"
#include "dispatch/filter/by_low_rank.h"
#include "dispatch/filter/fft_tiles.h"
#include "dispatch/windows.h"

namespace torch_conv {

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

// `asked` is automatic, direct, tensor_core, fft or low_rank for images, automatic or direct for volumes. `window` is
// the caller's `kernel` with `options` applied; the taps of `problem` are the window's. Kernels may read the neighbour
// shards `problem.peers`. A part of an image takes the algorithm of the whole image.
FilterDecision dispatch_filter(Call& call, const Target& target, int axes, Algorithm asked, const Tensor& kernel,
                               const WindowOptions& options, const Window& window, const Direct& problem);

// Uploads the window in the decision's dtype, and runs the filter or explains it.
void run_filter(Call& call, const Target& target, FilterDecision decision, Direct problem, Window window);

// The sizes that expected times depend on.
FilterSize filter_size(const Direct& problem, const Target& target);

}  // namespace torch_conv
