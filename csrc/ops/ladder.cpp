// ladder2d: the textbook kernels as one operator.
#include <utility>

#include "ops/images.h"
#include "ops/rooms.h"

namespace torch_conv {

namespace {

ladder::Variant variant_of(const char* op, const std::string& name) {
  static constexpr std::pair<const char*, ladder::Variant> names[] = {
      {"naive", ladder::Variant::naive},     {"constant", ladder::Variant::constant}, {"tiled", ladder::Variant::tiled},
      {"l2_halo", ladder::Variant::l2_halo}, {"fused", ladder::Variant::fused},
  };
  for (const auto& [known, variant] : names)
    if (name == known) return variant;
  refuse(op, "variant must be 'naive', 'constant', 'tiled', 'l2_halo' or 'fused', got '", name, "'");
}

Tensor ladder2d_op(Tensor input, Tensor kernel, std::string variant_name, Sizes block) {
  const char* op = "ladder2d";
  const ladder::Variant variant = variant_of(op, variant_name);
  check(input.dim() >= 2, op, "input must have at least 2 dimensions, got ", input.dim());
  check(input.scalar_type() == ScalarType::Float, op, "input must have dtype float32, got ",
        dtype_text(input.scalar_type()));
  check(kernel.scalar_type() == ScalarType::Float, op, "kernel must have dtype float32, got ",
        dtype_text(kernel.scalar_type()));
  check(kernel.is_cpu(), op, "kernel must be on cpu, got ", device_text(kernel));
  check(kernel.dim() == 2 && kernel.size(0) == kernel.size(1) && kernel.size(0) % 2 == 1, op,
        "kernel must be square and odd, got shape ", shape_text(sizes_of(kernel)));
  const int64_t k = kernel.size(0);
  check(variant != ladder::Variant::fused || k == 3, op, "variant 'fused' takes a 3x3 kernel, got ", k, "x", k);
  check(k * k * 4 <= kLadderTapBytes, op, "kernel must have at most ", kLadderTapBytes / 4,
        " taps to fit into constant memory, got ", k * k);
  check_pair(op, "block", block);
  check(block[0] <= 1024 && block[1] <= 1024 && block[0] * block[1] <= 1024, op,
        "block must have at most 1024 threads, got ", block[0], "x", block[1]);
  const Tensor in = torch::stable::contiguous(input);
  const Tensor taps = torch::stable::contiguous(kernel);
  const Tensor out = empty_contiguous(in, sizes_of(in), ScalarType::Float);
  if (out.numel() == 0) return out;
  const int64_t h = in.size(in.dim() - 2), w = in.size(in.dim() - 1);
  const Place place(op, input);
  run(op, place,
      Ladder2d{.in = static_cast<const float*>(in.data_ptr()),
               .out = static_cast<float*>(out.data_ptr()),
               .taps = static_cast<const float*>(taps.data_ptr()),
               .planes = in.numel() / (h * w),
               .h = h,
               .w = w,
               .k = int(k),
               .block_x = int(block[0]),
               .block_y = int(block[1])},
      variant);
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { m.impl("ladder2d", TORCH_BOX(&ladder2d_op)); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { m.impl("ladder2d", TORCH_BOX(&ladder2d_op)); }

}  // namespace torch_conv
