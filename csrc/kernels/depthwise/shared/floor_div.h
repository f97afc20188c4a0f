// Quotients that are rounded down, in 32 bits.
#pragma once

namespace torch_conv::depthwise {

constexpr int floor_div(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

}  // namespace torch_conv::depthwise
