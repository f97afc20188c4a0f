// The last step of an output.
#pragma once

#include "core/problem.h"
#include "kernels/box/order.h"

namespace torch_conv::box {

// The step from a window sum to an output.
enum class Finish : int8_t {
  scale,        // sum * scale
  value,        // (sum + value for every pixel outside) * scale
  mean_inside,  // sum / number of pixels inside
  interior,     // sum * scale where the window fits, else 0
};

}  // namespace torch_conv::box
