// A kernel that the driver has loaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

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

}  // namespace torch_conv
