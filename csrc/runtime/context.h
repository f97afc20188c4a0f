// Devices, streams, events and copies of CUDA, for all layers above.
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace torch_conv::cuda {

// "" where calls on CUDA tensors can be served, else the reason why they cannot.
const char* unavailable();

// The device of the current context.
int current_device();

// Makes a device current while it lives.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  bool pushed_ = false;
};

// Torch's current stream on a device.
void* current_stream(int device);

// Attributes of a device, read once.
const Arch& arch_of(int device);

// Copies host memory into device memory by kernel parameters, on `stream` of the current device. The call does not
// synchronise, and a CUDA graph can capture it. The host memory may be freed on return.
void upload(const void* host, void* device, int64_t bytes, const Arch& arch, void* stream);

// An event behind all work that `stream` of `device` has queued so far. The event belongs to the calling thread, which
// uses it again after 16 further events of the device.
void* record(int device, void* stream);
void wait(int device, void* stream, void* event);
// Whether a CUDA graph captures torch's current stream of a device.
bool capturing(int device);
// A second stream of a device, for boundary strips that run beside the interior.
void* side_stream(int device);

// Makes `stream` torch's current stream of `device` until leave_stream(). Torch then allocates memory for `stream`.
void* enter_stream(int device, void* stream);
void leave_stream(void* entered);

// Whether kernels on `device` may read `memory`, which is memory of `other`.
bool can_read(int device, int other, const void* memory);

// Rows of an image in memory: equal blocks of bytes.
struct RowBlocks {
  int device;
  void* data;
  int64_t pitch;  // bytes from one block to the next
};
struct BlockCopy {
  RowBlocks to, from;
  int64_t bytes, count;  // of a block; blocks
};
// Copies between any two devices. On the default stream, the copy waits for all work of both devices, and their later
// work waits for the copy.
void copy_by_engine(const BlockCopy& copy, void* stream);

}  // namespace torch_conv::cuda
