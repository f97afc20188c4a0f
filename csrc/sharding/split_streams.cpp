#include "sharding/split_streams.h"

#include <algorithm>
#include <cstring>

#include "sharding/split_copies.h"

namespace torch_conv {

namespace {

// Bytes. On n devices, shards of up to n times this size are filtered in less time than the host takes for two streams
// a device.
//
// us for 3x3 float32, a shard on each NVIDIA H200, one stream | two streams:
//
//     four GPUs   16 MiB a shard 67 | 91   64 MiB 62 | 89    1 GiB 540 | 529
//     two GPUs    32 MiB a shard 35 | 42   128 MiB 77 | 73
constexpr int64_t kSmallShard = 32 << 20;
// kSmallShard of a call in a CUDA graph, which the host launches as one:
//
//     four GPUs   16 MiB a shard 18 | 37   64 MiB 44 | 39
//     two GPUs    32 MiB a shard 23 | 21
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
  always_two_ = *steered && *steered != '0';
  for (const Tensor& t : shards)
    if (t.is_cuda() && position_of(t.get_device_index()) == devices_.size())
      devices_.push_back({.index = t.get_device_index()});
  // A call that is explained for a GPU that is not there has one GPU for each shard.
  const size_t gpus = devices_.empty() ? shards.size() : devices_.size();
  const int64_t most = in_graph(shards) ? kSmallInGraph : kSmallShard * int64_t(gpus);
  // On one stream, interior and boundary strips in separate launches take longer than in one launch. One NVIDIA H100,
  // us for separate launches | one launch:
  //     3x3 float32   16 MiB 30 | 20   64 MiB 59 | 49   512 MiB 376 | 365   1 GiB 735 | 724
  //     Gaussian 31                    64 MiB 88 | 64                       1 GiB 877 | 850
  //     box 15                         64 MiB 71 | 56                       1 GiB 832 | 813
  const bool one_stream = devices_.size() < 2 && !several;
  const auto small = [&](const Tensor& t) { return t.numel() * int64_t(t.element_size()) <= most; };
  always_one_ = *steered ? *steered == '0' : one_stream || std::all_of(shards.begin(), shards.end(), small);
  if (!call.runs() || one_stream) devices_.clear();
  for (DeviceStreams& d : devices_) {
    d.current.stream = cuda::current_stream(d.index);
    d.ready = cuda::record(d.index, d.current.stream);
  }
}

size_t SplitStreams::position_of(int index) const {
  const auto is = [&](const DeviceStreams& d) { return d.index == index; };
  return std::find_if(devices_.begin(), devices_.end(), is) - devices_.begin();
}

SplitStreams::Reader& SplitStreams::side_of(DeviceStreams& d, bool after_queued) {
  if (!d.side.stream) {
    d.side.stream = cuda::side_stream(d.index);
    if (!after_queued) cuda::wait(d.index, d.side.stream, d.ready);
  }
  if (after_queued) cuda::wait(d.index, d.side.stream, cuda::record(d.index, d.current.stream));
  return d.side;
}

void* SplitStreams::begin(const Tensor& shard, const std::vector<const Tensor*>& others, bool on_side,
                          bool after_queued) {
  if (devices_.empty()) return shard.is_cuda() ? cuda::current_stream(shard.get_device_index()) : nullptr;
  DeviceStreams& d = device_of(shard);
  Reader& reader = on_side ? side_of(d, after_queued) : d.current;
  for (const Tensor* other : others)
    if (other) wait_for(device_of(*other), d, reader);
  return reader.stream;
}

void* SplitStreams::begin(Replay& r, int shard, const std::vector<int>& others, bool on_side, bool after_queued) {
  std::vector<const Tensor*> owners;
  for (int i : others) owners.push_back(&r.tensor(i));
  return r.on_shards->streams.begin(r.tensor(shard), owners, on_side, after_queued);
}

void SplitStreams::wait_for(const DeviceStreams& owner, DeviceStreams& d, Reader& reader) {
  if (owner.index == d.index || contains(reader.owners, owner.index)) return;
  cuda::wait(d.index, reader.stream, owner.ready);
  reader.owners.push_back(owner.index);
}

bool SplitStreams::read_from_peer(const Tensor& window, int reader) {
  const size_t owner = position_of(window.get_device_index()), position = position_of(reader);
  if (std::max(owner, position) >= devices_.size()) return false;
  DeviceStreams& d = devices_[position];
  // The side stream is torch's current one while boundary strips are filtered.
  const bool on_side = d.side.stream && d.side.stream == cuda::current_stream(reader);
  wait_for(devices_[owner], d, on_side ? d.side : d.current);
  return true;
}

void SplitStreams::join(DeviceStreams& d) {
  d.side.done = cuda::record(d.index, d.side.stream);
  cuda::wait(d.index, d.current.stream, d.side.done);
}

void SplitStreams::end(const Tensor& shard, bool on_side) {
  if (devices_.empty()) return;
  if (on_side) join(device_of(shard));
}

void SplitStreams::delay_side(const Tensor& shard) {
  if (devices_.empty()) return;
  const DeviceStreams& d = device_of(shard);
  cuda::wait(d.index, d.side.stream, cuda::record(d.index, d.current.stream));
}

SplitStreams::~SplitStreams() {
  try {
    for (DeviceStreams& d : devices_)
      if (d.side.stream) join(d);
    finish();
  } catch (const std::exception&) {
    // The device has failed, and the results are lost.
  }
}

Tensor SplitStreams::copy_window(const Tensor& window, Device device) {
  const int there = device.index, here = window.get_device_index();
  void* const stream = cuda::current_stream(there);
  const auto has_window = [&](const WindowCopy& c) { return is_same(c.window, window); };
  const auto same = [&](const WindowCopy& c) { return c.device == there && has_window(c); };
  if (const auto known = std::find_if(copies_.begin(), copies_.end(), same); known != copies_.end()) {
    if (known->stream != stream) cuda::wait(there, stream, known->ready);
    return known->copy;
  }
  void* const origin = cuda::current_stream(here);
  const auto dense = std::find_if(copies_.begin(), copies_.end(), has_window);
  const Tensor source = dense != copies_.end() ? dense->source : torch::stable::contiguous(window);
  const size_t position = position_of(here);
  const bool given = window.is_contiguous() && position < devices_.size();
  cuda::wait(there, stream, given ? devices_[position].ready : cuda::record(here, origin));
  const Tensor copy = copy_of(source, device);
  copies_.push_back({window, source, copy, here, there, origin, stream, cuda::record(there, stream)});
  return copy;
}

void SplitStreams::finish() {
  for (const WindowCopy& c : copies_) cuda::wait(c.source_device, c.source_stream, c.ready);
  copies_.clear();
  for (DeviceStreams& d : devices_)
    if (!d.current.owners.empty()) d.current.done = cuda::record(d.index, d.current.stream);
  for (const DeviceStreams& owner : devices_) {
    const cuda::OnDevice current(owner.index);
    for (const DeviceStreams& d : devices_)
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

void record_side_stream(LaunchGraph& graph, int shard, const std::vector<int>& others, bool after_queued) {
  graph.record([shard, others, after_queued](Replay& r) {
    auto& side = r.on_shards->side;
    side.reset();  // leaves an earlier side stream before a new one is entered
    side.emplace(r.tensor(shard), SplitStreams::begin(r, shard, others, true, after_queued));
  });
}

void record_streams(const Call& call, const std::vector<Tensor>& shards, bool several) {
  if (!call.graph) return;
  std::vector<int> indices;
  for (const Tensor& t : shards) indices.push_back(call.graph->index_of(t));
  call.graph->record([op = call.op, indices, several](Replay& r) {
    std::vector<Tensor> shards;
    for (int i : indices) shards.push_back(r.tensor(i));
    r.on_shards.reset(new ReplayStreams{SplitStreams(Call{op}, shards, several)});
  });
}

void record_finish(const Call& call) {
  if (call.graph) call.graph->record([](Replay& r) { r.on_shards->streams.finish(); });
}

Tensor copy_to(const Tensor& from, Device device, SplitStreams* streams) {
  if (streams) return streams->copy_window(from, device);
  const Tensor source = torch::stable::contiguous(from);
  const int there = device.index, here = source.get_device_index();
  void *const stream = cuda::current_stream(there), *const origin = cuda::current_stream(here);
  cuda::wait(there, stream, cuda::record(here, origin));
  const Tensor copy = copy_of(source, device);
  cuda::wait(here, origin, cuda::record(there, stream));  // before torch gives the source's memory to another tensor
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
