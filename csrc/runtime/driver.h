// The part of the CUDA driver that this library uses, found at run time. The library builds without CUDA headers and
// loads without a driver. Names and numbers are the driver's ABI (cuda.h of CUDA 12 and 13).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tma.h"

namespace torch_conv::cuda {

using Device = int;
using Result = int;
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Library = struct LibraryHandle*;
using KernelFunction = struct KernelHandle*;
using Address = unsigned long long;

enum DeviceAttribute : int {
  clock_rate_of_memory = 36,  // kHz
  bus_width_of_memory = 37,   // bits
  multiprocessor_count = 16,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_memory_per_block_optin = 97,
};

constexpr Result kSuccess = 0, kPeerAccessAlreadyEnabled = 704;
// Whether the driver refuses the code itself: an image, PTX or a compute capability that it does not take.
constexpr bool is_of_code(Result status) { return status == 200 || status == 209 || status == 218 || status == 222; }
constexpr int kDeviceMemory = 2, kUnifiedMemory = 4;  // CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_UNIFIED
constexpr int kMaxDynamicSharedSize = 8;              // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int kLegacyIpcCapable = 10;                 // CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
constexpr unsigned kNoTiming = 2, kNonBlocking = 1;   // of events, of streams

struct CopyPeer3d {  // CUDA_MEMCPY3D_PEER
  size_t from_x = 0, from_y = 0, from_z = 0, from_level = 0;
  int from_type = kUnifiedMemory;
  const void* from_host = nullptr;
  Address from = 0;
  void* from_array = nullptr;
  Context from_context = nullptr;
  size_t from_pitch = 0, from_height = 0;
  size_t to_x = 0, to_y = 0, to_z = 0, to_level = 0;
  int to_type = kUnifiedMemory;
  void* to_host = nullptr;
  Address to = 0;
  void* to_array = nullptr;
  Context to_context = nullptr;
  size_t to_pitch = 0, to_height = 0;
  size_t width = 0, height = 0, depth = 0;
};

struct Driver {
  Result (*version)(int*);  // 13010: 13.1
  Result (*error_string)(Result, const char**);
  Result (*device_attribute)(int*, DeviceAttribute, Device);
  Result (*retain_primary)(Context*, Device);
  Result (*current)(Context*);
  Result (*device_of_current)(Device*);
  Result (*push)(Context);
  Result (*pop)(Context*);
  Result (*load_library)(Library*, const void* image, int* options, void** option_values, unsigned option_count,
                         int* library_options, void** library_values, unsigned library_count);
  Result (*get_kernel)(KernelFunction*, Library, const char* name);
  Result (*set_kernel_attribute)(int attribute, int value, KernelFunction, Device);
  Result (*launch)(KernelFunction, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream, void** parameters, void** extra);
  Result (*encode_tiled)(TensorMap*, int type, unsigned rank, void* memory, const uint64_t* sizes,
                         const uint64_t* strides, const unsigned* box, const unsigned* steps, int interleave,
                         int swizzle, int promotion, int fill);  // null before CUDA 12
  Result (*make_event)(Event*, unsigned flags);
  Result (*destroy_event)(Event);
  Result (*record)(Event, Stream);
  Result (*wait)(Stream, Event, unsigned flags);
  Result (*capturing)(Stream, int* status);
  Result (*stream_priorities)(int* least, int* greatest);
  Result (*make_stream)(Stream*, unsigned flags, int priority);
  Result (*destroy_stream)(Stream);
  Result (*can_access_peer)(int*, Device, Device);
  Result (*enable_peer)(Context, unsigned flags);
  Result (*pointer_attribute)(void*, int attribute, Address);
  Result (*copy_peer)(Address to, Context, Address from, Context, size_t bytes, Stream);
  Result (*copy_peer_3d)(const CopyPeer3d*, Stream);
};

// Null where there is no driver of CUDA 12 or newer.
const Driver* find_driver();
// Throws where there is no driver.
const Driver& driver();

// Throws one sentence with the driver's error text.
[[noreturn]] void fail(Result status, const char* action);
inline void check(Result status, const char* action) {
  if (status != kSuccess) fail(status, action);
}

}  // namespace torch_conv::cuda
