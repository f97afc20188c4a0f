// box2d: the sum or mean under a window.
#include "box/mean.h"
#include "ops/filters.h"
#include "ops/rooms.h"

namespace torch_conv {

namespace {

// float32, 16-bit floats on CUDA: up to 15x15 the separable room's compiled windows are faster than running sums (3x3
// 95 against 50 %, 15x15 79 against 71 % of copy; float32 8192^2, one NVIDIA H200), and closer. Integers stay with
// running sums, which are exact.
bool better_separable(const Box2d& p, bool cuda) {
  const bool floating = p.in.dtype == Dtype::f32 || p.in.dtype == Dtype::f16 || p.in.dtype == Dtype::bf16;
  return cuda && floating && p.out.dtype == p.in.dtype && p.kh == p.kw && p.kh % 2 == 1 && p.kh <= 15 &&
         p.in.stride_w == 1 && p.place.border != Border::skip;
}

// The window as two rows of taps; `taps` holds them for the call.
Separable2d as_separable(const Box2d& p, std::vector<float>& taps, bool cuda) {
  taps.assign(p.kw, 1.0f);
  taps.insert(taps.end(), p.kh, float(p.scale));
  const Taps shared{.data = taps.data(), .on_host = cuda, .stride_n = 0, .stride_c = 0, .stride_ci = 0};
  Separable2d s{.in = p.in, .out = p.out, .taps_x = shared, .taps_y = shared, .kh = p.kh, .kw = p.kw, .place = p.place};
  s.taps_y.data = taps.data() + p.kw;
  return s;
}

Tensor box2d(const char* op, const Tensor& input, const Sizes& kernel_size, const FilterOptions& o,
             const std::optional<Tensor>& out) {
  static constexpr const char* algorithms[] = {"auto", "box", "separable"};
  check_input(op, input);
  check_algorithm(op, o.algorithm, algorithms);
  check_pair(op, "kernel_size", kernel_size);
  const ImageView in = view_input(op, input);
  check(!box::is_integer(in.image.dtype) || kernel_size[0] * kernel_size[1] <= INT64_MAX >> 16, op,
        "windows over integer images must hold at most 2^47 pixels");
  const Geometry g = place_window(op, in.image, kernel_size[0], kernel_size[1], o);
  return produce(op, input, in, g, o, out, [&](const Image& image) {
    const Place place(op, input);
    const double area = double(kernel_size[0]) * double(kernel_size[1]);
    const Box2d problem{.in = in.image,
                        .out = image,
                        .kh = kernel_size[0],
                        .kw = kernel_size[1],
                        .scale = o.normalized ? 1.0 / area : 1.0,
                        .place = g.place};
    const bool separable = o.algorithm == "separable";
    check(!separable || better_separable(problem, place.cuda()), op,
          "algorithm 'separable' serves odd square windows up to 15x15 of planar floating-point images on CUDA");
    if (separable || (o.algorithm == "auto" && better_separable(problem, place.cuda()))) {
      std::vector<float> taps;
      run(op, place, input, as_separable(problem, taps, place.cuda()));
    } else {
      run(op, place, input, problem);
    }
  });
}

Tensor box2d_op(Tensor input, Sizes kernel_size, std::string border_type, bool normalized, std::string padding,
                double value, Anchor anchor, Type output_dtype, std::string algorithm) {
  return box2d("box2d", input, kernel_size,
               {border_type, normalized, padding, value, anchor, {1, 1}, {1, 1}, output_dtype, algorithm}, {});
}

void box2d_out_op(Tensor input, Sizes kernel_size, std::string border_type, bool normalized, std::string padding,
                  double value, Anchor anchor, std::string algorithm, Tensor out) {
  box2d("box2d", input, kernel_size, {border_type, normalized, padding, value, anchor, {1, 1}, {1, 1}, {}, algorithm},
        out);
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  m.impl("box2d", TORCH_BOX(&box2d_op));
  m.impl("box2d_out", TORCH_BOX(&box2d_out_op));
}

}  // namespace

// One function serves both: the rooms part by device.
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
