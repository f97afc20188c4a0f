// From a problem and its plan to grids, blocks, shared memory and parameters.
#pragma once

#include "separable2d/kernel_shared.cuh"
#include "separable2d/kernel_strip.cuh"
#include "separable2d/kernel_tile.cuh"
#include "separable2d/kernel_two_pass.cuh"

namespace torch_conv::separable2d {

static_assert(sizeof(TileParams) + sizeof(CUtensorMap) <= 4096 && sizeof(GeneralParams) + sizeof(void*) <= 4096,
              "kernel parameters beyond 4 KiB");

inline unsigned grid_size(int64_t blocks) {
  if (blocks >= int64_t(1) << 31)
    throw std::runtime_error("torch_conv: separable filter: too many tiles for one launch");
  return unsigned(blocks);
}

// A bulk copy needs rows of whole words.
inline bool bulk_possible(const Separable& p) { return p.in.w * size_of(p.in.dtype) % 4 == 0 && tma::possible(p.in); }

using TileKernel = void(TileParams, CUtensorMap);

inline void launch_tile(TileKernel* kernel, const Separable& p, const Plan& plan, bool bulk, cudaStream_t stream) {
  const int size = size_of(p.in.dtype);
  const TileShape shape = tile_shape(size, int(p.kw));
  const int lead = lead_columns(p);
  const TileParams params{
      .in = p.in.data,
      .out = p.out.data,
      .in_stride_n = p.in.stride_n,
      .in_stride_c = p.in.stride_c,
      .in_stride_h = p.in.stride_h,
      .out_stride_n = p.out.stride_n,
      .out_stride_c = p.out.stride_c,
      .out_stride_h = p.out.stride_h,
      .in_h = int(p.in.h),
      .in_w = int(p.in.w),
      .out_h = int(p.out.h),
      .out_w = int(p.out.w),
      .pad_y = int(p.place.pad_y),
      .pad_x = int(p.place.pad_x),
      .lead = lead,
      .channels = unsigned(p.out.c),
      .tiles_x = unsigned(ceil_div(p.out.w + lead, shape.w())),
      .tiles_y = unsigned(ceil_div(p.out.h, shape.h())),
      .value = float(p.place.value),
      .border = p.place.border,
      .bulk = bulk,
      .zero_fill = p.place.border == Border::constant && p.place.value == 0,
      .aligned_loads = aligned_rows(p.in, 16),
      .taps = pass_taps(p, true, true),
      .beside = Neighbours::of(p.beside, p.in),
  };
  const CUtensorMap map = bulk ? tma::plane_map(p.in, shape.pitch * size / 4, shape.box_h, 4 / size) : CUtensorMap{};
  allow_shared(kernel, plan.shared_bytes);
  kernel<<<grid_size(plan.blocks), plan.threads, plan.shared_bytes, stream>>>(params, map);
  launch_check("separable_tile");
}

template <typename T>
void launch_strip(const Separable& p, const Plan& plan, cudaStream_t stream) {
  const StripParams params{
      .in = p.in.data,
      .out = p.out.data,
      .in_stride_n = p.in.stride_n,
      .in_stride_c = p.in.stride_c,
      .in_stride_h = p.in.stride_h,
      .out_stride_n = p.out.stride_n,
      .out_stride_c = p.out.stride_c,
      .out_stride_h = p.out.stride_h,
      .in_h = int(p.in.h),
      .in_w = int(p.in.w),
      .out_h = int(p.out.h),
      .out_w = int(p.out.w),
      .pad_y = int(p.place.pad_y),
      .pad_x = int(p.place.pad_x),
      .kh = int(p.kh),
      .kw = int(p.kw),
      .channels = unsigned(p.out.c),
      .tiles_x = unsigned(ceil_div(p.out.w, plan.tile_w)),
      .tiles_y = unsigned(ceil_div(p.out.h, plan.tile_h)),
      .value = float(p.place.value),
      .border = p.place.border,
      .aligned_loads = aligned_rows(p.in, 16) && aligned_rows_beside(p.beside, 16),
      .shape = strip_shape(p, plan.tile_h / kStripRows),
      .taps = pass_taps(p, true, true),
      .beside = Neighbours::of(p.beside, p.in),
  };
  allow_shared(separable_strip<T>, plan.shared_bytes);
  separable_strip<T><<<grid_size(plan.blocks), plan.threads, plan.shared_bytes, stream>>>(params);
  launch_check("separable_strip");
}

inline GeneralParams general_params(const Separable& p, const GeneralTile& tile, int64_t rows, int64_t tile_rows,
                                    const PassTaps& taps) {
  const Placement& at = p.place;
  return {
      .in = p.in,
      .out = p.out,
      .place = at,
      .kh = int(p.kh),
      .kw = int(p.kw),
      .tile = tile,
      .reuse_x = at.stride_x == at.dilation_x && tile.pixels % kReuse == 0,
      .reuse_y = at.stride_y == at.dilation_y,
      .tiles_x = unsigned(ceil_div(p.out.w, tile.pixels)),
      .tiles_y = unsigned(ceil_div(rows, tile_rows)),
      .channel_blocks = unsigned(ceil_div(p.out.c, tile.channels)),
      .taps = taps,
  };
}

inline unsigned general_grid(const GeneralParams& p) {
  return grid_size(p.in.n * p.channel_blocks * p.tiles_x * p.tiles_y);
}

template <typename T>
void launch_shared(const Separable& p, const Plan& plan, cudaStream_t stream) {
  const GeneralTile tile = general_tile(p, plan.tile_h);
  const GeneralParams params = general_params(p, tile, p.out.h, tile.rows, pass_taps(p, true, true));
  allow_shared(separable_shared<T>, plan.shared_bytes);
  separable_shared<T><<<general_grid(params), plan.threads, plan.shared_bytes, stream>>>(params);
  launch_check("separable_shared");
}

template <typename T>
void launch_two_pass(const Separable& p, const Plan& plan, void* scratch, cudaStream_t stream) {
  using A = acc_t<T>;
  const GeneralTile tile = general_tile(p, plan.tile_h);
  const GeneralParams rows = general_params(p, tile, p.in.h + 1, kRowBlock, pass_taps(p, true, false));
  allow_shared(separable_rows<T>, plan.shared_bytes);
  separable_rows<T><<<general_grid(rows), plan.threads, plan.shared_bytes, stream>>>(rows, static_cast<A*>(scratch));
  launch_check("separable_rows");
  const GeneralParams columns = general_params(p, tile, p.out.h, plan.tile_h, pass_taps(p, false, true));
  separable_columns<A><<<general_grid(columns), plan.threads, 0, stream>>>(columns, static_cast<const A*>(scratch));
  launch_check("separable_columns");
}

}  // namespace torch_conv::separable2d
