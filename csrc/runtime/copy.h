// Copies blocks of memory into a device's own memory by a kernel of that device. Unlike the copy engine, the kernel
// waits only for its stream.
#pragma once

#include <span>

#include "runtime/context.h"
#include "runtime/params.h"
#include "runtime/store.h"

namespace torch_conv::cuda {

struct CopyKernel {
  const LoadedKernel* kernel = nullptr;  // null: this GPU has no copy kernel
  int word = 1;                          // bytes of one load and store
};

// The kernel for copies to one device. Addresses and pitches modulo 16 bytes decide its word.
CopyKernel copy_kernel(std::span<const BlockCopy> copies);
// The device must be able to read all sources.
void copy_by_kernel(const CopyKernel& by, std::span<const BlockCopy> copies, void* stream);

// Copies from `device` into other ranks' symmetric memory (addresses of `device`), then a handshake. The next work on
// `stream` finds the rows that the ranks have written into this rank's memory.
void deliver(int device, std::span<const BlockCopy> copies, const Handshake& handshake, void* stream);

}  // namespace torch_conv::cuda
