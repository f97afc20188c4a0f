#include "sharding/split_streams.h"

#include <algorithm>
#include <cstring>

#include "sharding/split_copies.h"

namespace torch_conv {

namespace {

// On n devices shards up to n times so many bytes are filtered in less time than the host takes for two streams a
// device. 3x3 float32, one stream and two, us for a shard on each of four NVIDIA H200: 16 MiB a shard 67, 91; 64 MiB
// 62, 89; 1 GiB 540, 529. Of two: 32 MiB 35, 42; 128 MiB 77, 73.
constexpr int64_t kSmallShard = 32 << 20;
// In a graph, which the host launches as one: four GPUs 16 MiB 18, 37; 64 MiB 44, 39. Two GPUs 32 MiB 23, 21.
constexpr int64_t kSmallInGraph = 16 << 20;

bool is_same(const Tensor& a, const Tensor& b) {
  return a.data_ptr() == b.data_ptr() && sizes_of(a) == sizes_of(b) && strides_of(a) == strides_of(b) &&
         a.scalar_type() == b.scalar_type();
}

bool contains(const std::vector<int>& indices, int index) {
  return std::find(indices.begin(), indices.end(), index) != indices.end();
}

}  // namespace

SplitStreams::SplitStreams(const Call& call, const std::vector<Tensor>& shards, bool several) {
  const char* const steered = environment("TORCH_CONV_SIDE_STREAMS");
  apart_ = *steered && *steered != '0';
  for (const Tensor& t : shards)
    if (t.is_cuda() && place_of(t.get_device_index()) == devices_.size())
      devices_.push_back({.index = t.get_device_index()});
  // For a GPU that is not there a call is explained as one on as many as there are shards.
  const size_t gpus = devices_.empty() ? shards.size() : devices_.size();
  const int64_t most = in_graph(shards) ? kSmallInGraph : kSmallShard * int64_t(gpus);
  // One stream makes interior and boundary strips one after the other, which takes longer than one launch. One NVIDIA
  // H100, us apart and together: 3x3 float32 of 16 MiB 30, 20; 64 MiB 59, 49; 512 MiB 376, 365; 1 GiB 735, 724;
  // Gaussian 31 of 64 MiB 88, 64; 1 GiB 877, 850; box 15 71, 56; 832, 813.
  const bool one_stream = devices_.size() < 2 && !several;
  const auto small = [&](const Tensor& t) { return t.numel() * int64_t(t.element_size()) <= most; };
  together_ = *steered ? *steered == '0' : one_stream || std::all_of(shards.begin(), shards.end(), small);
  if (!call.runs() || one_stream) devices_.clear();
  for (OfDevice& d : devices_) {
    d.current.stream = cuda::current_stream(d.index);
    d.made = cuda::record(d.index, d.current.stream);
  }
}

size_t SplitStreams::place_of(int index) const {
  const auto is = [&](const OfDevice& d) { return d.index == index; };
  return std::find_if(devices_.begin(), devices_.end(), is) - devices_.begin();
}

SplitStreams::Reader& SplitStreams::side_of(OfDevice& d, bool fresh) {
  if (!d.side.stream) {
    d.side.stream = cuda::side_stream(d.index);
    if (!fresh) cuda::wait(d.index, d.side.stream, d.made);
  }
  if (fresh) cuda::wait(d.index, d.side.stream, cuda::record(d.index, d.current.stream));
  return d.side;
}

void* SplitStreams::begin(const Tensor& own, const std::vector<const Tensor*>& others, bool aside, bool fresh) {
  if (devices_.empty()) return own.is_cuda() ? cuda::current_stream(own.get_device_index()) : nullptr;
  OfDevice& d = device_of(own);
  Reader& reader = aside ? side_of(d, fresh) : d.current;
  for (const Tensor* other : others)
    if (other) wait_for(device_of(*other), d, reader);
  return reader.stream;
}

void SplitStreams::wait_for(const OfDevice& owner, OfDevice& d, Reader& reader) {
  if (owner.index == d.index || contains(reader.owners, owner.index)) return;
  cuda::wait(d.index, reader.stream, owner.made);
  reader.owners.push_back(owner.index);
}

bool SplitStreams::read_from_peer(const Tensor& window, int reader) {
  const size_t owner = place_of(window.get_device_index()), place = place_of(reader);
  if (std::max(owner, place) >= devices_.size()) return false;
  OfDevice& d = devices_[place];
  // Strips are filtered in the stream aside, which is the current one then.
  const bool aside = d.side.stream && d.side.stream == cuda::current_stream(reader);
  wait_for(devices_[owner], d, aside ? d.side : d.current);
  return true;
}

void SplitStreams::join(OfDevice& d) {
  d.side.done = cuda::record(d.index, d.side.stream);
  cuda::wait(d.index, d.current.stream, d.side.done);
}

void SplitStreams::end(const Tensor& own, bool aside) {
  if (devices_.empty()) return;
  if (aside) join(device_of(own));
}

void SplitStreams::keep(const Tensor& own) {
  if (devices_.empty()) return;
  const OfDevice& d = device_of(own);
  cuda::wait(d.index, d.side.stream, cuda::record(d.index, d.current.stream));
}

SplitStreams::~SplitStreams() {
  try {
    for (OfDevice& d : devices_)
      if (d.side.stream) join(d);
    finish();
  } catch (const std::exception&) {
    // The device itself has failed: nobody will see what it computes.
  }
}

Tensor SplitStreams::bring(const Tensor& window, Device device) {
  const int there = device.index, here = window.get_device_index();
  void* const stream = cuda::current_stream(there);
  const auto of_same = [&](const Copy& c) { return is_same(c.window, window); };
  const auto same = [&](const Copy& c) { return c.there == there && of_same(c); };
  if (const auto known = std::find_if(copies_.begin(), copies_.end(), same); known != copies_.end()) {
    if (known->stream != stream) cuda::wait(there, stream, known->made);
    return known->copy;
  }
  void* const origin = cuda::current_stream(here);
  const auto dense = std::find_if(copies_.begin(), copies_.end(), of_same);
  const Tensor source = dense != copies_.end() ? dense->source : torch::stable::contiguous(window);
  const size_t place = place_of(here);
  const bool given = window.is_contiguous() && place < devices_.size();
  cuda::wait(there, stream, given ? devices_[place].made : cuda::record(here, origin));
  const Tensor copy = copy_of(source, device);
  copies_.push_back({window, source, copy, here, there, origin, stream, cuda::record(there, stream)});
  return copy;
}

void SplitStreams::finish() {
  for (const Copy& c : copies_) cuda::wait(c.here, c.origin, c.made);
  copies_.clear();
  for (OfDevice& d : devices_)
    if (!d.current.owners.empty()) d.current.done = cuda::record(d.index, d.current.stream);
  for (const OfDevice& owner : devices_) {
    const cuda::OnDevice current(owner.index);
    for (const OfDevice& d : devices_)
      for (const Reader* reader : {&d.current, &d.side})
        if (contains(reader->owners, owner.index)) cuda::wait(owner.index, owner.current.stream, reader->done);
  }
  devices_.clear();
}

CurrentStream::CurrentStream(const Tensor& on, void* stream) {
  if (stream && on.is_cuda()) entered_ = cuda::enter_stream(on.get_device_index(), stream);
}

CurrentStream::~CurrentStream() {
  if (entered_) cuda::leave_stream(entered_);
}

Tensor copy_to(const Tensor& from, Device device, SplitStreams* streams) {
  if (streams) return streams->bring(from, device);
  const Tensor source = torch::stable::contiguous(from);
  const int there = device.index, here = source.get_device_index();
  void *const stream = cuda::current_stream(there), *const origin = cuda::current_stream(here);
  cuda::wait(there, stream, cuda::record(here, origin));
  const Tensor copy = copy_of(source, device);
  cuda::wait(here, origin, cuda::record(there, stream));  // before the source's memory is another's
  return copy;
}

bool can_read(const Tensor& reader, const Tensor& other) {
  return reader.is_cuda() && can_read(reader.get_device_index(), other);
}

bool can_read(int device, const Tensor& other) {
  if (std::strcmp(environment("TORCH_CONV_NO_PEER"), "1") == 0) return false;
  const int there = other.get_device_index();
  return device == there || cuda::can_read(device, there, other.data_ptr());
}

}  // namespace torch_conv
