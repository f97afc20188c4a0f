// Launches a planned kernel with its parameters on a stream.
#pragma once

#include "runtime/store.h"

namespace torch_conv {

// The stream, memory and kernels of a plan that runs on the current device.
struct Site {
  void* stream;
  void* scratch;                       // plan.scratch_bytes of memory
  const LoadedKernel* const* kernels;  // plan.kernels, loaded
};

struct GridSize {
  int64_t x;
  unsigned y = 1, z = 1;
};

struct BlockSize {
  unsigned x, y = 1, z = 1;
};

// Parameters are passed as the kernel declares them, to the type.
template <typename... Parameters>
void launch_kernel(const LoadedKernel& kernel, GridSize blocks, BlockSize threads, int shared_bytes, void* stream,
                   const Parameters&... parameters) {
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&parameters))...};
  kernel.launch(blocks.x, blocks.y, blocks.z, threads.x, threads.y, threads.z, shared_bytes, stream, pointers);
}

// A plan's only kernel.
template <typename... Parameters>
void launch(const Plan& plan, const Site& site, const Parameters&... parameters) {
  launch_kernel(*site.kernels[0], {plan.blocks}, {unsigned(plan.threads)}, plan.shared_bytes, site.stream,
                parameters...);
}

}  // namespace torch_conv
