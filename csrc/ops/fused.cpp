// The named pipelines: chains of small filters between one read and one write. Each is a few lines of stages.
#include "ops/pipeline.h"
#include "ops/split.h"

namespace torch_conv {

namespace {

using Out = std::optional<Tensor>;

// What every pipeline takes besides its own.
FilterOptions tail(const std::string& border_type, const std::string& padding, double value, const Type& output_type,
                   const std::string& algorithm, int axes = 2) {
  return {border_type, false, padding, value, {}, Sizes(axes, 1), Sizes(axes, 1), output_type, algorithm};
}

Tensor gradient(const Tensor& input, const std::string& mode, int64_t order, bool normalized, const FilterOptions& o,
                const Out& out) {
  constexpr const char* op = "gradient2d";
  const Derivatives derivatives = Derivatives::of_images(op, mode, order, normalized);
  Pipeline p(op, 2, input, o, out);
  return p.run({p.derivative(derivatives, Point::each)}, true);
}

Tensor sobel(const Tensor& input, bool normalized, double eps, const FilterOptions& o, const Out& out) {
  constexpr const char* op = "sobel2d";
  const Derivatives derivatives = Derivatives::of_images(op, "sobel", 1, normalized);
  Pipeline p(op, 2, input, o, out);
  return p.run({p.derivative(derivatives, Point::l2, eps)});
}

Tensor gaussian_sobel(const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y, const std::string& magnitude,
                      const FilterOptions& o, const Out& out) {
  constexpr const char* op = "gaussian_sobel2d";
  check(magnitude == "l1" || magnitude == "l2", op, "magnitude must be 'l1' or 'l2', got '", magnitude, "'");
  const Derivatives derivatives = Derivatives::of_images(op, "sobel", 1, false);
  Pipeline p(op, 2, input, o, out);
  const Stage blur = p.window({kernel_x, kernel_y});
  return p.run({blur, p.derivative(derivatives, magnitude == "l1" ? Point::l1 : Point::l2)});
}

Tensor sum(const Tensor& input, const std::vector<Tensor>& kernels_x, const std::vector<Tensor>& kernels_y,
           const FilterOptions& o, const Out& out) {
  constexpr const char* op = "separable_sum2d";
  const size_t count = kernels_x.size();
  check(count == kernels_y.size() && count >= 1 && count <= Stage::kMost, op,
        "kernels_x and kernels_y must be equally many, 1 to 3, got ", count, " and ", kernels_y.size());
  Pipeline p(op, 2, input, o, out);
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

Tensor unsharp(const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y, double amount,
               const FilterOptions& o, const Out& out) {
  Pipeline p("unsharp_mask2d", 2, input, o, out);
  return p.run({with_point(p.window({kernel_x, kernel_y}), Point::sharpen, amount)});
}

Tensor structure_tensor(const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y, const std::string& mode,
                        const FilterOptions& o, const Out& out) {
  constexpr const char* op = "structure_tensor2d";
  const Derivatives derivatives = Derivatives::of_images(op, mode, 1, true);
  Pipeline p(op, 2, input, o, out);
  Stage smooth = p.window({kernel_x, kernel_y});
  smooth.windows = 3;  // one for each product
  for (int i = 1; i < 3; ++i) smooth.taps_x[i] = smooth.taps_x[0], smooth.taps_y[i] = smooth.taps_y[0];
  return p.run({p.derivative(derivatives, Point::products), smooth}, true);
}

Tensor thin_edges(const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y, const FilterOptions& o,
                  const Out& out) {
  constexpr const char* op = "thin_edges2d";
  const Derivatives derivatives = Derivatives::of_images(op, "sobel", 1, false);
  Pipeline p(op, 2, input, o, out);
  const Stage blur = p.window({kernel_x, kernel_y});
  return p.run({blur, p.derivative(derivatives, Point::polar), {.windows = 0, .point = Point::thin}});
}

Tensor gaussian_gradient(const Tensor& input, const Tensor& kernel_x, const Tensor& kernel_y, const Tensor& kernel_z,
                         const std::string& mode, const FilterOptions& o, const Out& out) {
  constexpr const char* op = "gaussian_gradient3d";
  const Derivatives derivatives = Derivatives::of_volumes(op, mode);
  Pipeline p(op, 3, input, o, out);
  const Stage blur = p.window({kernel_x, kernel_y, kernel_z});
  return p.run({blur, p.derivative(derivatives, Point::l2)});
}

// As the dispatcher calls them. b, p, v, t, a: border_type, padding, value, output_dtype, algorithm.
using Str = std::string;

Tensor gradient_op(Tensor x, Str mode, int64_t order, bool normalized, Str b, Str p, double v, Type t, Str a) {
  return gradient(x, mode, order, normalized, tail(b, p, v, t, a), {});
}
void gradient_out_op(Tensor x, Str mode, int64_t order, bool normalized, Str b, Str p, double v, Str a, Tensor out) {
  gradient(x, mode, order, normalized, tail(b, p, v, {}, a), out);
}

Tensor sobel_op(Tensor x, bool normalized, double eps, Str b, Str p, double v, Type t, Str a) {
  return sobel(x, normalized, eps, tail(b, p, v, t, a), {});
}
void sobel_out_op(Tensor x, bool normalized, double eps, Str b, Str p, double v, Str a, Tensor out) {
  sobel(x, normalized, eps, tail(b, p, v, {}, a), out);
}

Tensor gaussian_sobel_op(Tensor x, Tensor kx, Tensor ky, Str b, Str magnitude, Str p, double v, Type t, Str a) {
  return gaussian_sobel(x, kx, ky, magnitude, tail(b, p, v, t, a), {});
}
void gaussian_sobel_out_op(Tensor x, Tensor kx, Tensor ky, Str b, Str magnitude, Str p, double v, Str a, Tensor out) {
  gaussian_sobel(x, kx, ky, magnitude, tail(b, p, v, {}, a), out);
}

Tensor sum_op(Tensor x, std::vector<Tensor> kx, std::vector<Tensor> ky, Str b, Str p, double v, Type t, Str a) {
  return sum(x, kx, ky, tail(b, p, v, t, a), {});
}
void sum_out_op(Tensor x, std::vector<Tensor> kx, std::vector<Tensor> ky, Str b, Str p, double v, Str a, Tensor out) {
  sum(x, kx, ky, tail(b, p, v, {}, a), out);
}

Tensor unsharp_op(Tensor x, Tensor kx, Tensor ky, Str b, double amount, Str p, double v, Type t, Str a) {
  return unsharp(x, kx, ky, amount, tail(b, p, v, t, a), {});
}
void unsharp_out_op(Tensor x, Tensor kx, Tensor ky, Str b, double amount, Str p, double v, Str a, Tensor out) {
  unsharp(x, kx, ky, amount, tail(b, p, v, {}, a), out);
}

Tensor structure_tensor_op(Tensor x, Tensor kx, Tensor ky, Str b, Str mode, Str p, double v, Type t, Str a) {
  return structure_tensor(x, kx, ky, mode, tail(b, p, v, t, a), {});
}
void structure_tensor_out_op(Tensor x, Tensor kx, Tensor ky, Str b, Str mode, Str p, double v, Str a, Tensor out) {
  structure_tensor(x, kx, ky, mode, tail(b, p, v, {}, a), out);
}

Tensor thin_edges_op(Tensor x, Tensor kx, Tensor ky, Str b, Str p, double v, Type t, Str a) {
  return thin_edges(x, kx, ky, tail(b, p, v, t, a), {});
}
void thin_edges_out_op(Tensor x, Tensor kx, Tensor ky, Str b, Str p, double v, Str a, Tensor out) {
  thin_edges(x, kx, ky, tail(b, p, v, {}, a), out);
}

Tensor gaussian_gradient_op(Tensor x, Tensor kx, Tensor ky, Tensor kz, Str b, Str mode, Str p, double v, Type t,
                            Str a) {
  return gaussian_gradient(x, kx, ky, kz, mode, tail(b, p, v, t, a, 3), {});
}
void gaussian_gradient_out_op(Tensor x, Tensor kx, Tensor ky, Tensor kz, Str b, Str mode, Str p, double v, Str a,
                              Tensor out) {
  gaussian_gradient(x, kx, ky, kz, mode, tail(b, p, v, {}, a, 3), out);
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  m.impl("gradient2d", TORCH_BOX(&gradient_op));
  m.impl("gradient2d_split", TORCH_BOX((&Split<"gradient2d", 2, 1, gradient_op>::run)));
  m.impl("gradient2d_out", TORCH_BOX(&gradient_out_op));
  m.impl("sobel2d", TORCH_BOX(&sobel_op));
  m.impl("sobel2d_split", TORCH_BOX((&Split<"sobel2d", 2, 1, sobel_op>::run)));
  m.impl("sobel2d_out", TORCH_BOX(&sobel_out_op));
  m.impl("gaussian_sobel2d", TORCH_BOX(&gaussian_sobel_op));
  m.impl("gaussian_sobel2d_split", TORCH_BOX((&Split<"gaussian_sobel2d", 2, 1, gaussian_sobel_op>::run)));
  m.impl("gaussian_sobel2d_out", TORCH_BOX(&gaussian_sobel_out_op));
  m.impl("separable_sum2d", TORCH_BOX(&sum_op));
  m.impl("separable_sum2d_split", TORCH_BOX((&Split<"separable_sum2d", 2, 1, sum_op>::run)));
  m.impl("separable_sum2d_out", TORCH_BOX(&sum_out_op));
  m.impl("unsharp_mask2d", TORCH_BOX(&unsharp_op));
  m.impl("unsharp_mask2d_split", TORCH_BOX((&Split<"unsharp_mask2d", 2, 1, unsharp_op>::run)));
  m.impl("unsharp_mask2d_out", TORCH_BOX(&unsharp_out_op));
  m.impl("structure_tensor2d", TORCH_BOX(&structure_tensor_op));
  m.impl("structure_tensor2d_split", TORCH_BOX((&Split<"structure_tensor2d", 2, 1, structure_tensor_op>::run)));
  m.impl("structure_tensor2d_out", TORCH_BOX(&structure_tensor_out_op));
  m.impl("thin_edges2d", TORCH_BOX(&thin_edges_op));
  m.impl("thin_edges2d_split", TORCH_BOX((&Split<"thin_edges2d", 2, 1, thin_edges_op>::run)));
  m.impl("thin_edges2d_out", TORCH_BOX(&thin_edges_out_op));
  m.impl("gaussian_gradient3d", TORCH_BOX(&gaussian_gradient_op));
  m.impl("gaussian_gradient3d_split", TORCH_BOX((&Split<"gaussian_gradient3d", 3, 1, gaussian_gradient_op>::run)));
  m.impl("gaussian_gradient3d_out", TORCH_BOX(&gaussian_gradient_out_op));
}

}  // namespace

// One function serves both: the rooms part by device.
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
