// The sum or mean under a window: the choice between the box and the separable kernel family, and the launches.
#pragma once

#include "dispatch/dispatch.h"

namespace torch_conv {

struct BoxRequest {
  int axes;             // 2 or 3
  Algorithm asked;      // automatic, box or separable
  const ImageView& in;  // the tensor of problem.in
  Dtype element;        // of the image in memory; `problem.in` is float64 where the CPU sums another dtype in float64
  Box problem;          // without its position in the whole image, which `run_box` fills in for a part
};

void run_box(Call& call, const Target& target, BoxRequest request);

}  // namespace torch_conv
