// The doors of the separable room on CUDA: which variant, then which instance.
#include <string_view>

#include "separable2d/launch.cuh"

namespace torch_conv::separable2d {

namespace {

template <typename T>
TileKernel* tile_kernel_of(int64_t k) {
  switch (k) {
    case 3: return separable_tile<T, 3>;
    case 5: return separable_tile<T, 5>;
    case 7: return separable_tile<T, 7>;
    case 9: return separable_tile<T, 9>;
    case 11: return separable_tile<T, 11>;
    case 13: return separable_tile<T, 13>;
    case 15: return separable_tile<T, 15>;
  }
  throw std::logic_error("torch_conv: separable_tile has no instance of this size");
}

TileKernel* tile_kernel(Dtype dtype, int64_t k) {
  switch (dtype) {
    case Dtype::f32: return tile_kernel_of<float>(k);
    case Dtype::f16: return tile_kernel_of<half_t>(k);
    case Dtype::bf16: return tile_kernel_of<bhalf_t>(k);
    case Dtype::u8: return tile_kernel_of<uint8_t>(k);
    case Dtype::f64:
    case Dtype::i16:
    case Dtype::u16: break;
  }
  throw std::logic_error("torch_conv: separable_tile has no instance of this dtype");
}

Plan base_plan(const Separable2d& p) {
  const double inputs = double(p.in.n) * p.in.c * p.in.h * p.in.w, outputs = double(p.out.n) * p.out.c * p.out.h * p.out.w;
  Plan plan{.algorithm = "separable", .variant = nullptr, .why = "this variant cannot serve this problem"};
  plan.bytes = inputs * size_of(p.in.dtype) + outputs * size_of(p.out.dtype);
  plan.flops = 2.0 * outputs * double(p.kh + p.kw);
  return plan;
}

Plan plan_tile(const Separable2d& p, bool bulk) {
  const int size = size_of(p.in.dtype);
  const TileShape shape = tile_shape(size, int(p.kw));
  Plan plan = base_plan(p);
  plan.variant = bulk ? "tile_tma" : "tile";
  plan.why = bulk ? "compiled odd size, boxes by bulk copies" : "compiled odd size, boxes by loads";
  plan.tile_w = shape.w();
  plan.tile_h = shape.h();
  plan.threads = 32 * kTileWarps;
  plan.shared_bytes = shape.bytes(size);
  plan.blocks = p.out.n * p.out.c * divide_up(p.out.h, shape.h()) * divide_up(p.out.w, shape.w());
  return plan;
}

Plan plan_shared(const Separable2d& p, const GeneralTile& tile) {
  Plan plan = base_plan(p);
  plan.variant = "shared";
  plan.why = "any window whose row results fit shared memory";
  plan.tile_w = tile.pixels;
  plan.tile_h = tile.rows;
  plan.threads = 32 * kWarps;
  plan.shared_bytes = int(shared_bytes(tile, tile.ext_rows, p.in.dtype));
  plan.blocks = general_groups(p, tile) * general_columns(p, tile) * divide_up(p.out.h, tile.rows);
  return plan;
}

Plan plan_two_pass(const Separable2d& p) {
  constexpr int kRows = 32 * kWarps / kColumns * kColumnRows;
  const GeneralTile tile = general_tile(p, kRows);
  Plan plan = base_plan(p);
  plan.variant = "two_pass";
  plan.why = "a window whose halo outweighs a tile";
  plan.tile_w = tile.pixels;
  plan.tile_h = kRows;
  plan.threads = 32 * kWarps;
  plan.shared_bytes = int(shared_bytes(tile, kRowBlock, p.in.dtype));
  plan.blocks = general_groups(p, tile) * general_columns(p, tile) * divide_up(p.out.h, kRows);
  plan.launches = 2;
  plan.scratch_bytes =
      general_groups(p, tile) * (p.in.h + 1) * p.out.w * tile.channels * acc_bytes(p.in.dtype);
  return plan;
}

}  // namespace

Plan plan_cuda(const Separable2d& p, const Arch& arch, const char* variant) {
  const std::string_view pinned = variant ? variant : "";
  auto wanted = [&](std::string_view name) { return pinned.empty() || pinned == name; };
  const bool together = inline_together(p);
  if (together && tile_serves(p)) {
    if (wanted("tile_tma") && arch.bulk_copy && bulk_possible(p)) return plan_tile(p, true);
    if (wanted("tile")) return plan_tile(p, false);
  }
  if (together && wanted("shared")) {
    const GeneralTile tile = shared_tile(p, arch, !pinned.empty());
    if (tile.rows > 0) return plan_shared(p, tile);
  }
  if (wanted("two_pass")) return plan_two_pass(p);
  return base_plan(p);
}

void run_cuda(const Separable2d& p, const Plan& plan, void* scratch, void* stream) {
  if (plan.blocks == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  const std::string_view variant = plan.variant;
  if (variant == "tile_tma" || variant == "tile")
    launch_tile(tile_kernel(p.in.dtype, p.kw), p, plan, variant == "tile_tma", on);
  else
    with_type(p.in.dtype, [&](auto element) {
      using T = decltype(element);
      if (variant == "shared") launch_shared<T>(p, plan, on);
      else launch_two_pass<T>(p, plan, scratch, on);
    });
}

}  // namespace torch_conv::separable2d
