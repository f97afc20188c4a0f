// Shared by the plans of variants for floats: sums in the order of kernels/box/order.h.
#pragma once

#include "kernels/box/config.h"
#include "kernels/box/order.h"

namespace torch_conv::box {

constexpr const char* kOnlyFloats = "an order of additions for floats";

// Outputs are summed in groups of 8 rows, aligned in the whole image: rows of the first group before the first output.
inline int group_phase(const Box& p) { return position_in_group(p.first_row); }

// Pixels outside the image are read like any other pixel.
inline Finish float_finish_of(const Placement& place) {
  const Finish finish = finish_of(place);
  return finish == Finish::value ? Finish::scale : finish;
}

}  // namespace torch_conv::box
