// Loops that are surely unrolled: `#pragma unroll` keeps a loop, without a word, where its body grows large.
#pragma once

#include <type_traits>

namespace torch_conv {

// f(std::integral_constant<int, i>{}) for i = from, from + step, ... below `to`.
template <int from, int to, int step = 1, class F>
__device__ __forceinline__ void unroll(F&& f) {
  if constexpr (from < to) {
    f(std::integral_constant<int, from>{});
    unroll<from + step, to, step>(f);
  }
}

}  // namespace torch_conv
