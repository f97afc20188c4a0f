// The arguments of calls on shards: cut as the image is, and on its device.
#include "ops/images.h"
#include "ops/split.h"
#include "ops/split_streams.h"
#include "ops/steps.h"

namespace torch_conv {

Tensor on_device_of(const Call& call, const Tensor& input, const Tensor& window) {
  if (!input.is_cuda() || !window.is_cuda() || same_device(input, window)) return window;
  if (!call.runs()) return pretend(input, sizes_of(window), contiguous_strides(sizes_of(window)), window.scalar_type());
  const Device device = device_of(input);
  const Tensor there = copy_to(window, device, call.streams);
  if (call.steps)
    call.steps->makes(there, [device, source = call.steps->index_of(window)](Replay& r) {
      return copy_to(r.tensor(source), device, r.streams ? &*r.streams : nullptr);
    });
  return there;
}

Tensor argument_of(const Call& call, const Tensor& input, int axes, int window_axes, const Tensor& window) {
  if (window_axes == 0) return window;
  Tensor own = window;
  if (const Slice* slice = call.slice) {
    const int64_t leading = window.dim() - window_axes, before = slice->dim_from_end - axes - 1;  // 0 channel, 1 sample
    const int64_t dim = before == 0 ? 1 : 0;
    if (before <= 1 && leading > dim && window.size(dim) > 1) own = narrow(own, dim, slice->begin, slice->size);
  }
  return on_device_of(call, input, own);
}

std::vector<Tensor> argument_of(const Call& call, const Tensor& input, int axes, int window_axes,
                                const std::vector<Tensor>& windows) {
  std::vector<Tensor> own;
  for (const Tensor& window : windows) own.push_back(argument_of(call, input, axes, window_axes, window));
  return own;
}

}  // namespace torch_conv
