// The module _cuda: the table of CUDA doors, and what the hall needs of the runtime. The only torch it knows is the
// current stream, so it loads wherever torch has CUDA.
#include <cuda.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <algorithm>
#include <climits>
#include <map>
#include <mutex>
#include <vector>

#include "core/device.cuh"
#include "core/rooms.h"

namespace torch_conv {

namespace {

void* enter(int device, int* previous) {
  cuda_check(cudaGetDevice(previous), "asking for the current device");
  if (*previous != device) cuda_check(cudaSetDevice(device), "switching the device");
  void* stream = nullptr;
  if (aoti_torch_get_current_cuda_stream(device, &stream) != 0) {
    cudaSetDevice(*previous);
    throw std::runtime_error("torch_conv: asking torch for the current CUDA stream failed");
  }
  return stream;
}

// Touches nothing where nothing was switched: making a device current may create a context on it.
void leave(int previous) {
  int current = previous;
  if (cudaGetDevice(&current) == cudaSuccess && current != previous) cudaSetDevice(previous);
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  cuda_check(cudaDeviceGetAttribute(&value, which, device), "asking for a device attribute");
  return value;
}

Arch read_arch(int device) {
  const double clock = 1e3 * attribute(cudaDevAttrMemoryClockRate, device);
  const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8.0;
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, device);
  return {.major = major,
          .multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device),
          .shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          .bytes_per_second = 2 * clock * bus_bytes,  // two transfers a clock
          .bulk_copy = major >= 9};
}

// Attributes are read once per device.
Arch arch(int device) {
  static std::mutex mutex;
  static std::vector<Arch> known;
  const std::lock_guard lock(mutex);
  if (device >= int(known.size())) known.resize(device + 1, Arch{});
  if (known[device].major == 0) known[device] = read_arch(device);
  return known[device];
}

constexpr int kChunkBytes = 32000;  // parameters of a kernel hold 32764 bytes

struct Chunk {
  unsigned char bytes[kChunkBytes];
};

__global__ void upload_chunk(const __grid_constant__ Chunk chunk, unsigned char* out, int bytes) {
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = chunk.bytes[i];
}

// A launch copies its parameters at once, so the host memory is free on return and nothing waits.
void upload(const void* host, void* device, int64_t bytes, void* stream) {
  for (int64_t at = 0; at < bytes; at += kChunkBytes) {
    const int count = int(std::min<int64_t>(kChunkBytes, bytes - at));
    Chunk chunk;
    memcpy(chunk.bytes, static_cast<const unsigned char*>(host) + at, count);
    upload_chunk<<<1, 256, 0, static_cast<cudaStream_t>(stream)>>>(chunk, static_cast<unsigned char*>(device) + at,
                                                                   count);
    launch_check("upload_chunk");
  }
}

// Makes a device current for the calls on its streams: the default stream is that of the current device.
struct OnDevice {
  int previous = 0;
  explicit OnDevice(int device) {
    cuda_check(cudaGetDevice(&previous), "asking for the current device");
    if (previous != device) cuda_check(cudaSetDevice(device), "switching the device");
  }
  ~OnDevice() { leave(previous); }
};

// A wait takes the event as it was last recorded, so a thread's events of a device may be used again and again. Where a
// call holds more of them than these, it waits for a later mark of the same device, which is after the one it meant.
constexpr int kEvents = 16;

cudaEvent_t next_event(int device) {
  struct Ring {
    cudaEvent_t events[kEvents] = {};
    int next = 0;
    Ring() = default;
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring() {
      for (cudaEvent_t event : events)
        if (event) cudaEventDestroy(event);
    }
  };
  thread_local std::map<int, Ring> rings;
  Ring& ring = rings[device];
  cudaEvent_t& event = ring.events[ring.next++ % kEvents];
  if (!event) cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  return event;
}

void* record(int device, void* stream) {
  const OnDevice current(device);
  const cudaEvent_t event = next_event(device);
  cuda_check(cudaEventRecord(event, static_cast<cudaStream_t>(stream)), "recording an event");
  return event;
}

void wait(int device, void* stream, void* event) {
  const OnDevice current(device);
  cuda_check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event)),
             "waiting for an event");
}

// One for each thread and device: threads that shared one would wait for each other, and a CUDA graph that one of them
// captures would take in what the others do.
void* side_stream(int device) {
  struct Streams : std::vector<cudaStream_t> {
    ~Streams() {
      for (cudaStream_t stream : *this)
        if (stream) cudaStreamDestroy(stream);
    }
  };
  thread_local Streams streams;
  if (device >= int(streams.size())) streams.resize(device + 1);
  if (!streams[device]) {
    const OnDevice current(device);
    // Of the highest priority: seams are few blocks, and others wait for them.
    int least = 0, greatest = 0;
    cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for stream priorities");
    cuda_check(cudaStreamCreateWithPriority(&streams[device], cudaStreamNonBlocking, greatest), "making a stream");
  }
  return streams[device];
}

void* enter_stream(int device, void* stream) {
  CUDAStreamGuardHandle guard = nullptr;
  if (aoti_torch_create_cuda_stream_guard(stream, device, &guard) != 0)
    throw std::runtime_error("torch_conv: changing torch's current CUDA stream failed");
  return guard;
}

void leave_stream(void* entered) { aoti_torch_delete_cuda_stream_guard(static_cast<CUDAStreamGuardHandle>(entered)); }

bool enable_peer(int device, int other) {
  int possible = 0;
  if (cudaDeviceCanAccessPeer(&possible, device, other) != cudaSuccess || !possible) return false;
  const OnDevice current(device);
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) cudaGetLastError();  // by torch: no error of ours
  return status == cudaSuccess || status == cudaErrorPeerAccessAlreadyEnabled;
}

// Memory of cudaMalloc, which peer access opens; that of pools and of virtual memory (expandable segments) is opened
// piece by piece by whoever made it.
bool plain_memory(const void* memory) {
  using Attribute = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);
  static const Attribute attribute = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion("cuPointerGetAttribute", &entry, 12000, cudaEnableDefault, &found) !=
            cudaSuccess ||
        found != cudaDriverEntryPointSuccess)
      entry = nullptr;
    return reinterpret_cast<Attribute>(entry);
  }();
  unsigned plain = 0;
  return attribute &&
         attribute(&plain, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, reinterpret_cast<CUdeviceptr>(memory)) ==
             CUDA_SUCCESS &&
         plain;
}

bool can_read(int device, int other, const void* memory) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, bool> known;
  {
    const std::lock_guard lock(mutex);
    const auto [entry, is_new] = known.try_emplace({device, other}, false);
    if (is_new) entry->second = enable_peer(device, other);
    if (!entry->second) return false;
  }
  return plain_memory(memory);
}

void copy_blocks(const RowBlocks& to, const RowBlocks& from, int64_t bytes, int64_t count, bool readable,
                 void* stream_handle) {
  if (bytes == 0 || count == 0) return;
  const auto stream = static_cast<cudaStream_t>(stream_handle);
  const OnDevice current(to.device);
  if (std::max(to.pitch, from.pitch) > INT_MAX) {  // more than a strided copy takes
    for (int64_t i = 0; i < count; ++i)
      cuda_check(cudaMemcpyPeerAsync(static_cast<char*>(to.data) + i * to.pitch, to.device,
                                     static_cast<const char*>(from.data) + i * from.pitch, from.device, bytes, stream),
                 "copying rows");
    return;
  }
  const size_t to_pitch = std::max(to.pitch, bytes), from_pitch = std::max(from.pitch, bytes);
  // Where the memory can be read, the copy that a CUDA graph can hold.
  if (readable)
    return cuda_check(
        cudaMemcpy2DAsync(to.data, to_pitch, from.data, from_pitch, bytes, count, cudaMemcpyDefault, stream),
        "copying rows");
  cudaMemcpy3DPeerParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(from.data, from_pitch, from_pitch, count);
  copy.dstPtr = make_cudaPitchedPtr(to.data, to_pitch, to_pitch, count);
  copy.srcDevice = from.device, copy.dstDevice = to.device;
  copy.extent = make_cudaExtent(bytes, count, 1);
  cuda_check(cudaMemcpy3DPeerAsync(&copy, stream), "copying rows between devices");
}

}  // namespace

}  // namespace torch_conv

extern "C" __attribute__((visibility("default"))) const void* torch_conv_cuda_rooms() {
  using namespace torch_conv;
  static const CudaRooms rooms{.enter = enter,
                               .leave = leave,
                               .arch = arch,
                               .upload = upload,
                               .record = record,
                               .wait = wait,
                               .side_stream = side_stream,
                               .enter_stream = enter_stream,
                               .leave_stream = leave_stream,
                               .can_read = can_read,
                               .copy_blocks = copy_blocks,
                               .direct2d_plan = direct2d::plan_cuda,
                               .direct2d_run = direct2d::run_cuda,
                               .direct3d_plan = direct3d::plan_cuda,
                               .direct3d_run = direct3d::run_cuda,
                               .separable2d_plan = separable2d::plan_cuda,
                               .separable2d_run = separable2d::run_cuda,
                               .separable3d_plan = separable3d::plan_cuda,
                               .separable3d_run = separable3d::run_cuda,
                               .box_plan = box::plan_cuda,
                               .box_run = box::run_cuda,
                               .box_depth_plan = box::plan_depth_cuda,
                               .box_depth_run = box::run_depth_cuda,
                               .fused_plan = fused::plan_cuda,
                               .fused_run = fused::run_cuda,
                               .fused3d_plan = fused3d::plan_cuda,
                               .fused3d_run = fused3d::run_cuda,
                               .combine_plan = fused::plan_combine_cuda,
                               .combine_run = fused::run_combine_cuda,
                               .ladder2d_run = ladder::run_cuda,
                               .ladder3d_run = ladder::run_cuda};
  return &rooms;
}
