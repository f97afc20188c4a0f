// The fused pipelines: chains of small filters between one read and one write.
#include "api/operator.h"
#include "api/pipeline.h"
#include "api/schema.h"

namespace torch_conv {

namespace {

using Str = const std::string&;

// The options of every pipeline.
FilterOptions options(Str border_type, Str padding, double value, const Type& output_type, Str algorithm,
                      int axes = 2) {
  return {border_type, false, padding, value, {}, Sizes(axes, 1), Sizes(axes, 1), output_type, algorithm};
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
