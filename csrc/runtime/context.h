// Devices, streams and events for the operator layer: the only part of CUDA it knows besides plans and kernels.
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace torch_conv::cuda {

// "" where calls on CUDA tensors can be served, else why not.
const char* unavailable();

// Of the current context.
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

// Copies host memory into device memory on `stream` of the current device through kernel parameters: no
// synchronisation, the host memory may be freed at once, capturable in a CUDA graph.
void upload(const void* host, void* device, int64_t bytes, const Arch& arch, void* stream);

// Marks what `stream` of `device` has queued so far, for other streams to wait for: the event is the calling thread's,
// and is used again after a few more of the device.
void* record(int device, void* stream);
void wait(int device, void* stream, void* event);
// Does a CUDA graph capture what torch's current stream of a device is given?
bool capturing(int device);
// A stream for copies that overlap the current one.
void* side_stream(int device);

// Makes `stream` torch's current one on `device` until leave_stream(): memory is then allocated for it.
void* enter_stream(int device, void* stream);
void leave_stream(void* entered);

// May kernels on `device` read `memory`, which lies on `other`?
bool can_read(int device, int other, const void* memory);

// Rows of an image in equal blocks of memory: one run of bytes in each.
struct RowBlocks {
  int device;
  void* data;
  int64_t pitch;  // bytes from one block to the next
};
struct BlockCopy {
  RowBlocks to, from;
  int64_t bytes, count;  // of a block; blocks
};
// From any device to any. In the default stream that waits for all that either device has queued, and what either is
// given later waits for it.
void copy_by_engine(const BlockCopy& copy, void* stream);

}  // namespace torch_conv::cuda
