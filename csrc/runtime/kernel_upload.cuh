// Host bytes in the launch's parameters into device memory.
#pragma once

#include "runtime/params.h"

namespace torch_conv::cuda {

__global__ void upload_chunk(const __grid_constant__ Chunk chunk, unsigned char* out, int bytes) {
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = chunk.bytes[i];
}

}  // namespace torch_conv::cuda
