// A call of a fused operator on its way to a Fused problem: options and windows checked, stages put together, the
// result made.
#pragma once

#include "api/derivatives.h"
#include "api/filters.h"
#include "dispatch/dispatch.h"
#include "dispatch/windows.h"

namespace torch_conv {

class Pipeline {
 public:
  // The spatial axes are two or three; strides and dilations must be 1. All three live as long as the pipeline.
  Pipeline(Call& call, int axes, const Tensor& input, const FilterOptions& options);

  // A window that the caller gave as rows of taps, odd along every axis: kernels along x, y (and z), and the names of
  // these arguments. The same stage may stand in a chain with another point or number, or its window in several places.
  Stage window(const std::vector<Tensor>& kernels,
               std::array<const char*, 3> names = {"kernel_x", "kernel_y", "kernel_z"});
  Stage derivative(const Derivatives& windows, Point point, double number = 0);

  // Plans and runs the chain. `fan` says that the result has a dimension for the last stage's outputs.
  Tensor run(const std::vector<Stage>& stages, bool fan = false);

 private:
  bool reads_other_shards(Fused problem) const;
  void compute(Fused problem);

  Call& call_;
  int axes_;
  const Tensor& input_;
  const FilterOptions& options_;
  Algorithm algorithm_;
  Target target_;
  ImageView in_;
  std::vector<Window> windows_;
  std::vector<std::shared_ptr<const Derivatives>> kept_;
};

// `stage` with another step after its windows.
Stage with_point(Stage stage, Point point, double number = 0);

}  // namespace torch_conv
