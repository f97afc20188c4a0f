// ROWS: groups of lanes, and the parameters.
#pragma once

#include "kernels/causal/shared/params.h"

namespace torch_conv::causal {

// ROWS: a group of lanes takes J vectors of 16 bytes a lane. bf16 16x2048x4096, k = 4, share of copy on one NVIDIA
// H200: J = 1 0.989 (0.887 with silu), 2 0.996 (0.998), 4 0.973 (0.964).
constexpr int kRowsWarps = 4;  // a block

// The alignment of rows. `whole`: all rows of x and out are whole vectors on 16 bytes. `alike`: a row of x and its row
// of out have the same offset to 16 bytes. `apart`: the offsets differ, and x is loaded element by element.
enum class Alignment : int8_t { whole, alike, apart };

struct RowsArgs {
  CausalConv p;
  Starts x, out;
  Divisor groups, channels;  // groups of lanes a row
  unsigned rows;
  int lanes_log2;   // of a group
  const void* end;  // of x: no load goes beyond
};

}  // namespace torch_conv::causal
