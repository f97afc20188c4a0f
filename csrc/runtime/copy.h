// Blocks of memory into a device's own by a kernel of that device, which unlike the copy engine waits for nobody.
#pragma once

#include <span>

#include "runtime/context.h"
#include "runtime/handshake.h"
#include "runtime/store.h"

namespace torch_conv::cuda {

struct CopyKernel {
  const LoadedKernel* kernel = nullptr;  // null: there is none for this GPU
  int word = 1;                          // bytes that it moves at once
};

// For copies to one device, by the widest word that all consist of: where blocks begin modulo 16 bytes decides.
CopyKernel copy_kernel(std::span<const BlockCopy> copies);
// The device must be able to read all sources.
void copy_by_kernel(const CopyKernel& by, std::span<const BlockCopy> copies, void* stream);

// From `device` into other ranks' symmetric memory, all as of that device, and a handshake: the next work of `stream`
// finds the rows that the ranks have written to this one.
void deliver(int device, std::span<const BlockCopy> copies, const Handshake& handshake, void* stream);

}  // namespace torch_conv::cuda
