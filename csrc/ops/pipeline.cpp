#include "ops/pipeline.h"

#include <algorithm>

#include "ops/chain.h"

namespace torch_conv {

Pipeline::Pipeline(const char* op, int axes, const Tensor& input, const FilterOptions& options,
                   const std::optional<Tensor>& out)
    : op_(op), axes_(axes), input_(input), options_(options), out_(out), place_(op, input) {
  static constexpr const char* algorithms[] = {"auto", "fused", "separable"};
  check_input(op, input, axes);
  check_algorithm(op, options.algorithm, algorithms);
  border_of(op, options.border_type);
  is_valid_padding(op, options.padding);
  in_ = view_input(op, input, axes);
}

Stage Pipeline::window(const std::vector<Tensor>& kernels, std::array<const char*, 3> names) {
  Stage stage{.windows = 1, .kd = 1, .kh = 1, .kw = 1};
  for (int axis = 0; axis < axes_; ++axis) {
    if (out_) check_no_overlap(op_, *out_, names[axis], kernels[axis]);
    windows_.push_back(prepare_window(op_, names[axis], kernels[axis], 1, input_, in_.image, axes_, {}));
    Window& window = windows_.back();
    const int64_t k = window.size.w;
    check(k % 2 == 1, op_, names[axis], " must have an odd number of taps, got ", k);
    upload_large(window, input_, place_.stream());
    (axis == 0 ? stage.kw : axis == 1 ? stage.kh : stage.kd) = k;
    (axis == 0 ? stage.taps_x : axis == 1 ? stage.taps_y : stage.taps_z)[0] = window.taps;
  }
  return stage;
}

Stage Pipeline::derivative(const Derivatives& windows, Point point, double number) const {
  return windows.stage(accumulation_dtype(in_.image.dtype), place_.cuda(), point, number);
}

Tensor Pipeline::run(const std::vector<Stage>& stages, bool fan) {
  const bool valid = is_valid_padding(op_, options_.padding);
  check(options_.algorithm != "fused" || axes_ == 2 || place_.cuda(), op_,
        "algorithm 'fused' cannot serve this call: volumes are fused on CUDA only");
  Extent reach{.d = 1, .h = 1, .w = 1};
  for (const Stage& s : stages) reach.d += s.kd - 1, reach.h += s.kh - 1, reach.w += s.kw - 1;
  // The size of the result and the refusal of windows that do not fit are those of one window with the chain's reach.
  const Geometry g = place_window(op_, in_.image, reach, axes_, options_);
  if (Reach* probe = current_probe()) {
    probe->whole = !valid;
    for (const Stage& s : stages) probe->ends |= s.point == Point::thin;
  }
  Fused problem{.in = in_.image,
                .out = {},
                .stride_output = 0,
                .count = int(stages.size()),
                .stages = {},
                .border = g.place.border,
                .value = options_.value,
                .valid = valid,
                .stride = 1,
                .wanted = options_.algorithm == "fused"};
  std::copy(stages.begin(), stages.end(), problem.stages);
  const auto fill = [&](const Image& image, int64_t stride_output) {
    problem.out = image, problem.stride_output = stride_output;
    compute(problem);
  };
  if (!fan) return produce(op_, input_, in_, axes_, g, options_, out_, [&](const Image& image) { fill(image, 0); });
  return produce_several(op_, input_, in_, axes_, stages.back().outputs(), g.out, options_, out_, fill);
}

void Pipeline::compute(const Fused& problem) {
  if (options_.algorithm != "separable" && run_in_one_launch(op_, place_, input_, problem)) return;
  run_chain(op_, place_, input_, in_, axes_, problem);
}

Stage with_point(Stage stage, Point point, double number) {
  stage.point = point, stage.number = number;
  return stage;
}

}  // namespace torch_conv
