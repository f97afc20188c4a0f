// The CUDA streams of one call on shards: who waits for whom, so that large shards wait for no other before their
// interior.
//
//   device 0   current stream   ... made | interior ................. | done
//              side stream             \ | boundary strip (reads device 1) | -----^ |
//   device 1   current stream   ... made | interior ................. | done, and what comes next may overwrite
//              side stream               | boundary strip (reads device 0) |        the shard: device 0 has read it
//
// Two streams a device cost the host more than they save where shards are small: then a kernel that can makes interior
// and boundary strips in one launch, in the current stream, which waits for the others before. So it is with volumes
// of any size unless memory binds (core/streaming_plan.h), whose few planes at a shard boundary would read three times
// as many, with chains, which cannot be cut at shard boundaries, and where the call has one stream for all.
//
// On the CPU everything goes one after the other.
#pragma once

#include <algorithm>
#include <vector>

#include "tensors/call.h"

namespace torch_conv {

class SplitStreams {
 public:
  // Marks what the devices' current streams have queued: what the shards are made of.
  // `several`: more than one result is made. Only then, or where the shards lie on several devices, it is worth it to
  // have streams beside the current ones.
  SplitStreams(const Call& call, const std::vector<Tensor>& shards, bool several);
  // Is the call captured? Its streams are others then.
  static bool in_graph(const std::vector<Tensor>& shards) {
    return shards[0].is_cuda() && cuda::capturing(shards[0].get_device_index());
  }
  ~SplitStreams();  // after an exception: the streams meet again, whatever was queued
  SplitStreams(const SplitStreams&) = delete;
  SplitStreams& operator=(const SplitStreams&) = delete;

  // The stream for work on the device of `own` that reads `others` (or null): the current one, or one aside. It waits
  // until they are made. `fresh`: the one aside waits for all that the current one has queued so far, too.
  void* begin(const Tensor& own, const std::vector<const Tensor*>& others, bool aside, bool fresh = false);
  // The device's current stream goes on after that work.
  void end(const Tensor& own, bool aside);
  // Are interior and boundary strips of a shard made apart, in two streams? `worth`: of large shards they had better
  // be.
  bool apart(bool worth) const { return !together_ && (worth || apart_); }
  // What was allocated aside is still read by the current stream: the one aside goes on after that.
  void keep(const Tensor& own);
  // The reader's current stream waits until a window on another device is made, which goes on when that has been read.
  // False: one of the two is no device of the call's shards.
  bool read_from_peer(const Tensor& window, int reader);
  // A window of another device on this one: a copy for each device, made on its current stream and kept until the end.
  // No device waits for another's copy before it has all of its work.
  Tensor bring(const Tensor& window, Device device);
  // The current streams of the others go on after their shards and windows have been read.
  void finish();

 private:
  struct Reader {
    void* stream = nullptr;
    void* done = nullptr;       // event: the last work that reads other devices' memory
    std::vector<int> owners{};  // whose memory that is
  };
  struct OfDevice {
    int index;
    void* made = nullptr;  // event: the shards are
    Reader current{}, side{};
  };
  struct Copy {
    Tensor window, source, copy;  // as it was given, and dense
    int here, there;              // devices: the window's, the copy's
    void *origin, *stream;        // their streams
    void* made;                   // event: the copy is
  };
  size_t place_of(int index) const;  // in devices_; its end: none of the call's
  static void wait_for(const OfDevice& owner, OfDevice& d, Reader& reader);
  OfDevice& device_of(const Tensor& t) { return devices_[place_of(t.get_device_index())]; }
  static void join(OfDevice& d);  // the current stream goes on after the one aside
  static Reader& side_of(OfDevice& d, bool fresh);

  std::vector<OfDevice> devices_;  // none where one stream does all
  std::vector<Copy> copies_;
  bool together_ = false, apart_ = false;
};

// While it lives, torch's current stream of a device is another one, so that memory is allocated for that stream.
class CurrentStream {
 public:
  CurrentStream(const Tensor& on, void* stream);  // null, or a tensor on the CPU: nothing changes
  ~CurrentStream();
  CurrentStream(const CurrentStream&) = delete;
  CurrentStream& operator=(const CurrentStream&) = delete;

 private:
  void* entered_ = nullptr;
};

// A dense copy of a tensor on another CUDA device, made on that one's current stream. Where `streams` are those of a
// call on shards, they make it.
Tensor copy_to(const Tensor& from, Device device, SplitStreams* streams);

// May kernels on the device of `reader` read the memory of `other`?
bool can_read(const Tensor& reader, const Tensor& other);
bool can_read(int device, const Tensor& other);

}  // namespace torch_conv
