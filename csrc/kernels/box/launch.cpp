// Plan -> parameters and launch; one function per kernel or two that take the same parameters.
#include "runtime/launch.h"

#include "kernels/box/depth/plan.h"
#include "kernels/box/plan.h"

namespace torch_conv::box {

namespace {

// Bytes from row to row if all rows of all planes are dense and start on aligned vectors, else 0.
int pack_pitch(const Image& x) {
  const int64_t v = columns_per_thread(size_of(x.dtype)), size = size_of(x.dtype);
  return x.stride_w == 1 && rows_start_on(x, v * size) && x.stride_h > 0 && x.stride_h * size <= INT_MAX
             ? int(x.stride_h * size)
             : 0;
}

Args args_of(const Box& p, const Plan& plan, const Config& config) {
  const int tiles = int(ceil_div(p.out.w, plan.tile_w)), strips = int(ceil_div(p.out.h, plan.tile_h));
  const bool whole_tiles = tiles == 1 || plan.tile_w % columns_per_thread(size_of(p.out.dtype)) == 0;
  return {.in = p.in.data,
          .out = p.out.data,
          .in_stride_n = p.in.stride_n,
          .in_stride_c = p.in.stride_c,
          .in_stride_h = p.in.stride_h,
          .in_stride_w = p.in.stride_w,
          .out_stride_n = p.out.stride_n,
          .out_stride_c = p.out.stride_c,
          .out_stride_h = p.out.stride_h,
          .out_stride_w = p.out.stride_w,
          .planes = p.out.n * p.out.c,
          .channels = p.out.c,
          .work = plan.blocks,
          .in_h = int(p.in.h),
          .in_w = int(p.in.w),
          .out_h = int(p.out.h),
          .out_w = int(p.out.w),
          .kh = int(p.kh),
          .kw = int(p.kw),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .tile_w = plan.tile_w,
          .strip_h = plan.tile_h,
          .tiles = tiles,
          .strips = strips,
          .carry = config.carry,
          .pack_pitch = pack_pitch(p.in),
          .out_packs = pack_pitch(p.out) > 0 && whole_tiles,
          .scale = p.scale,
          .value = p.place.value,
          .border = p.place.border,
          .finish = config.finish,
          .out_dtype = p.out.dtype};
}

// STREAMING and PLAIN. Blocks beyond the grid's limit loop over the rest of the work.
void launch_sums(const Box& p, const Plan& plan, const Config& config, const Site& site) {
  const Blocks blocks{std::min<int64_t>(plan.blocks, INT_MAX)};
  launch_kernel(*site.kernels[0], blocks, {unsigned(plan.threads)}, plan.shared_bytes, site.stream,
                args_of(p, plan, config));
}

// Blocks beyond the grid's limit loop over the rest of the work.
void launch_groups(const Box& p, const Plan& plan, const Site& site) {
  launch_kernel(*site.kernels[0], Blocks{std::min<int64_t>(plan.blocks, INT_MAX)}, {unsigned(plan.threads)},
                plan.shared_bytes, site.stream, group_args(p, plan));
}

void launch_strips(const Box& p, const Plan& plan, const StripShape& shape, const Site& site) {
  launch(plan, site, strip_args(p, plan, shape));
}

void launch_bytes(const Box& p, const Plan& plan, const ByteShape& shape, const Site& site) {
  launch(plan, site, byte_args(p, plan, shape));
}

}  // namespace

Plan plan_cuda(const Box& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Box& p, const Plan& plan, const Site& site) {
  if (plan.blocks == 0) return;
  if (const auto* shape = std::any_cast<StripShape>(&plan.config)) launch_strips(p, plan, *shape, site);
  else if (const auto* shape = std::any_cast<ByteShape>(&plan.config)) launch_bytes(p, plan, *shape, site);
  else if (is_integer(p.in.dtype)) launch_sums(p, plan, *std::any_cast<Config>(&plan.config), site);
  else launch_groups(p, plan, site);
}

Plan plan_depth_cuda(const BoxDepth& p, const Arch& arch, const char* variant) { return depth_plan(p, arch, variant); }

void run_depth_cuda(const BoxDepth& p, const Plan& plan, const Site& site) {
  if (plan.blocks == 0) return;
  launch(plan, site, depth_args(p, plan, *std::any_cast<DepthConfig>(&plan.config)));
}

}  // namespace torch_conv::box
