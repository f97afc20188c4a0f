// Stores to an output whose dtype is known only at run time: one switch instead of seven instances.
#pragma once

#include "core/problem.h"

namespace torch_conv {

template <typename A>
__device__ void store_as(const Image& out, int64_t offset, A value) {
  switch (out.dtype) {
    case Dtype::f32: static_cast<float*>(out.data)[offset] = from_acc<float>(value); return;
    case Dtype::f16: static_cast<half_t*>(out.data)[offset] = from_acc<half_t>(value); return;
    case Dtype::bf16: static_cast<bhalf_t*>(out.data)[offset] = from_acc<bhalf_t>(value); return;
    case Dtype::f64: static_cast<double*>(out.data)[offset] = from_acc<double>(value); return;
    case Dtype::u8: static_cast<uint8_t*>(out.data)[offset] = from_acc<uint8_t>(value); return;
    case Dtype::i16: static_cast<int16_t*>(out.data)[offset] = from_acc<int16_t>(value); return;
    case Dtype::u16: static_cast<uint16_t*>(out.data)[offset] = from_acc<uint16_t>(value); return;
  }
}

}  // namespace torch_conv
