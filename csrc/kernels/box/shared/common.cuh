// Device code that all kernels of the box kernel family share.
#pragma once

#include <type_traits>

#include "kernels/box/shared/finish.h"

namespace torch_conv::box {

// In place of an output type: kernels that write any dtype and layout and finish in any way, chosen at run time. The
// others write dense rows of their type and know only Finish::scale.
using General = void;

// The next slot of a ring.
__device__ __forceinline__ int next_slot(int slot, int slots) { return slot + 1 == slots ? 0 : slot + 1; }

// Whether the columns of [first, end) outside of the image repeat columns of [begin, end): row warps then copy those
// sums. A mirrored column is as far from the edge of the image as its source, give or take `more` columns.
__device__ __forceinline__ bool repeats_within(Border border, int begin, int first, int end, int width, int more) {
  bool repeats = is_mirror(border) && (first < 0 || end > width);
  if (first < 0) repeats = repeats && min(end, width) > more - first;
  if (end > width) repeats = repeats && width - (end - width) > max(begin, 0) + more;
  return repeats;
}

// Pixels of [first, first + k) inside an axis of n.
__device__ __forceinline__ int overlap(int first, int k, int n) { return max(0, min(first + k, n) - max(first, 0)); }

}  // namespace torch_conv::box
