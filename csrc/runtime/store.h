// The kernel store maps a kernel's name to the loaded kernel. The store looks in memory, then among the kernels that
// were built ahead, then in the cache on disk. Else NVRTC compiles the kernel from the sources in this module.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "core/plan.h"

namespace torch_conv {

// A kernel of one architecture. All devices of that architecture share it.
class LoadedKernel {
 public:
  LoadedKernel(std::string name, void* function) : name_(std::move(name)), function_(function) {}
  // Launches on the current device. An error is one sentence with the kernel's name.
  void launch(int64_t grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
              int shared_bytes, void* stream, void** parameters) const;

 private:
  // Allows dynamic shared memory above 48 KiB, once per device.
  void allow_shared(int bytes) const;

  static constexpr int kDevices = 64;
  std::string name_;
  void* function_;
  mutable std::mutex allowing_;
  mutable std::atomic<int> allowed_[kDevices] = {};
};

namespace cuda {

// The origin of a kernel's code.
enum class Origin { ahead, cache, compiled };

// Loads a kernel. An error is one sentence with the kernel's name; the next call tries again.
const LoadedKernel& load(const Kernel& kernel, const Arch& arch);

// Whether load() can find or compile the kernel. True wherever there is a compiler.
bool offers(const Kernel& kernel, const Arch& arch);

// Compiles the kernels that `folder`/sm_XY does not hold yet. Returns the files of all kernels.
std::vector<std::string> build_ahead(const std::string& folder, int capability, const std::vector<Kernel>& kernels);

// Lines for `torch-conv info`: compiler, cache, kernels built ahead, the origin of the kernels of GPUs with these
// compute capabilities, and each kernel that this process has loaded.
std::vector<std::string> store_report(const std::vector<int64_t>& capabilities);

}  // namespace cuda

}  // namespace torch_conv
