#include "runtime/driver.h"

#include <dlfcn.h>

#include <optional>
#include <stdexcept>
#include <string>

namespace torch_conv::cuda {

namespace {

std::optional<Driver> load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return std::nullopt;
  Driver d{};
  bool complete = true;
  const auto find = [&](auto& function, const char* name, bool needed = true) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function && needed) complete = false;
  };
  find(d.version, "cuDriverGetVersion");
  find(d.error_string, "cuGetErrorString");
  find(d.device_attribute, "cuDeviceGetAttribute");
  find(d.retain_primary, "cuDevicePrimaryCtxRetain");
  find(d.current, "cuCtxGetCurrent");
  find(d.device_of_current, "cuCtxGetDevice");
  find(d.push, "cuCtxPushCurrent_v2");
  find(d.pop, "cuCtxPopCurrent_v2");
  find(d.load_library, "cuLibraryLoadData");
  find(d.get_kernel, "cuLibraryGetKernel");
  find(d.set_kernel_attribute, "cuKernelSetAttribute");
  find(d.launch, "cuLaunchKernel");
  find(d.encode_tiled, "cuTensorMapEncodeTiled", false);
  find(d.make_event, "cuEventCreate");
  find(d.destroy_event, "cuEventDestroy_v2");
  find(d.record, "cuEventRecord");
  find(d.wait, "cuStreamWaitEvent");
  find(d.capturing, "cuStreamIsCapturing");
  find(d.stream_priorities, "cuCtxGetStreamPriorityRange");
  find(d.make_stream, "cuStreamCreateWithPriority");
  find(d.destroy_stream, "cuStreamDestroy_v2");
  find(d.can_access_peer, "cuDeviceCanAccessPeer");
  find(d.enable_peer, "cuCtxEnablePeerAccess");
  find(d.pointer_attribute, "cuPointerGetAttribute");
  find(d.copy_peer, "cuMemcpyPeerAsync");
  find(d.copy_peer_3d, "cuMemcpy3DPeerAsync");
  if (!complete) return std::nullopt;
  return d;
}

}  // namespace

const Driver* find_driver() {
  static const std::optional<Driver> found = load();
  return found ? &*found : nullptr;
}

const Driver& driver() {
  if (const Driver* found = find_driver()) return *found;
  throw std::runtime_error("torch_conv: no CUDA driver of version 12 or newer was found (libcuda.so.1)");
}

void fail(Result status, const char* action) {
  const char* text = nullptr;
  const Driver* found = find_driver();
  if (!found || found->error_string(status, &text) != kSuccess || !text) text = "unknown error";
  throw std::runtime_error(std::string("torch_conv: ") + action + " failed: " + text);
}

}  // namespace torch_conv::cuda
