// REG: the shape of its tiles.
#pragma once

namespace torch_conv::direct2d {

constexpr int kRegWarps = 4;

// Output rows of one warp. Percent of copy, 8192^2 on one NVIDIA H200: float32 3x3 5 rows 98, 5x5 10 rows 96; 16-bit
// 3x3 6 rows 97.
constexpr int reg_rows(int bytes, int k) { return bytes == 2 ? 6 : k == 3 ? 5 : 10; }

}  // namespace torch_conv::direct2d
