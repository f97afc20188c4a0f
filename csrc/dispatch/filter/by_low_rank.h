// A filter of images whose window is the sum of a few separable ones: as many separable passes and their sum, in one
// launch where a kernel family has it.
#pragma once

#include <memory>

#include "dispatch/dispatch.h"
#include "dispatch/filter/low_rank.h"
#include "dispatch/windows.h"

namespace torch_conv {

// The factors of a call's windows, in the accumulation dtype and in host memory.
class LowRank {
 public:
  // None where they are of no low rank. `taps`: contiguous (..., kh, kw) on the CPU, in the accumulation dtype.
  static std::optional<LowRank> of(const Tensor& taps);

  int rank() const { return rank_; }
  // Term r as windows along x or along y, shared out over samples and channels as those of `whole` are.
  Window along(const Call& call, int r, bool x, const Window& whole, bool on_host) const;

 private:
  explicit LowRank(const Tensor& taps) : taps_(taps) {}

  std::shared_ptr<const void> owner_;
  const void* factors_[2][kMostRank] = {};  // y, x
  int64_t windows_ = 0;
  Tensor taps_;
  int rank_ = 0;
};

// Why a call cannot be served so, whatever the window's rank; or null.
const char* low_rank_refusal(const Tensor& kernel, const Extent& window);

// Is a filter with these windows a stage of a chain? They are odd, and lie with their middles on each pixel, or
// everywhere inside the image.
bool is_stage(const Direct& problem);

// `problem` as the direct kernel families take it, with `window` before it went to the images' device. Normalized
// 'skip' divides by what is no sum of products, but for rank 1.
void run_low_rank(Call& call, const Target& target, const Direct& problem, const Window& window,
                  const LowRank& factors);

}  // namespace torch_conv
