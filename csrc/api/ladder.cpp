// ladder1d, ladder2d and ladder3d: the textbook kernels as operators.
#include <algorithm>
#include <cmath>

#include "api/operator.h"
#include "api/schema.h"
#include "graph/allocate.h"
#include "graph/decision.h"
#include "kernels/ladder/entry_points.h"

namespace torch_conv {

namespace {

// The rungs of signals, images and volumes, in the order of the enums.
constexpr const char* kRungs1d[] = {"naive", "constant", "tiled", "l2_halo"};
constexpr const char* kRungs2d[] = {"naive", "constant", "tiled", "l2_halo", "fused"};
constexpr const char* kRungs3d[] = {"naive", "constant", "tiled", "l2_halo", "separable"};

void check_operands(const char* op, const Tensor& input, const Tensor& kernel, int64_t axes) {
  check(input.dim() >= axes, op, "input must have at least ", axes, axes == 1 ? " dimension" : " dimensions", ", got ",
        input.dim());
  check(input.scalar_type() == ScalarType::Float, op, "input must have dtype float32, got ",
        dtype_text(input.scalar_type()));
  check(kernel.scalar_type() == ScalarType::Float, op, "kernel must have dtype float32, got ",
        dtype_text(kernel.scalar_type()));
  check(kernel.is_cpu(), op, "kernel must be on cpu, got ", device_text(kernel));
}

// The caller has chosen the kernel, so nothing is planned. No launch graph repeats a ladder's call.
template <typename Problem, typename Variant>
void run(Call& call, const Target& target, const Problem& p, Variant variant, double elements, double taps,
         int launches = 1) {
  if (call.graph) call.graph->invalidate();
  Kernels kernels;
  if (target.cuda() && call.loads()) kernels = load_all(ladder::kernels_cuda(p, variant), target.arch());
  const Plan plan{.algorithm = "ladder",
                  .variant = "textbook",
                  .why = "the caller's choice",
                  .launches = launches,
                  .bytes = 8 * elements,
                  .flops = 2 * taps * elements};
  if (only_explain(call, target, plan)) return;
  if (!target.cuda()) return ladder::run_cpu(p, variant);
  ladder::run_cuda(p, variant, {target.stream(), nullptr, kernels.data()});
}

Tensor ladder1d(Call& call, const Tensor& input, const Tensor& kernel, const std::string& variant_name,
                const Sizes& block) {
  const char* op = call.op;
  const auto variant = ladder::Variant1d(name_index(op, "variant", variant_name, kRungs1d));
  check_operands(op, input, kernel, 1);
  check(kernel.dim() == 1 && kernel.size(0) % 2 == 1, op, "kernel must have 1 dimension of odd size, got shape ",
        shape_text(sizes_of(kernel)));
  check(kernel.numel() * 4 <= kLadderTapBytes, op, "kernel must have at most ", kLadderTapBytes / 4,
        " taps to fit into constant memory (filter1d has no such limit), got ", kernel.numel());
  check_per_axis(op, "block", block, 1);
  check(block[0] <= 1024, op, "block must have at most 1024 threads, got ", block[0]);
  const Tensor in = torch::stable::contiguous(input);
  const Tensor taps = torch::stable::contiguous(kernel);
  const Tensor out = allocate(call, in, sizes_of(in), ScalarType::Float);
  if (out.numel() == 0) return out;
  const int64_t w = in.size(in.dim() - 1);
  const Target target(call, input);
  run(call, target,
      Ladder1d{.in = static_cast<const float*>(in.data_ptr()),
               .out = static_cast<float*>(out.data_ptr()),
               .taps = static_cast<const float*>(taps.data_ptr()),
               .rows = in.numel() / w,
               .w = w,
               .k = int(kernel.size(0)),
               .block = int(block[0])},
      variant, double(in.numel()), double(kernel.size(0)));
  return out;
}

Tensor ladder2d(Call& call, const Tensor& input, const Tensor& kernel, const std::string& variant_name,
                const Sizes& block) {
  const char* op = call.op;
  const auto variant = ladder::Variant(name_index(op, "variant", variant_name, kRungs2d));
  check_operands(op, input, kernel, 2);
  check(kernel.dim() == 2 && kernel.size(0) == kernel.size(1) && kernel.size(0) % 2 == 1, op,
        "kernel must be square and odd, got shape ", shape_text(sizes_of(kernel)));
  const int64_t k = kernel.size(0);
  check(variant != ladder::Variant::fused || k == 3, op, "variant 'fused' takes a 3x3 kernel, got ", k, "x", k);
  check(k * k * 4 <= kLadderTapBytes, op, "kernel must have at most ", kLadderTapBytes / 4,
        " taps to fit into constant memory, got ", k * k);
  check_per_axis(op, "block", block, 2);
  check(block[0] <= 1024 && block[1] <= 1024 && block[0] * block[1] <= 1024, op,
        "block must have at most 1024 threads, got ", block[0], "x", block[1]);
  const Tensor in = torch::stable::contiguous(input);
  const Tensor taps = torch::stable::contiguous(kernel);
  const Tensor out = allocate(call, in, sizes_of(in), ScalarType::Float);
  if (out.numel() == 0) return out;
  const int64_t h = in.size(in.dim() - 2), w = in.size(in.dim() - 1);
  const Target target(call, input);
  run(call, target,
      Ladder2d{.in = static_cast<const float*>(in.data_ptr()),
               .out = static_cast<float*>(out.data_ptr()),
               .taps = static_cast<const float*>(taps.data_ptr()),
               .planes = in.numel() / (h * w),
               .h = h,
               .w = w,
               .k = int(k),
               .block_x = int(block[0]),
               .block_y = int(block[1])},
      variant, double(in.numel()), double(k) * double(k));
  return out;
}

// CUDA's limits of a block: 1024 threads, and 64 along z.
void check_block3d(const char* op, const Sizes& block) {
  check_per_axis(op, "block", block, 3);
  const bool fits = block[0] <= 1024 && block[1] <= 1024 && block[2] <= 1024 && block[0] * block[1] * block[2] <= 1024;
  check(fits, op, "block must have at most 1024 threads, got ", block[0], "x", block[1], "x", block[2]);
  check(block[2] <= 64, op, "block must have at most 64 threads along z, got ", block[2]);
}

// The windows along z, y and x whose outer product is the kernel: the lines through its largest tap.
std::vector<float> factors_of(const char* op, const Ladder3d& p) {
  const auto tap = [&](int64_t l, int64_t i, int64_t j) { return double(p.taps[(l * p.kh + i) * p.kw + j]); };
  int64_t largest = 0;
  for (int64_t t = 1; t < int64_t(p.kd) * p.kh * p.kw; ++t)
    if (std::abs(p.taps[t]) > std::abs(p.taps[largest])) largest = t;
  const int64_t l0 = largest / p.kw / p.kh, i0 = largest / p.kw % p.kh, j0 = largest % p.kw;
  const double peak = p.taps[largest], scale = peak == 0 ? 1 : peak;  // a window of zeros has factors of zeros

  for (int64_t l = 0; l < p.kd; ++l)
    for (int64_t i = 0; i < p.kh; ++i)
      for (int64_t j = 0; j < p.kw; ++j) {
        const double product = tap(l, i0, j0) * (tap(l0, i, j0) / scale) * (tap(l0, i0, j) / scale);
        if (!(std::abs(product - tap(l, i, j)) <= 1e-6 * std::abs(peak)))  // a NaN is refused too
          refuse(op,
                 "variant 'separable' takes a kernel that is the outer product of three windows, got one whose tap ",
                 shape_text({l, i, j}), " is not their product");
      }
  std::vector<float> factors;
  for (int64_t l = 0; l < p.kd; ++l) factors.push_back(float(tap(l, i0, j0)));
  for (int64_t i = 0; i < p.kh; ++i) factors.push_back(float(tap(l0, i, j0) / scale));
  for (int64_t j = 0; j < p.kw; ++j) factors.push_back(float(tap(l0, i0, j) / scale));
  return factors;
}

// Tile and halo must fit into the shared memory of one block, in every pass of the separable rung.
void check_tile(const char* op, const Ladder3d& p, ladder::Variant3d variant, int64_t available) {
  int64_t needed = 0;  // other rungs keep at most the block's own voxels, which always fit
  if (variant == ladder::Variant3d::tiled) needed = p.tile_bytes(p.kd, p.kh, p.kw);
  if (variant == ladder::Variant3d::separable)
    needed = std::max({p.tile_bytes(p.kd, 1, 1), p.tile_bytes(1, p.kh, 1), p.tile_bytes(1, 1, p.kw)});
  check(needed <= available, op, "block and kernel must keep tile and halo within ", available,
        " bytes of shared memory, got ", needed);
}

Tensor ladder3d(Call& call, const Tensor& input, const Tensor& kernel, const std::string& variant_name,
                const Sizes& block) {
  const char* op = call.op;
  const auto variant = ladder::Variant3d(name_index(op, "variant", variant_name, kRungs3d));
  check_operands(op, input, kernel, 3);
  check(kernel.dim() == 3 && kernel.size(0) % 2 == 1 && kernel.size(1) % 2 == 1 && kernel.size(2) % 2 == 1, op,
        "kernel must have 3 dimensions of odd size, got shape ", shape_text(sizes_of(kernel)));
  check(kernel.numel() * 4 <= kLadder3dTapBytes, op, "kernel must have at most ", kLadder3dTapBytes / 4,
        " taps to fit into constant memory (filter3d has no such limit), got ", kernel.numel());
  check_block3d(op, block);
  const Tensor in = torch::stable::contiguous(input);
  const Tensor taps = torch::stable::contiguous(kernel);
  const Tensor out = allocate(call, in, sizes_of(in), ScalarType::Float);
  if (out.numel() == 0) return out;
  const int64_t d = in.size(in.dim() - 3), h = in.size(in.dim() - 2), w = in.size(in.dim() - 1);
  Ladder3d problem{.in = static_cast<const float*>(in.data_ptr()),
                   .out = static_cast<float*>(out.data_ptr()),
                   .taps = static_cast<const float*>(taps.data_ptr()),
                   .volumes = in.numel() / (d * h * w),
                   .d = d,
                   .h = h,
                   .w = w,
                   .kd = int(kernel.size(0)),
                   .kh = int(kernel.size(1)),
                   .kw = int(kernel.size(2)),
                   .block_x = int(block[0]),
                   .block_y = int(block[1]),
                   .block_z = int(block[2]),
                   .scratch = nullptr};
  const Target target(call, input);
  if (target.cuda()) check_tile(op, problem, variant, target.arch().shared_bytes);
  std::vector<float> factors;
  std::optional<Tensor> scratch;
  if (variant == ladder::Variant3d::separable) {
    factors = factors_of(op, problem);
    problem.taps = factors.data();
    if (target.cuda()) {
      scratch = allocate(call, in, sizes_of(in), ScalarType::Float);
      problem.scratch = static_cast<float*>(scratch->data_ptr());
    }
  }
  const bool passes = variant == ladder::Variant3d::separable;
  const double kd = problem.kd, kh = problem.kh, kw = problem.kw;
  run(call, target, problem, variant, double(in.numel()), passes ? kd + kh + kw : kd * kh * kw, passes ? 3 : 1);
  return out;
}

template <typename Ladder>
void implement(torch::stable::detail::StableLibrary& m) {
  m.impl(Ladder::op(), boxed<&Ladder::run, Ladder::kName>);
  m.impl(("_" + Ladder::form("_query")).c_str(), boxed<&Ladder::query, Ladder::kName>);
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  implement<Operator<"ladder1d", 1, 0, ladder1d>>(m);
  implement<Operator<"ladder2d", 2, 0, ladder2d>>(m);
  implement<Operator<"ladder3d", 3, 0, ladder3d>>(m);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  for (const char* schema : {"ladder1d(Tensor input, Tensor kernel, str variant='naive', int[1] block=256) -> Tensor",
                             "ladder2d(Tensor input, Tensor kernel, str variant='naive', int[2] block=16) -> Tensor",
                             "ladder3d(Tensor input, Tensor kernel, str variant='naive', int[3] block=8) -> Tensor"}) {
    m.def(schema);
    m.def(query_schema(schema).c_str());
  }
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
