// The fused pipelines: chains of small filters between one read and one write.
#include <algorithm>

#include "api/derivatives.h"
#include "api/filter_call.h"
#include "api/operator.h"
#include "api/schema.h"
#include "dispatch/dispatch.h"

namespace torch_conv {

namespace {

using Str = const std::string&;

// The options of every pipeline.
FilterOptions options(Str border_type, Str padding, double value, const Type& output_type, Str algorithm,
                      int axes = 2) {
  return {border_type, false, padding, value, {}, Sizes(axes, 1), Sizes(axes, 1), output_type, algorithm};
}

// A call of a fused operator: checks options and windows, composes the stages, computes the result.
class Pipeline {
 public:
  // Strides and dilations are 1. The arguments outlive the pipeline.
  Pipeline(Call& call, int axes, const Tensor& input, const FilterOptions& options)
      : f_(call, axes, input, options, {Algorithm::automatic, Algorithm::fused, Algorithm::separable}),
        target_(call, input) {}

  // A window of the caller's kernels along x, y (and z), odd along every axis, and the names of these arguments.
  Stage window(const std::vector<Tensor>& kernels,
               std::array<const char*, 3> names = {"kernel_x", "kernel_y", "kernel_z"}) {
    Stage stage{.windows = 1, .kd = 1, .kh = 1, .kw = 1};
    for (int axis = 0; axis < f_.axes; ++axis) {
      Window& window = windows_.emplace_back(f_.window(names[axis], kernels[axis], 1));
      const int64_t k = window.size.w;
      check(k % 2 == 1, f_.call.op, names[axis], " must have an odd number of taps, got ", k);
      upload_large(f_.call, window, f_.input);
      (axis == 0 ? stage.kw : axis == 1 ? stage.kh : stage.kd) = k;
      (axis == 0 ? stage.taps_x : axis == 1 ? stage.taps_y : stage.taps_z)[0] = window.taps;
    }
    return stage;
  }

  Stage derivative(const Derivatives& windows, Point point, double number = 0) {
    const auto kept = std::make_shared<const Derivatives>(windows);
    if (f_.call.graph) f_.call.graph->keep(kept, kept.get(), sizeof(Derivatives));
    kept_.push_back(kept);
    return kept->stage(accumulation_dtype(f_.in.image.dtype), target_.cuda(), point, number);
  }

  // Plans and runs the chain. `several`: the result has a dimension for the last stage's outputs.
  Tensor run(const std::vector<Stage>& stages, bool several = false) {
    Footprint& footprint = f_.call.footprint;
    check(f_.algorithm != Algorithm::fused || f_.axes == 2 || target_.cuda(), f_.call.op,
          "algorithm 'fused' cannot serve this call: volumes are fused on CUDA only");
    // The chain's geometry is that of one window with its footprint.
    Extent window{.d = 1, .h = 1, .w = 1};
    for (const Stage& s : stages) window.d += s.kd - 1, window.h += s.kh - 1, window.w += s.kw - 1;
    const Geometry g = f_.place_windows(window);
    footprint.all_rows = !f_.valid;
    for (const Stage& s : stages) footprint.zeros_outside |= s.point == Point::thin;
    Fused problem{.in = f_.in.image,
                  .out = {},
                  .stride_output = 0,
                  .count = int(stages.size()),
                  .stages = {},
                  .border = f_.border,
                  .value = f_.options.value,
                  .valid = f_.valid,
                  .stride = 1,
                  .wanted = f_.algorithm == Algorithm::fused};
    std::copy(stages.begin(), stages.end(), problem.stages);
    if (f_.call.only_footprint() && f_.call.on_shards) footprint.reads_shards = reads_other_shards(problem);
    const auto fill = [&](const Image& image, int64_t stride_output) {
      problem.out = image, problem.stride_output = stride_output;
      problem.peers = peers_of(f_.call, f_.in.image, f_.axes);
      run_chain(f_.call, target_, f_.in, f_.axes, problem, f_.algorithm);
    };
    if (several) return f_.fill_several(stages.back().outputs(), g, fill);
    return f_.fill(g, [&](const Image& image) { fill(image, 0); });
  }

 private:
  // The image has neither neighbours nor a result yet. The image itself stands for a neighbour of the same layout.
  bool reads_other_shards(Fused problem) const {
    problem.out = problem.peers.above = f_.in.image;
    problem.out.dtype = f_.result_dtype();
    return f_.algorithm != Algorithm::separable && serves_shards(target_, problem);
  }

  FilterCall f_;
  const Target target_;
  std::vector<Window> windows_;
  std::vector<std::shared_ptr<const Derivatives>> kept_;
};

// `stage` with another point.
Stage with_point(Stage stage, Point point, double number) {
  stage.point = point, stage.number = number;
  return stage;
}

Tensor gradient(Call& call, const Tensor& input, Str mode, const int64_t& order, const bool& normalized,
                Str border_type, Str padding, const double& value, const Type& output_dtype, Str algorithm) {
  const Derivatives derivatives = Derivatives::of_images(call.op, mode, order, normalized);
  const FilterOptions o = options(border_type, padding, value, output_dtype, algorithm);
  Pipeline p(call, 2, input, o);
  return p.run({p.derivative(derivatives, Point::each)}, true);
}

Tensor sobel(Call& call, const Tensor& input, const bool& normalized, const double& eps, Str border_type, Str padding,
             const double& value, const Type& output_dtype, Str algorithm) {
  const Derivatives derivatives = Derivatives::of_images(call.op, "sobel", 1, normalized);
  const FilterOptions o = options(border_type, padding, value, output_dtype, algorithm);
  Pipeline p(call, 2, input, o);
  return p.run({p.derivative(derivatives, Point::l2, eps)});
}

Tensor gaussian_sobel(Call& call, const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y, Str border_type,
                      Str magnitude, Str padding, const double& value, const Type& output_dtype, Str algorithm) {
  check(magnitude == "l1" || magnitude == "l2", call.op, "magnitude must be 'l1' or 'l2', got '", magnitude, "'");
  const Derivatives derivatives = Derivatives::of_images(call.op, "sobel", 1, false);
  const FilterOptions o = options(border_type, padding, value, output_dtype, algorithm);
  Pipeline p(call, 2, input, o);
  const Stage blur = p.window({kernel_x, kernel_y});
  return p.run({blur, p.derivative(derivatives, magnitude == "l1" ? Point::l1 : Point::l2)});
}

Tensor sum(Call& call, const Tensor& input, const std::vector<Tensor>& kernels_x, const std::vector<Tensor>& kernels_y,
           Str border_type, Str padding, const double& value, const Type& output_dtype, Str algorithm) {
  const char* op = call.op;
  const size_t count = kernels_x.size();
  check(count == kernels_y.size() && count >= 1 && count <= Stage::kMost, op,
        "kernels_x and kernels_y must be equally many, 1 to 3, got ", count, " and ", kernels_y.size());
  const FilterOptions o = options(border_type, padding, value, output_dtype, algorithm);
  Pipeline p(call, 2, input, o);
  Stage all{.windows = int(count), .kd = 1, .point = Point::sum};
  for (size_t i = 0; i < count; ++i) {
    const Stage one = p.window({kernels_x[i], kernels_y[i]}, {"kernels_x", "kernels_y", nullptr});
    if (i == 0) all.kh = one.kh, all.kw = one.kw;
    check(one.kw == all.kw, op, "kernels_x must have the same number of taps each, got ", all.kw, " and ", one.kw);
    check(one.kh == all.kh, op, "kernels_y must have the same number of taps each, got ", all.kh, " and ", one.kh);
    all.taps_x[i] = one.taps_x[0], all.taps_y[i] = one.taps_y[0];
  }
  return p.run({all});
}

Tensor unsharp(Call& call, const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y, Str border_type,
               const double& amount, Str padding, const double& value, const Type& output_dtype, Str algorithm) {
  const FilterOptions o = options(border_type, padding, value, output_dtype, algorithm);
  Pipeline p(call, 2, input, o);
  return p.run({with_point(p.window({kernel_x, kernel_y}), Point::sharpen, amount)});
}

Tensor structure_tensor(Call& call, const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y,
                        Str border_type, Str mode, Str padding, const double& value, const Type& output_dtype,
                        Str algorithm) {
  const Derivatives derivatives = Derivatives::of_images(call.op, mode, 1, true);
  const FilterOptions o = options(border_type, padding, value, output_dtype, algorithm);
  Pipeline p(call, 2, input, o);
  Stage smooth = p.window({kernel_x, kernel_y});
  smooth.windows = 3;  // one for each product
  for (int i = 1; i < 3; ++i) smooth.taps_x[i] = smooth.taps_x[0], smooth.taps_y[i] = smooth.taps_y[0];
  return p.run({p.derivative(derivatives, Point::products), smooth}, true);
}

Tensor thin_edges(Call& call, const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y, Str border_type,
                  Str padding, const double& value, const Type& output_dtype, Str algorithm) {
  const Derivatives derivatives = Derivatives::of_images(call.op, "sobel", 1, false);
  const FilterOptions o = options(border_type, padding, value, output_dtype, algorithm);
  Pipeline p(call, 2, input, o);
  const Stage blur = p.window({kernel_x, kernel_y});
  return p.run({blur, p.derivative(derivatives, Point::polar), {.windows = 0, .point = Point::thin}});
}

Tensor gaussian_gradient(Call& call, const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y,
                         const Tensor& kernel_z, Str border_type, Str mode, Str padding, const double& value,
                         const Type& output_dtype, Str algorithm) {
  const Derivatives derivatives = Derivatives::of_volumes(call.op, mode);
  const FilterOptions o = options(border_type, padding, value, output_dtype, algorithm, 3);
  Pipeline p(call, 3, input, o);
  const Stage blur = p.window({kernel_x, kernel_y, kernel_z});
  return p.run({blur, p.derivative(derivatives, Point::l2)});
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  Operator<"gradient2d", 2, 1, gradient>::implement_with_out(m);
  Operator<"sobel2d", 2, 1, sobel>::implement_with_out(m);
  Operator<"gaussian_sobel2d", 2, 1, gaussian_sobel>::implement_with_out(m);
  Operator<"separable_sum2d", 2, 1, sum>::implement_with_out(m);
  Operator<"unsharp_mask2d", 2, 1, unsharp>::implement_with_out(m);
  Operator<"structure_tensor2d", 2, 1, structure_tensor>::implement_with_out(m);
  Operator<"thin_edges2d", 2, 1, thin_edges>::implement_with_out(m);
  Operator<"gaussian_gradient3d", 3, 1, gaussian_gradient>::implement_with_out(m);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  const std::string windows = "(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, ";
  const std::string tail =
      "str padding='same', float value=0.0, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor";
  define_with_out(m,
                  "gradient2d(Tensor input, str mode='sobel', int order=1, bool normalized=True, *, "
                  "str border_type='replicate', " +
                      tail);
  define_with_out(
      m, "sobel2d(Tensor input, bool normalized=True, float eps=1e-6, *, str border_type='replicate', " + tail);
  define_with_out(m, "gaussian_sobel2d" + windows + "str magnitude='l2', " + tail);
  define_with_out(
      m, "separable_sum2d(Tensor input, Tensor[] kernels_x, Tensor[] kernels_y, str border_type='reflect', *, " + tail);
  define_with_out(m, "unsharp_mask2d" + windows + "float amount=1.0, " + tail);
  define_with_out(m, "structure_tensor2d" + windows + "str mode='sobel', " + tail);
  define_with_out(m, "thin_edges2d" + windows + tail);
  define_with_out(m,
                  "gaussian_gradient3d(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, "
                  "str border_type='replicate', *, str mode='diff', " +
                      tail);
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
