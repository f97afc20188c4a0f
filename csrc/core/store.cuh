// Stores to an output whose dtype is known only at run time: one switch instead of seven instances.
#pragma once

#include "core/problem.h"

namespace torch_conv {

template <typename A>
__device__ void store_as(const Image& out, int64_t offset, A value) {
  with_type(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    static_cast<T*>(out.data)[offset] = from_acc<T>(value);
  });
}

}  // namespace torch_conv
