#include "runtime/loaded_kernel.h"

#include <algorithm>
#include <climits>
#include <stdexcept>

#include "runtime/context.h"
#include "runtime/driver.h"

namespace torch_conv {

void LoadedKernel::allow_shared(int bytes) const {
  // Kernels may use 48 KiB without an attribute; their static barriers count, too.
  constexpr int kAllowed = 47 * 1024;
  if (bytes <= kAllowed) return;
  bytes = std::max(bytes, 48 * 1024 + 1);
  const int device = cuda::current_device();
  std::atomic<int>& allowed = allowed_[device % kDevices];
  if (device < kDevices && allowed.load(std::memory_order_acquire) >= bytes) return;
  const std::lock_guard lock(allowing_);  // threads never lower the limit
  if (device < kDevices && allowed.load(std::memory_order_acquire) >= bytes) return;
  cuda::check(cuda::driver().set_kernel_attribute(cuda::kMaxDynamicSharedSize, bytes,
                                                  static_cast<cuda::KernelFunction>(function_), device),
              ("asking for shared memory for kernel " + name_).c_str());
  allowed.store(bytes, std::memory_order_release);
}

void LoadedKernel::launch(int64_t grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                          unsigned block_z, int shared_bytes, void* stream, void** parameters) const {
  if (grid_x == 0) return;
  if (grid_x > INT_MAX)
    throw std::runtime_error("torch_conv: kernel " + name_ + " would need more than 2^31 - 1 blocks");
  allow_shared(shared_bytes);
  const cuda::Result status = cuda::driver().launch(static_cast<cuda::KernelFunction>(function_), unsigned(grid_x),
                                                    grid_y, grid_z, block_x, block_y, block_z, unsigned(shared_bytes),
                                                    static_cast<cuda::Stream>(stream), parameters, nullptr);
  if (status != cuda::kSuccess) cuda::fail(status, ("launching kernel " + name_).c_str());
}

}  // namespace torch_conv
