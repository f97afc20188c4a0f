// The arguments of calls on shards: windows are cut with the image, copied to its device, or read in place.
#include "graph/allocate.h"
#include "graph/launch_graph.h"
#include "sharding/split.h"
#include "sharding/split_streams.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

// Bytes of a window that kernels read in another GPU's memory; every block reads the window. Two NVIDIA H100 with
// NVLink, us a call on their shards, the window copied | read in place:
//     3x3 float32 of 4096²     49.0 | 32.8     15x15 of 8192² (900 bytes)                  302 | 309
//     3x3 of 8192²            103.5 | 103.5    3x3 for each of 64 channels of 2048x1024    193 | 199   (2304 bytes)
//       in a CUDA graph        99.7 | 97.3     7x7 for each of 64 channels of 2048x1024    211 | 215
//     3x3x3 of 512³             233 | 230
// A copy costs the host 11 us for each further GPU. Not measured: between 36 and 900 bytes, more GPUs, GPUs without
// NVLink.
constexpr int64_t kMostReadFromPeer = 512;

bool on_another_gpu(const Tensor& input, const Tensor& window) {
  return input.is_cuda() && window.is_cuda() && !same_device(input, window);
}

}  // namespace

Tensor on_device_of(const Call& call, const Tensor& input, const Tensor& window) {
  if (!on_another_gpu(input, window)) return window;
  if (!call.runs())
    return placeholder(input, sizes_of(window), contiguous_strides(sizes_of(window)), window.scalar_type());
  const Device device = device_of(input);
  const Tensor there = copy_to(window, device, call.streams);
  if (call.graph)
    call.graph->record_tensor(there, [device, source = call.graph->index_of(window)](Replay& r) {
      return copy_to(r.tensor(source), device, r.streams.get());
    });
  return there;
}

bool read_from_peer(const Call& call, const Tensor& input, const Tensor& window) {
  if (!call.runs() || !call.streams || !on_another_gpu(input, window)) return false;
  const int reader = input.get_device_index();
  const bool small = window.numel() * int64_t(window.element_size()) <= kMostReadFromPeer;
  if (!small || !can_read(reader, window) || !call.streams->read_from_peer(window, reader)) return false;
  if (call.graph) {
    const int at = call.graph->index_of(window);
    call.graph->guard([reader, at](const std::vector<Tensor>& given) { return can_read(reader, given[at]); });
    call.graph->record([reader, at](Replay& r) { r.streams->read_from_peer(r.tensor(at), reader); });
  }
  return true;
}

Tensor argument_of(const Call& call, const Tensor& input, int axes, int window_axes, const Tensor& window) {
  if (window_axes == 0) return window;
  Tensor part = window;
  if (const Slice* slice = call.slice) {
    const int64_t leading = window.dim() - window_axes, before = slice->dim_from_end - axes - 1;  // 0 channel, 1 sample
    const int64_t dim = before == 0 ? 1 : 0;
    if (before <= 1 && leading > dim && window.size(dim) > 1) part = narrow(part, dim, slice->begin, slice->size);
  }
  return part;
}

std::vector<Tensor> argument_of(const Call& call, const Tensor& input, int axes, int window_axes,
                                const std::vector<Tensor>& windows) {
  std::vector<Tensor> parts;
  for (const Tensor& window : windows) parts.push_back(argument_of(call, input, axes, window_axes, window));
  return parts;
}

}  // namespace torch_conv
