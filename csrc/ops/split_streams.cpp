#include "ops/split_streams.h"

#include <algorithm>
#include <cstring>

namespace torch_conv {

namespace {

// The memory of some rows of a tensor: blocks of one run each, if the dimensions below and above `dim` are dense.
struct Rows {
  int64_t row, pitch, count;  // elements of a row, between blocks; blocks
  std::vector<size_t> order;  // of the other dimensions in memory, innermost first
};

std::optional<Rows> rows_of(const Tensor& t, int64_t dim) {
  const Sizes size = sizes_of(t), stride = strides_of(t);
  Rows rows{1, 0, 1, {}};
  for (size_t i = 0; i < size.size(); ++i)
    if (int64_t(i) != dim && size[i] > 1) rows.order.push_back(i);
  std::sort(rows.order.begin(), rows.order.end(), [&](size_t a, size_t b) { return stride[a] < stride[b]; });
  size_t i = 0;
  for (; i < rows.order.size() && stride[rows.order[i]] == rows.row; ++i) rows.row *= size[rows.order[i]];
  if (size[dim] > 1 && stride[dim] != rows.row) return std::nullopt;
  for (; i < rows.order.size(); ++i) {
    const int64_t step = stride[rows.order[i]];
    if (rows.count == 1) rows.pitch = step;
    else if (step != rows.pitch * rows.count) return std::nullopt;
    rows.count *= size[rows.order[i]];
  }
  if (rows.count > 1 && rows.pitch < size[dim] * rows.row) return std::nullopt;  // an expanded tensor's
  return rows;
}

// Of a dense tensor, on another device.
Tensor copy_of(const Tensor& source, Device device, void* stream) {
  const Sizes sizes = sizes_of(source);
  const Tensor to = empty_strided(device, sizes, contiguous_strides(sizes), source.scalar_type());
  const int64_t bytes = source.numel() * int64_t(source.element_size());
  cuda::copy_blocks({device.index, to.data_ptr(), bytes}, {source.get_device_index(), source.data_ptr(), bytes}, bytes,
                    1, can_read(to, source), stream);
  return to;
}

// Shards up to so many bytes are filtered in less time (8 us on an NVIDIA H200) than the host takes for two streams.
constexpr int64_t kSmallShard = 16 << 20;

}  // namespace

SplitStreams::SplitStreams(const Call& call, const std::vector<Tensor>& shards, bool several) {
  if (!shards[0].is_cuda()) return;
  const auto small = [](const Tensor& t) { return t.numel() * int64_t(t.element_size()) <= kSmallShard; };
  const char* const steered = environment("TORCH_CONV_SIDE_STREAMS");
  together_ = *steered ? *steered == '0' : std::all_of(shards.begin(), shards.end(), small);
  if (!call.runs()) return;
  for (const Tensor& t : shards) {
    const int index = t.get_device_index();
    if (place_of(index) == devices_.size()) devices_.push_back({.index = index});
  }
  if (devices_.size() < 2 && !several) devices_.clear();
  for (OfDevice& d : devices_) {
    d.stream = cuda::current_stream(d.index);
    d.made = cuda::record(d.index, d.stream);
  }
}

size_t SplitStreams::place_of(int index) const {
  const auto is = [&](const OfDevice& d) { return d.index == index; };
  return std::find_if(devices_.begin(), devices_.end(), is) - devices_.begin();
}

void* SplitStreams::stream_of(OfDevice& d, bool fresh) {
  if (together_) return d.stream;
  if (!d.side) {
    d.side = cuda::side_stream(d.index);
    if (!fresh) cuda::wait(d.index, d.side, d.made);
  }
  if (fresh) cuda::wait(d.index, d.side, cuda::record(d.index, d.stream));
  return d.side;
}

void* SplitStreams::begin(const Tensor& own, const std::vector<const Tensor*>& others, bool fresh) {
  if (devices_.empty()) return own.is_cuda() ? cuda::current_stream(own.get_device_index()) : nullptr;
  OfDevice& d = device_of(own);
  void* const stream = stream_of(d, fresh);
  for (const Tensor* other : others) {
    if (!other) continue;
    const OfDevice& lender = device_of(*other);
    if (lender.index == d.index || std::find(d.read.begin(), d.read.end(), lender.index) != d.read.end()) continue;
    cuda::wait(d.index, stream, lender.made);
    d.read.push_back(lender.index);
  }
  return stream;
}

void SplitStreams::join(OfDevice& d) {
  d.done = cuda::record(d.index, d.side);
  cuda::wait(d.index, d.stream, d.done);
}

void SplitStreams::end(const Tensor& own) {
  if (devices_.empty()) return;
  OfDevice& d = device_of(own);
  if (together_) d.done = cuda::record(d.index, d.stream);
  else join(d);
}

void SplitStreams::keep(const Tensor& own) {
  if (devices_.empty() || together_) return;
  const OfDevice& d = device_of(own);
  cuda::wait(d.index, d.side, cuda::record(d.index, d.stream));
}

SplitStreams::~SplitStreams() {
  try {
    for (OfDevice& d : devices_)
      if (d.side) join(d);
      else if (!d.read.empty()) d.done = cuda::record(d.index, d.stream);
    finish();
  } catch (const std::exception&) {
    // The device itself has failed: nobody will see what it computes.
  }
}

Tensor SplitStreams::bring(const Tensor& window, Device device) {
  const int there = device.index, here = window.get_device_index();
  void* const stream = cuda::current_stream(there);
  const auto same = [&](const Copy& c) {
    return c.there == there && c.window.data_ptr() == window.data_ptr() && sizes_of(c.window) == sizes_of(window) &&
           strides_of(c.window) == strides_of(window) && c.window.scalar_type() == window.scalar_type();
  };
  if (const auto known = std::find_if(copies_.begin(), copies_.end(), same); known != copies_.end()) {
    if (known->stream != stream) cuda::wait(there, stream, known->made);
    return known->copy;
  }
  void* const origin = cuda::current_stream(here);
  const Tensor source = torch::stable::contiguous(window);
  const size_t place = window.is_contiguous() ? place_of(here) : devices_.size();
  cuda::wait(there, stream, place < devices_.size() ? devices_[place].made : cuda::record(here, origin));
  const Tensor copy = copy_of(source, device, stream);
  copies_.push_back({window, source, copy, here, there, origin, stream, cuda::record(there, stream)});
  return copy;
}

void SplitStreams::finish() {
  for (const Copy& c : copies_) cuda::wait(c.here, c.origin, c.made);
  copies_.clear();
  for (const OfDevice& d : devices_)
    for (const OfDevice& lender : devices_)
      if (std::find(d.read.begin(), d.read.end(), lender.index) != d.read.end())
        cuda::wait(lender.index, lender.stream, d.done);
  devices_.clear();
}

CurrentStream::CurrentStream(const Tensor& on, void* stream) {
  if (stream && on.is_cuda()) entered_ = cuda::enter_stream(on.get_device_index(), stream);
}

CurrentStream::~CurrentStream() {
  if (entered_) cuda::leave_stream(entered_);
}

void copy_rows(const Tensor& to, int64_t at, const Tensor& from, int64_t first, int64_t rows, int64_t dim) {
  if (rows == 0 || to.numel() == 0) return;
  const auto target = rows_of(to, dim), source = rows_of(from, dim);
  if (!to.is_cuda() || !target || !source || target->row != source->row || target->order != source->order) {
    Tensor part = narrow(to, dim, at, rows);
    torch::stable::copy_(part, narrow(from, dim, first, rows));
    return;
  }
  const int64_t bytes = to.element_size();
  const auto blocks = [&](const Tensor& t, const Rows& r, int64_t row) {
    return cuda::RowBlocks{t.get_device_index(), static_cast<char*>(t.data_ptr()) + row * r.row * bytes,
                           r.pitch * bytes};
  };
  cuda::copy_blocks(blocks(to, *target, at), blocks(from, *source, first), rows * target->row * bytes, target->count,
                    can_read(to, from), cuda::current_stream(to.get_device_index()));
}

Tensor copy_to(const Tensor& from, Device device, SplitStreams* streams) {
  if (streams) return streams->bring(from, device);
  const Tensor source = torch::stable::contiguous(from);
  const int there = device.index, here = source.get_device_index();
  void *const stream = cuda::current_stream(there), *const origin = cuda::current_stream(here);
  cuda::wait(there, stream, cuda::record(here, origin));
  const Tensor copy = copy_of(source, device, stream);
  cuda::wait(here, origin, cuda::record(there, stream));  // before the source's memory is another's
  return copy;
}

bool can_read(const Tensor& reader, const Tensor& other) {
  if (!reader.is_cuda()) return false;
  if (std::strcmp(environment("TORCH_CONV_NO_PEER"), "1") == 0) return false;
  const int here = reader.get_device_index(), there = other.get_device_index();
  return here == there || cuda::can_read(here, there, other.data_ptr());
}

}  // namespace torch_conv
