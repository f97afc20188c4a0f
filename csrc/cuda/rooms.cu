// The module _cuda: the table of CUDA doors, and what the hall needs of the runtime. The only torch it knows is the
// current stream, so it loads wherever torch has CUDA.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

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

}  // namespace

}  // namespace torch_conv

extern "C" __attribute__((visibility("default"))) const void* torch_conv_cuda_rooms() {
  using namespace torch_conv;
  static const CudaRooms rooms{.enter = enter,
                               .leave = leave,
                               .arch = arch,
                               .upload = upload,
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
