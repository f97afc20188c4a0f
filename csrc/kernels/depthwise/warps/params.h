// What WARPS' launch and kernel agree on.
#pragma once

#include "core/tile.h"

namespace torch_conv::depthwise {

// What a kernel is compiled for: k * k taps at steps of `step`; a lane reads `vector` pixels of a row, `lanes` lanes
// side by side make `rows` rows of outputs.
struct WarpsWindow {
  int k, step, vector, lanes, rows;
  constexpr int outputs() const { return vector / step; }  // of a lane, in a row
  // Columns left and right of a lane's own that its windows see.
  constexpr int left() const { return k / 2; }
  constexpr int right() const { return k - step - k / 2; }
  constexpr int input_rows() const { return (rows - 1) * step + k; }
};

struct WarpsArgs {
  const void *in, *weight, *bias;
  void* out;
  int64_t in_n, in_c, in_h;     // strides
  int64_t out_n, out_c, out_h;  // strides
  int in_rows, out_rows;        // of a plane
  int vectors;                  // of a row
  int pad_y;
  int each;         // vectors of a strip, without its halo
  unsigned strips;  // in all: those of a row, rows of strips, planes
  FastDivisor across, down, channels, multiplier;
};

}  // namespace torch_conv::depthwise
