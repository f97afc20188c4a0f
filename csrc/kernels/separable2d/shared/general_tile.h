// Tiles of the variants for any size, stride, dilation, layout and border.
#pragma once

#include <algorithm>

#include "core/line_buffer.h"
#include "core/plan.h"
#include "kernels/separable2d/shared/any_layout.h"

namespace torch_conv::separable2d {

inline int channels_together(const Separable& p) {
  const bool one_window = p.taps_x.stride_c == 0 && p.taps_y.stride_c == 0;
  return one_window ? channels_together(p.in, kReuse) : 1;
}

inline GeneralTile general_tile(const Separable& p) {
  const Placement& at = p.place;
  GeneralTile t{};
  t.channels = channels_together(p);
  const int staged = kStaged / t.channels;
  t.pixels = int(std::min<int64_t>(kColumns / t.channels / kReuse * kReuse, round_up(p.out.w, kReuse)));
  while (t.pixels > 1 && (t.pixels - 1) * at.stride_x >= staged) t.pixels /= 2;
  const int64_t first = t.pixels > 1 ? (t.pixels - 1) * at.stride_x + 1 : 1;
  t.taps = int(std::min(p.kw, 1 + (staged - first) / at.dilation_x));
  t.span = int(first + (t.taps > 1 ? (t.taps - 1) * at.dilation_x : 0));
  t.pitch = (t.span * t.channels) | 1;
  return t;
}

// Bytes of a block's shared memory: the staged input and `result_rows` rows of row results.
inline int64_t shared_bytes(const GeneralTile& t, int result_rows, Dtype in) {
  return (t.stage_elements() + int64_t(result_rows) * t.columns_pitch()) * acc_bytes(in);
}

// Blocks of a launch over `rows` rows, `tile_rows` a block.
inline int64_t general_blocks(const Separable& p, const GeneralTile& t, int64_t rows, int64_t tile_rows) {
  return p.out.n * ceil_div(p.out.c, t.channels) * ceil_div(p.out.w, t.pixels) * ceil_div(rows, tile_rows);
}

inline const char* general_refusal(const Separable& p) { return p.peers.any() ? "reads no other shards" : nullptr; }

}  // namespace torch_conv::separable2d
