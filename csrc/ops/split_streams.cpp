#include "ops/split_streams.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace torch_conv {

namespace {

// torch's current stream of a device.
void* current_stream(int device) {
  int previous = 0;
  void* stream = cuda_rooms()->enter(device, &previous);
  cuda_rooms()->leave(previous);
  return stream;
}

// The memory of some rows of a tensor: blocks of one run each, if the dimensions below and above `dim` are dense.
struct Rows {
  int64_t row, pitch, count;  // elements of a row, between blocks; blocks
};

std::optional<Rows> rows_of(const Tensor& t, int64_t dim) {
  const Sizes size = sizes_of(t), stride = strides_of(t);
  std::vector<std::pair<int64_t, int64_t>> others;  // stride, size
  for (size_t i = 0; i < size.size(); ++i)
    if (int64_t(i) != dim && size[i] > 1) others.push_back({stride[i], size[i]});
  std::sort(others.begin(), others.end());
  int64_t step = 1;
  size_t i = 0;
  for (; i < others.size() && others[i].first == step; ++i) step *= others[i].second;
  Rows rows{step, 0, 1};
  if (size[dim] > 1 && stride[dim] != step) return std::nullopt;
  for (; i < others.size(); ++i) {
    if (rows.count == 1) rows.pitch = others[i].first;
    else if (others[i].first != rows.pitch * rows.count) return std::nullopt;
    rows.count *= others[i].second;
  }
  return rows;
}

}  // namespace

SplitStreams::SplitStreams(const std::vector<Tensor>& shards) {
  if (!shards[0].is_cuda()) return;
  for (const Tensor& t : shards) {
    const int index = t.get_device_index();
    const auto known =
        std::find_if(devices_.begin(), devices_.end(), [&](const Device& d) { return d.index == index; });
    if (known == devices_.end()) devices_.push_back({.index = index, .stream = current_stream(index)});
  }
  for (Device& d : devices_) d.ready = cuda_rooms()->record(d.index, d.stream);
}

SplitStreams::Device& SplitStreams::device_of(const Tensor& t) {
  const int index = t.get_device_index();
  return *std::find_if(devices_.begin(), devices_.end(), [&](const Device& d) { return d.index == index; });
}

void SplitStreams::wait_once(Device& reader, void* stream, std::vector<int>& lenders, const Device& lender) {
  if (has(lenders, lender)) return;
  cuda_rooms()->wait(reader.index, stream, lender.ready);
  lenders.push_back(lender.index);
}

void SplitStreams::read(const Tensor& reader, const Tensor& other) {
  if (devices_.size() < 2) return;
  Device &to = device_of(reader), &from = device_of(other);
  if (to.index != from.index) wait_once(to, to.stream, to.lenders, from);
}

void SplitStreams::copy(const Tensor& to, int64_t at, const Tensor& from, int64_t first, int64_t rows, int64_t dim,
                        bool fresh) {
  const auto target = rows_of(to, dim), source = rows_of(from, dim);
  if (devices_.empty() || !target || !source || target->row != source->row || target->count != source->count) {
    Tensor part = narrow(to, dim, at, rows);
    torch::stable::copy_(part, narrow(from, dim, first, rows));
    return;
  }
  Device &here = device_of(to), &there = device_of(from);
  if (!here.side) here.side = cuda_rooms()->side_stream(here.index);
  wait_once(here, here.side, here.side_lenders, here);
  wait_once(here, here.side, here.side_lenders, there);
  if (fresh) cuda_rooms()->wait(here.index, here.side, cuda_rooms()->record(here.index, here.stream));
  const int64_t bytes = to.element_size();
  const auto blocks = [&](const Device& d, const Tensor& t, const Rows& r, int64_t row) {
    return RowBlocks{d.index, static_cast<char*>(t.data_ptr()) + row * r.row * bytes, r.pitch * bytes};
  };
  cuda_rooms()->copy_blocks(blocks(here, to, *target, at), blocks(there, from, *source, first),
                            rows * target->row * bytes, target->count, here.side);
  here.copying = true;
}

void SplitStreams::join_copies(const Tensor& on) {
  if (devices_.empty()) return;
  Device& d = device_of(on);
  if (!d.copying) return;
  void* copied = cuda_rooms()->record(d.index, d.side);
  cuda_rooms()->wait(d.index, d.stream, copied);
  for (const Device& lender : devices_)
    if (lender.index != d.index && has(d.side_lenders, lender)) cuda_rooms()->wait(lender.index, lender.stream, copied);
  d.copying = false;
}

void SplitStreams::finish() {
  for (Device& d : devices_) {
    if (d.lenders.empty()) continue;
    void* done = cuda_rooms()->record(d.index, d.stream);
    for (const Device& lender : devices_)
      if (has(d.lenders, lender)) cuda_rooms()->wait(lender.index, lender.stream, done);
  }
}

bool can_read(const Tensor& reader, const Tensor& other) {
  if (!reader.is_cuda()) return false;
  const char* staged = std::getenv("TORCH_CONV_NO_PEER");
  if (staged && std::strcmp(staged, "1") == 0) return false;
  const int here = reader.get_device_index(), there = other.get_device_index();
  return here == there || cuda_rooms()->can_read(here, there, other.data_ptr());
}

}  // namespace torch_conv
