#include "api/pipeline.h"

#include <algorithm>

namespace torch_conv {

Pipeline::Pipeline(Call& call, int axes, const Tensor& input, const FilterOptions& options)
    : call_(call), axes_(axes), input_(input), options_(options), target_(call, input) {
  const char* op = call.op;
  check_input(op, input, axes);
  algorithm_ = algorithm_of(op, options.algorithm, {Algorithm::automatic, Algorithm::fused, Algorithm::separable});
  border_of(op, options.border_type);
  is_valid_padding(op, options.padding);
  in_ = view_input(call, input, axes);
}

Stage Pipeline::window(const std::vector<Tensor>& kernels, std::array<const char*, 3> names) {
  Stage stage{.windows = 1, .kd = 1, .kh = 1, .kw = 1};
  for (int axis = 0; axis < axes_; ++axis) {
    if (call_.out) check_no_overlap(call_.op, *call_.out, names[axis], kernels[axis]);
    windows_.push_back(checked_window(call_, names[axis], kernels[axis], 1, input_, in_.image, axes_, {}));
    Window& window = windows_.back();
    const int64_t k = window.size.w;
    check(k % 2 == 1, call_.op, names[axis], " must have an odd number of taps, got ", k);
    upload_large(call_, window, input_);
    (axis == 0 ? stage.kw : axis == 1 ? stage.kh : stage.kd) = k;
    (axis == 0 ? stage.taps_x : axis == 1 ? stage.taps_y : stage.taps_z)[0] = window.taps;
  }
  return stage;
}

Stage Pipeline::derivative(const Derivatives& windows, Point point, double number) {
  const auto kept = std::make_shared<const Derivatives>(windows);
  if (call_.graph) call_.graph->keep(kept, kept.get(), sizeof(Derivatives));
  kept_.push_back(kept);
  return kept->stage(accumulation_dtype(in_.image.dtype), target_.cuda(), point, number);
}

Tensor Pipeline::run(const std::vector<Stage>& stages, bool several) {
  const bool valid = is_valid_padding(call_.op, options_.padding);
  check(algorithm_ != Algorithm::fused || axes_ == 2 || target_.cuda(), call_.op,
        "algorithm 'fused' cannot serve this call: volumes are fused on CUDA only");
  // The chain's geometry is that of one window with its footprint.
  Extent footprint{.d = 1, .h = 1, .w = 1};
  for (const Stage& s : stages) footprint.d += s.kd - 1, footprint.h += s.kh - 1, footprint.w += s.kw - 1;
  const Geometry g = place_window(call_, in_.image, footprint, axes_, options_);
  call_.footprint.all_rows = !valid;
  for (const Stage& s : stages) call_.footprint.zeros_outside |= s.point == Point::thin;
  Fused problem{.in = in_.image,
                .out = {},
                .stride_output = 0,
                .count = int(stages.size()),
                .stages = {},
                .border = g.place.border,
                .value = options_.value,
                .valid = valid,
                .stride = 1,
                .wanted = algorithm_ == Algorithm::fused};
  std::copy(stages.begin(), stages.end(), problem.stages);
  if (call_.only_footprint() && call_.on_shards) call_.footprint.reads_shards = reads_other_shards(problem);
  const auto fill = [&](const Image& image, int64_t stride_output) {
    problem.out = image, problem.stride_output = stride_output, problem.peers = peers_of(call_, in_.image, axes_);
    run_chain(call_, target_, in_, axes_, problem, algorithm_);
  };
  if (!several) return fill_result(call_, input_, in_, axes_, g, options_, [&](const Image& image) { fill(image, 0); });
  return fill_results(call_, input_, in_, axes_, stages.back().outputs(), g.out, options_, fill);
}

// The image has neither neighbours nor a result yet. The image itself stands for a neighbour of the same layout.
bool Pipeline::reads_other_shards(Fused problem) const {
  problem.out = in_.image;
  if (options_.output_type) problem.out.dtype = dtype_of(call_.op, "output_dtype", *options_.output_type);
  problem.peers.above = in_.image;
  return algorithm_ != Algorithm::separable && serves_shards(target_, problem);
}

Stage with_point(Stage stage, Point point, double number) {
  stage.point = point, stage.number = number;
  return stage;
}

}  // namespace torch_conv
