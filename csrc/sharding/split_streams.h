// The CUDA streams of one call on shards, and the events by which they wait for one another. A large shard's interior
// waits for no other device.
//
// clang-format off
//   device 0   current stream   ... ready | interior ....................... | done: waits for its side stream
//              side stream                | boundary strip (reads device 1) |
//   device 1   current stream   ... ready | interior ....................... | done: later work may overwrite the
//              side stream                | boundary strip (reads device 0) |        shard, which device 0 has read
// clang-format on
//
// Two streams a device cost the host more time than they save if shards are small. One launch on the current stream
// then computes interior and boundary strips, if a kernel can, and waits for the other devices first. Three kinds of
// calls make one launch at any size:
//
// * Calls on volumes that memory does not limit (core/streaming_plan.h). Boundary strips of few planes would read three
//   times as many planes.
// * Chains: their interior is no separate problem.
// * Calls that have one stream for all shards.
//
// On the CPU there are no streams: everything runs in order.
#pragma once

#include <optional>
#include <vector>

#include "graph/launch_graph.h"

namespace torch_conv {

class SplitStreams {
 public:
  // Records an event on each device's current stream: the shards are ready. `several`: the call makes more than one
  // result. Side streams save time only then, or if the shards are on several devices.
  SplitStreams(const Call& call, const std::vector<Tensor>& shards, bool several);
  // Whether a CUDA graph captures the call. Side streams then save time at other sizes.
  static bool in_graph(const std::vector<Tensor>& shards) {
    return shards[0].is_cuda() && cuda::capturing(shards[0].get_device_index());
  }
  ~SplitStreams();  // after an exception: joins the streams, whatever was queued
  SplitStreams(const SplitStreams&) = delete;
  SplitStreams& operator=(const SplitStreams&) = delete;

  // The stream for work on the device of `shard` that reads `others` (or null): the current one, or the side stream.
  // The stream waits until the others are ready. `after_queued`: the side stream also waits for all work that the
  // current stream has queued so far.
  void* begin(const Tensor& shard, const std::vector<const Tensor*>& others, bool on_side, bool after_queued = false);
  // begin() in a replay, which knows tensors by their numbers.
  static void* begin(Replay& r, int shard, const std::vector<int>& others, bool on_side, bool after_queued);
  // The device's current stream waits for that work.
  void end(const Tensor& shard, bool on_side);
  // Whether a shard's interior and its boundary strips take two launches on two streams. `two_are_faster`: the
  // kernel family prefers two launches for a large shard.
  bool two_launches(bool two_are_faster) const { return !always_one_ && (two_are_faster || always_two_); }
  // The side stream waits for the current stream, which still reads memory that was allocated for the side stream.
  void delay_side(const Tensor& shard);
  // The reader's current stream waits until a window on another device is ready; finish() lets that device go on.
  // False: one of the two devices holds no shard of the call.
  bool read_from_peer(const Tensor& window, int reader);
  // A copy of a window for a device, made once on its current stream and kept until finish().
  Tensor copy_window(const Tensor& window, Device device);
  // Each device's current stream waits for all reads of its shards and windows by other devices.
  void finish();

 private:
  struct Reader {
    void* stream = nullptr;
    void* done = nullptr;       // event: the last work that reads other devices' memory
    std::vector<int> owners{};  // the devices of that memory
  };
  struct DeviceStreams {
    int index;
    void* ready = nullptr;  // event: the shards are
    Reader current{}, side{};
  };
  struct WindowCopy {
    Tensor window, source, copy;   // `source`: the window, dense
    int source_device, device;     // of the window, of the copy
    void *source_stream, *stream;  // the current streams of these
    void* ready;                   // event: the copy is
  };
  size_t position_of(int index) const;  // in devices_; its end where the device holds no shard
  static void wait_for(const DeviceStreams& owner, DeviceStreams& d, Reader& reader);
  DeviceStreams& device_of(const Tensor& t) { return devices_[position_of(t.get_device_index())]; }
  static void join(DeviceStreams& d);  // the current stream waits for the side stream
  static Reader& side_of(DeviceStreams& d, bool after_queued);

  std::vector<DeviceStreams> devices_;  // none if one stream does all
  std::vector<WindowCopy> copies_;
  bool always_one_ = false, always_two_ = false;  // launches of interior and boundary strips
};

// Makes another stream torch's current stream of a device while it lives. Torch then allocates memory for that stream.
class CurrentStream {
 public:
  CurrentStream(const Tensor& on, void* stream);  // null, or a tensor on the CPU: nothing changes
  ~CurrentStream();
  CurrentStream(const CurrentStream&) = delete;
  CurrentStream& operator=(const CurrentStream&) = delete;

 private:
  void* entered_ = nullptr;
};

// The streams of a replay on shards: Replay::on_shards.
struct ReplayStreams {
  SplitStreams streams;
  std::optional<CurrentStream> side{};  // while nodes run on a side stream
};

// Records SplitStreams::begin. The nodes behind it run on the side stream of `shard`, until one resets
// ReplayStreams::side.
void record_side_stream(LaunchGraph& graph, int shard, const std::vector<int>& others, bool after_queued);
// Records new streams for a replay on these shards, and their finish().
void record_streams(const Call& call, const std::vector<Tensor>& shards, bool several);
void record_finish(const Call& call);

// A dense copy of a tensor on another CUDA device, made on that device's current stream, by `streams` if not null.
Tensor copy_to(const Tensor& from, Device device, SplitStreams* streams);

// Whether kernels on the device of `reader` may read the memory of `other`.
bool can_read(const Tensor& reader, const Tensor& other);
bool can_read(int device, const Tensor& other);

}  // namespace torch_conv
