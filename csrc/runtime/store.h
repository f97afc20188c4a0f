// The kernel store: a kernel's name to the loaded kernel. In memory, else built ahead, else in the cache on disk, else
// compiled by NVRTC from the sources in this module.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "core/plan.h"

namespace torch_conv {

// Of one architecture; all devices that have it share it.
class LoadedKernel {
 public:
  LoadedKernel(std::string name, void* function) : name_(std::move(name)), function_(function) {}
  // On the current device. Throws one sentence with the kernel's name.
  void launch(int64_t grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
              int shared_bytes, void* stream, void** parameters) const;

 private:
  // Dynamic shared memory above 48 KiB must be allowed, once per device.
  void allow_shared(int bytes) const;

  static constexpr int kDevices = 64;
  std::string name_;
  void* function_;
  mutable std::mutex allowing_;
  mutable std::atomic<int> allowed_[kDevices] = {};
};

namespace cuda {

// Where a kernel came from.
enum class Origin { ahead, cache, compiled };

// Throws one sentence with the kernel's name; the next call tries again.
const LoadedKernel& load(const Kernel& kernel, const Arch& arch);

// Can it be had? True wherever there is a compiler.
bool offers(const Kernel& kernel, const Arch& arch);

// Compiles kernels into `folder`/sm_XY, those that are not there yet. Returns the files of all of them.
std::vector<std::string> build_ahead(const std::string& folder, int capability, const std::vector<Kernel>& kernels);

// A line for `torch-conv info` each: where kernels come from, and those that this process has loaded.
std::vector<std::string> store_report();

}  // namespace cuda

}  // namespace torch_conv
