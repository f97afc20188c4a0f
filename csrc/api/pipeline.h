// A call of a fused operator: checks options and windows, composes the stages, computes the result.
#pragma once

#include "api/derivatives.h"
#include "api/filters.h"
#include "dispatch/dispatch.h"

namespace torch_conv {

class Pipeline {
 public:
  // Two or three spatial axes. Strides and dilations must be 1. The arguments outlive the pipeline.
  Pipeline(Call& call, int axes, const Tensor& input, const FilterOptions& options);

  // A window of the caller's kernels along x, y (and z), odd along every axis, and the names of these arguments.
  Stage window(const std::vector<Tensor>& kernels,
               std::array<const char*, 3> names = {"kernel_x", "kernel_y", "kernel_z"});
  Stage derivative(const Derivatives& windows, Point point, double number = 0);

  // Plans and runs the chain. `several`: the result has a dimension for the last stage's outputs.
  Tensor run(const std::vector<Stage>& stages, bool several = false);

 private:
  bool reads_other_shards(Fused problem) const;

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

// `stage` with another point.
Stage with_point(Stage stage, Point point, double number = 0);

}  // namespace torch_conv
