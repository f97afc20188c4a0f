// The parameters of the kernels for any size, stride, dilation, layout and border.
#pragma once

#include "kernels/separable2d/shared/any_layout.h"

namespace torch_conv::separable2d {

// Tiles of `tile_rows` of `rows` rows.
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

}  // namespace torch_conv::separable2d
