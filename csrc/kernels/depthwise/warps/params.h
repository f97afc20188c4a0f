// WARPS: the template argument and the parameters of its kernel.
#pragma once

#include "core/tile_order.h"

namespace torch_conv::depthwise {

// A kernel is compiled for each shape: k * k taps. A lane reads `vector` pixels of a row. A strip of `lanes` lanes
// makes `rows` rows of outputs.
struct WarpsPolicy {
  int k, stride, vector, lanes, rows;
  bool halo;                                                 // the first and the last lane only read
  constexpr int outputs() const { return vector / stride; }  // of a lane, in a row
  // Columns of the footprint left and right of the lane's vector.
  constexpr int left() const { return k / 2; }
  constexpr int right() const { return k - stride - k / 2; }
  constexpr int input_rows() const { return (rows - 1) * stride + k; }
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
  unsigned strips;  // in all; order from the innermost: strips of a row, rows of strips, planes
  FastDivisor strips_x, strips_y, channels, multiplier;
};

}  // namespace torch_conv::depthwise
