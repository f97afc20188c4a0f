// A thread's work.
#pragma once

#include "core/cuda/device.cuh"
#include "kernels/weight_gradient/streaming/params.h"

namespace torch_conv::weight_gradient {

// A strip of columns from `x` on over the steps [begin, end) of image n.
struct Item {
  unsigned n;
  int x, begin, end;

  __device__ __forceinline__ static Item of(const SumsArgs& a, unsigned item, int columns, const StepRange& steps) {
    const unsigned row_of_strips = a.strips.divide(item), n = a.bands.divide(row_of_strips);
    const int begin = steps.first + int(row_of_strips - n * a.bands.divisor) * a.band;
    return {n, int(item - row_of_strips * a.strips.divisor) * columns, begin, min(begin + a.band, steps.end)};
  }
};

}  // namespace torch_conv::weight_gradient
