// The doors of the separable room on CUDA: which variant, then which instance.
#include <string_view>

#include "separable2d/launch.cuh"

namespace torch_conv::separable2d {

namespace {

template <typename T, bool kAligned>
TileKernel* tile_kernel_of(int64_t k) {
  switch (k) {
    case 3: return separable_tile<T, 3, kAligned>;
    case 5: return separable_tile<T, 5, kAligned>;
    case 7: return separable_tile<T, 7, kAligned>;
    case 9: return separable_tile<T, 9, kAligned>;
    case 11: return separable_tile<T, 11, kAligned>;
    case 13: return separable_tile<T, 13, kAligned>;
    case 15: return separable_tile<T, 15, kAligned>;
  }
  throw std::logic_error("torch_conv: separable_tile has no instance of this size");
}

template <typename T>
TileKernel* tile_kernel_of(const Separable& p) {
  const int columns = tile_shape(sizeof(T), int(p.kw)).columns;
  const bool aligned =
      p.out.w % columns == 0 && lead_columns(p) % columns == 0 && aligned_rows(p.out, columns * sizeof(T));
  return aligned ? tile_kernel_of<T, true>(p.kw) : tile_kernel_of<T, false>(p.kw);
}

TileKernel* tile_kernel(const Separable& p) {
  switch (p.in.dtype) {
    case Dtype::f32: return tile_kernel_of<float>(p);
    case Dtype::f16: return tile_kernel_of<half_t>(p);
    case Dtype::bf16: return tile_kernel_of<bhalf_t>(p);
    case Dtype::u8: return tile_kernel_of<uint8_t>(p);
    case Dtype::f64:
    case Dtype::i16:
    case Dtype::u16: break;
  }
  throw std::logic_error("torch_conv: separable_tile has no instance of this dtype");
}

Plan base_plan(const Separable& p) {
  const double inputs = double(p.in.n) * p.in.c * p.in.h * p.in.w,
               outputs = double(p.out.n) * p.out.c * p.out.h * p.out.w;
  Plan plan{.algorithm = "separable", .variant = nullptr, .why = "this variant cannot serve this problem"};
  plan.bytes = inputs * size_of(p.in.dtype) + outputs * size_of(p.out.dtype);
  plan.flops = 2.0 * outputs * double(p.kh + p.kw);
  return plan;
}

Plan plan_tile(const Separable& p, bool bulk) {
  const int size = size_of(p.in.dtype);
  const TileShape shape = tile_shape(size, int(p.kw));
  Plan plan = base_plan(p);
  plan.variant = bulk ? "tile_tma" : "tile";
  plan.why = bulk ? "compiled odd size, boxes by bulk copies" : "compiled odd size, boxes by loads";
  plan.tile_w = shape.w();
  plan.tile_h = shape.h();
  plan.threads = 32 * kTileWarps;
  plan.shared_bytes = shape.bytes(size);
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.h, shape.h()) * ceil_div(p.out.w + lead_columns(p), shape.w());
  return plan;
}

Plan plan_strip(const Separable& p, const Arch& arch) {
  const StripShape shape = strip_shape(p, strip_steps(p, arch));
  Plan plan = base_plan(p);
  plan.variant = "strip";
  plan.why = "planar image at stride 1: row results in a ring, marching down";
  plan.tile_w = kStripThreads;
  plan.tile_h = shape.steps * kStripRows;
  plan.threads = kStripThreads;
  plan.shared_bytes = shape.bytes;
  plan.blocks = strip_blocks(p, shape.steps);
  return plan;
}

Plan plan_shared(const Separable& p, const GeneralTile& tile) {
  Plan plan = base_plan(p);
  plan.variant = "shared";
  plan.why = "any window whose row results fit shared memory";
  plan.tile_w = tile.pixels;
  plan.tile_h = tile.rows;
  plan.threads = 32 * kWarps;
  plan.shared_bytes = int(shared_bytes(tile, tile.ext_rows, p.in.dtype));
  plan.blocks = general_groups(p, tile) * general_columns(p, tile) * ceil_div(p.out.h, tile.rows);
  return plan;
}

Plan plan_two_pass(const Separable& p) {
  constexpr int kRows = 32 * kWarps / kColumns * kColumnRows;
  const GeneralTile tile = general_tile(p, kRows);
  Plan plan = base_plan(p);
  plan.variant = "two_pass";
  plan.why = "a window whose halo outweighs a tile";
  plan.tile_w = tile.pixels;
  plan.tile_h = kRows;
  plan.threads = 32 * kWarps;
  plan.shared_bytes = int(shared_bytes(tile, kRowBlock, p.in.dtype));
  plan.blocks = general_groups(p, tile) * general_columns(p, tile) * ceil_div(p.out.h, kRows);
  plan.launches = 2;
  plan.scratch_bytes = general_groups(p, tile) * (p.in.h + 1) * p.out.w * tile.channels * acc_bytes(p.in.dtype);
  return plan;
}

void run_strip(const Separable& p, const Plan& plan, cudaStream_t stream) {
  switch (p.in.dtype) {
    case Dtype::f32: return launch_strip<float>(p, plan, stream);
    case Dtype::f16: return launch_strip<half_t>(p, plan, stream);
    case Dtype::bf16: return launch_strip<bhalf_t>(p, plan, stream);
    case Dtype::u8: return launch_strip<uint8_t>(p, plan, stream);
    case Dtype::f64:
    case Dtype::i16:
    case Dtype::u16: break;
  }
  throw std::logic_error("torch_conv: separable_strip has no instance of this dtype");
}

}  // namespace

Plan plan_cuda(const Separable& p, const Arch& arch, const char* variant) {
  const std::string_view pinned = variant ? variant : "";
  auto wanted = [&](std::string_view name) { return pinned.empty() || pinned == name; };
  if (p.beside.any() && !p.beside.same_columns(p.in)) return base_plan(p);
  if (tile_serves(p)) {
    if (wanted("tile_tma") && arch.bulk_copy && bulk_possible(p)) return plan_tile(p, true);
    if (wanted("tile")) return plan_tile(p, false);
  }
  if (wanted("strip") && strip_serves(p, arch)) return plan_strip(p, arch);
  if (p.beside.any()) return base_plan(p);  // the others do not read other shards
  if (wanted("shared")) {
    const GeneralTile tile = shared_tile(p, arch, !pinned.empty());
    if (tile.rows > 0) return plan_shared(p, tile);
  }
  if (wanted("two_pass")) return plan_two_pass(p);
  return base_plan(p);
}

void run_cuda(const Separable& p, const Plan& plan, void* scratch, void* stream) {
  if (plan.blocks == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  const std::string_view variant = plan.variant;
  if (variant == "tile_tma" || variant == "tile") launch_tile(tile_kernel(p), p, plan, variant == "tile_tma", on);
  else if (variant == "strip") run_strip(p, plan, on);
  else
    with_type(p.in.dtype, [&](auto element) {
      using T = decltype(element);
      if (variant == "shared") launch_shared<T>(p, plan, on);
      else launch_two_pass<T>(p, plan, scratch, on);
    });
}

}  // namespace torch_conv::separable2d
