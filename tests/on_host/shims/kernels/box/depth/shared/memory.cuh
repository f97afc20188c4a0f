// The same without instructions of a GPU.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv::box {

template <int N, typename T>
void store_passing(bool condition, T* to, const Pack<N, T>& pack) {
  store_pack_if(condition, to, pack);
}

}  // namespace torch_conv::box
