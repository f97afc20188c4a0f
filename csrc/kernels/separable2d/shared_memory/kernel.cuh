// Both passes of any separable filter on one tile, in one launch.
//
// clang-format off
//   shared memory   staged   kRowBlock input rows x span          kRowBlock rows at a time
//                   results  ext_rows row results x tile columns  ext_rows = (rows - 1) stride + (kh - 1) dilation + 1
// clang-format on
//
// Row results of the halo are computed again by the tiles above and below: kw * ext_rows / rows + kh taps an output.
#pragma once

#include "kernels/separable2d/shared/any_layout.cuh"

namespace torch_conv::separable2d {

template <typename T>
__global__ void __launch_bounds__(32 * kWarps, kBlocks)
    separable_shared_memory(const __grid_constant__ GeneralParams p) {
  using A = acc_t<T>;
  extern __shared__ __align__(128) unsigned char shared[];
  const GeneralTile& tile = p.tile;
  A* staged = reinterpret_cast<A*>(shared);
  A* results = staged + tile.stage_elements();
  const int pitch = tile.columns_pitch();
  const Position at = block_position(p, tile.rows);
  const int64_t first_y = at.y * p.place.stride_y - p.place.pad_y;

  for (int r0 = 0; r0 < tile.ext_rows; r0 += kRowBlock)
    row_pass<T>(p, at, staged, results + r0 * pitch, min(kRowBlock, tile.ext_rows - r0),
                [&](int r) { return map_index(first_y + r0 + r, p.in.h, p.place.border); });
  __syncthreads();

  const int column = threadIdx.x % kColumns, part = threadIdx.x / kColumns;
  if (column >= tile.columns()) return;
  const int pixel = column / tile.channels;
  const int64_t channel = at.channel + column % tile.channels, x = at.x + pixel;
  if (x >= p.out.w || channel >= p.out.c) return;
  const Axis axis{p.in.h, p.place.stride_y, p.place.dilation_y};
  const A* taps = p.taps.of<A>(p.taps.y, at.n, at.channel);
  A weight = 1;
  if (p.place.normalized)
    weight = inside_weight(p.taps.of<A>(p.taps.x, at.n, at.channel), p.kw, Axis{p.in.w, 0, p.place.dilation_x},
                           x * p.place.stride_x - p.place.pad_x);
  for (int y = part * kReuse; y < tile.rows && at.y + y < p.out.h; y += 32 * kWarps / kColumns * kReuse) {
    const A* first = results + y * int(axis.stride) * pitch + column;
    const int step_v = int(axis.stride) * pitch, step_i = int(axis.dilation) * pitch;
    auto element = [&](int v, int i) { return first[v * step_v + i * step_i]; };
    A sums[kReuse] = {};
    const int64_t top = first_y + y * axis.stride;
    if (p.place.border == Border::skip && !axis.covers(top, kReuse, p.kh))
      accumulate_inside(sums, taps, p.kh, axis, top, element);
    else if (p.reuse_y) accumulate(sums, taps, p.kh, true, [&](int, int e) { return first[e * step_i]; });
    else accumulate(sums, taps, p.kh, false, element);
    finish(p, sums, at.n, channel, at.y + y, x, kReuse, weight);
  }
}

}  // namespace torch_conv::separable2d
