// Loops that the compiler always unrolls. `#pragma unroll` silently keeps a loop with a large body.
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

// The same, until f returns true; returns whether it did.
template <int from, int to, int step = 1, class F>
__device__ __forceinline__ bool unroll_until(F&& f) {
  if constexpr (from < to) return f(std::integral_constant<int, from>{}) || unroll_until<from + step, to, step>(f);
  else return false;
}

}  // namespace torch_conv
