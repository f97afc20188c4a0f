// A filter of images whose window is the sum of a few separable windows: separable filters and their sum, in one launch
// where a kernel family serves it.
#pragma once

#include <memory>

#include "dispatch/dispatch.h"
#include "dispatch/filter/factorize.h"
#include "dispatch/windows.h"

namespace torch_conv {

// The factors of a call's windows, in the accumulation dtype and in host memory.
class LowRank {
 public:
  // None where the windows have no low rank. `taps`: contiguous (..., kh, kw) on the CPU, in the accumulation dtype.
  static std::optional<LowRank> of(const Tensor& taps);

  int rank() const { return rank_; }
  // Term r as windows along x or along y, with the samples and channels of `window`.
  Window along(const Call& call, int r, bool x, const Window& window, bool on_host) const;

 private:
  explicit LowRank(const Tensor& taps) : taps_(taps) {}

  std::shared_ptr<const void> owner_;
  const void* factors_[2][kMostRank] = {};  // y, x
  int64_t windows_ = 0;
  Tensor taps_;
  int rank_ = 0;
};

// Null, or why no window of the call can be served, whatever its rank.
const char* low_rank_refusal(const Tensor& kernel, const Extent& window);

// Whether a stage of a chain computes the filter. Its windows are odd. Every pixel is the middle of a window, or every
// window is inside the image.
bool serves_as_stage(const Direct& problem);

// `problem` is the problem of the direct kernel families, and `window` is in host memory. Normalized 'skip' needs
// rank 1.
void run_low_rank(Call& call, const Target& target, const Direct& problem, const Window& window,
                  const LowRank& factors);

}  // namespace torch_conv
