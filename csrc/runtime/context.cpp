#include "runtime/context.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "core/fork_mutex.h"
#include "runtime/compiler.h"
#include "runtime/driver.h"
#include "runtime/launch.h"
#include "runtime/params.h"
#include "runtime/store.h"

namespace torch_conv::cuda {

namespace {

// Torch's C shims for streams, which only a torch with CUDA has.
struct Torch {
  int (*current_stream)(int device, void** stream);
  int (*make_guard)(void* stream, int device, void** guard);
  int (*delete_guard)(void* guard);
};

const Torch& torch_shims() {
  static const Torch found = [] {
    Torch t{};
    void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return t;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    find(t.current_stream, "aoti_torch_get_current_cuda_stream");
    find(t.make_guard, "aoti_torch_create_cuda_stream_guard");
    find(t.delete_guard, "aoti_torch_delete_cuda_stream_guard");
    return t;
  }();
  return found;
}

constexpr int kDevices = 64;

Context primary_of(int device) {
  static std::atomic<Context> known[kDevices] = {};
  if (device < 0 || device >= kDevices) throw std::runtime_error("torch_conv: more than 64 CUDA devices");
  Context context = known[device].load(std::memory_order_acquire);
  if (context) return context;
  check(driver().retain_primary(&context, device), "making a context current");
  known[device].store(context, std::memory_order_release);  // other threads store the same context
  return context;
}

int attribute(DeviceAttribute which, int device) {
  int value = 0;
  check(driver().device_attribute(&value, which, device), "asking for a device attribute");
  return value;
}

Arch read_arch(int device) {
  const double clock = 1e3 * attribute(clock_rate_of_memory, device);
  const double bus_bytes = attribute(bus_width_of_memory, device) / 8.0;
  const int major = attribute(compute_capability_major, device);
  const int minor = attribute(compute_capability_minor, device);
  if (10 * major + minor < kLeastCapability)
    throw std::runtime_error("torch_conv: kernels need compute capability " + capability_text(kLeastCapability) +
                             " or newer, cuda:" + std::to_string(device) + " has " +
                             capability_text(10 * major + minor));
  return {.major = major,
          .minor = minor,
          .multiprocessors = attribute(multiprocessor_count, device),
          .shared_bytes = attribute(max_shared_memory_per_block_optin, device),
          .bytes_per_second = 2 * clock * bus_bytes,  // two transfers a clock
          .bulk_copy = major >= 9 && driver().encode_tiled,
          .offers = offers};
}

}  // namespace

const char* unavailable() {
  if (!torch_shims().current_stream) return "this torch has no CUDA";
  return find_driver() ? "" : "no CUDA driver of version 12 or newer was found (libcuda.so.1)";
}

int current_device() {
  Device device = 0;
  check(driver().device_of_current(&device), "asking for the current device");
  return device;
}

OnDevice::OnDevice(int device) {
  const Context wanted = primary_of(device);
  Context current = nullptr;
  check(driver().current(&current), "asking for the current context");
  if (current == wanted) return;
  check(driver().push(wanted), "switching the device");
  pushed_ = true;
}

OnDevice::~OnDevice() {
  Context popped = nullptr;
  if (pushed_) driver().pop(&popped);
}

void* current_stream(int device) {
  void* stream = nullptr;
  if (torch_shims().current_stream(device, &stream) != 0)
    throw std::runtime_error("torch_conv: asking torch for the current CUDA stream failed");
  return stream;
}

const Arch& arch_of(int device) {
  static ForkMutex mutex;
  static Arch known[kDevices] = {};
  if (device < 0 || device >= kDevices) throw std::runtime_error("torch_conv: more than 64 CUDA devices");
  const std::lock_guard lock(mutex);
  if (known[device].major == 0) known[device] = read_arch(device);
  return known[device];
}

// A launch copies its parameters before it returns.
void upload(const void* host, void* device, int64_t bytes, const Arch& arch, void* stream) {
  const LoadedKernel& kernel = load(kernel_of("runtime/kernel_upload.cuh", "cuda::upload_chunk", {}), arch);
  for (int64_t at = 0; at < bytes; at += kChunkBytes) {
    const int count = int(std::min<int64_t>(kChunkBytes, bytes - at));
    Chunk chunk;
    memcpy(chunk.bytes, static_cast<const unsigned char*>(host) + at, count);
    unsigned char* const to = static_cast<unsigned char*>(device) + at;
    launch_kernel(kernel, {1}, {256}, 0, stream, chunk, to, count);
  }
}

namespace {

// Events of a thread and a device. A wait uses the last record of its event, so that events can be used again. A call
// with more than kEvents events waits for a later event of the same device. No caller may hold an event while it
// records more events on a stream that does not wait for that event.
constexpr int kEvents = 16;

Event next_event(int device) {
  struct Ring {
    Event events[kEvents] = {};
    int next = 0;
    Ring() = default;
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring() {
      for (Event event : events)
        if (event) driver().destroy_event(event);
    }
  };
  thread_local std::map<int, Ring> rings;
  Ring& ring = rings[device];
  Event& event = ring.events[ring.next++ % kEvents];
  if (!event) check(driver().make_event(&event, kNoTiming), "making an event");
  return event;
}

}  // namespace

void* record(int device, void* stream) {
  const OnDevice current(device);
  const Event event = next_event(device);
  check(driver().record(event, static_cast<Stream>(stream)), "recording an event");
  return event;
}

void wait(int device, void* stream, void* event) {
  const OnDevice current(device);
  check(driver().wait(static_cast<Stream>(stream), static_cast<Event>(event), 0), "waiting for an event");
}

bool capturing(int device) {
  const OnDevice current(device);
  int status = 0;  // CU_STREAM_CAPTURE_STATUS_NONE
  check(driver().capturing(static_cast<Stream>(current_stream(device)), &status), "asking a stream for its capture");
  return status != 0;
}

// One stream for each thread and device. Threads that share a stream would wait for each other, and a CUDA graph of one
// thread would capture the work of the others.
void* side_stream(int device) {
  struct Streams : std::vector<Stream> {
    ~Streams() {
      for (Stream stream : *this)
        if (stream) driver().destroy_stream(stream);
    }
  };
  thread_local Streams streams;
  if (device >= int(streams.size())) streams.resize(device + 1);
  if (!streams[device]) {
    const OnDevice current(device);
    // The highest priority, because boundary strips have few blocks and other devices wait for the strips.
    int least = 0, greatest = 0;
    check(driver().stream_priorities(&least, &greatest), "asking for stream priorities");
    check(driver().make_stream(&streams[device], kNonBlocking, greatest), "making a stream");
  }
  return streams[device];
}

void* enter_stream(int device, void* stream) {
  void* guard = nullptr;
  if (torch_shims().make_guard(stream, device, &guard) != 0)
    throw std::runtime_error("torch_conv: changing torch's current CUDA stream failed");
  return guard;
}

void leave_stream(void* entered) { torch_shims().delete_guard(entered); }

namespace {

bool enable_peer(int device, int other) {
  int possible = 0;
  if (driver().can_access_peer(&possible, device, other) != kSuccess || !possible) return false;
  const OnDevice current(device);
  const Result status = driver().enable_peer(primary_of(other), 0);
  return status == kSuccess || status == kPeerAccessAlreadyEnabled;  // by torch
}

// Whether the address is memory of cudaMalloc, which peer access opens. The allocator must open each block of pools and
// of virtual memory (expandable segments).
bool opened_by_peer_access(const void* memory) {
  unsigned plain = 0;
  return driver().pointer_attribute(&plain, kLegacyIpcCapable, reinterpret_cast<Address>(memory)) == kSuccess && plain;
}

Address address(void* memory) { return reinterpret_cast<Address>(memory); }

}  // namespace

bool can_read(int device, int other, const void* memory) {
  static ForkMutex mutex;
  static std::map<std::pair<int, int>, bool> known;
  {
    const std::lock_guard lock(mutex);
    const auto [entry, is_new] = known.try_emplace({device, other}, false);
    if (is_new) entry->second = enable_peer(device, other);
    if (!entry->second) return false;
  }
  return opened_by_peer_access(memory);
}

void copy_by_engine(const BlockCopy& copy, void* stream_handle) {
  const auto& [to, from, bytes, count] = copy;
  if (bytes == 0 || count == 0) return;
  const auto stream = static_cast<Stream>(stream_handle);
  const OnDevice current(to.device);
  if (std::max(to.pitch, from.pitch) > INT_MAX) {  // the limit of a strided copy
    for (int64_t i = 0; i < count; ++i)
      check(driver().copy_peer(address(to.data) + i * to.pitch, primary_of(to.device),
                               address(from.data) + i * from.pitch, primary_of(from.device), bytes, stream),
            "copying rows");
    return;
  }
  const size_t to_pitch = std::max(to.pitch, bytes), from_pitch = std::max(from.pitch, bytes);
  const CopyPeer3d peers{.from_type = kDeviceMemory,
                         .from = address(from.data),
                         .from_context = primary_of(from.device),
                         .from_pitch = from_pitch,
                         .from_height = size_t(count),
                         .to_type = kDeviceMemory,
                         .to = address(to.data),
                         .to_context = primary_of(to.device),
                         .to_pitch = to_pitch,
                         .to_height = size_t(count),
                         .width = size_t(bytes),
                         .height = size_t(count),
                         .depth = 1};
  check(driver().copy_peer_3d(&peers, stream), "copying rows between devices");
}

}  // namespace torch_conv::cuda
