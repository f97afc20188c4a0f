#include "graph/allocate.h"

#include <algorithm>

namespace torch_conv {

Tensor placeholder(const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype) {
  // Torch looks up the device of an address, so the address is that of `like`, rounded down to the alignment of fresh
  // memory.
  constexpr uintptr_t kAlignment = 512;
  void* address = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(like.data_ptr()) / kAlignment * kAlignment);
  return torch::stable::from_blob(address, sizes, strides, like.device(), dtype);
}

Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype) {
  if (!call.runs()) return placeholder(like, sizes, strides, dtype);
  const Tensor result = empty_strided(device_of(like), sizes, strides, dtype);
  if (call.graph) call.graph->record_allocation(result);
  return result;
}

Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, ScalarType dtype) {
  return allocate(call, like, sizes, contiguous_strides(sizes), dtype);
}

Tensor derive(const Call& call, const Tensor& from, const Tensor& on, const Sizes& sizes, ScalarType dtype,
              std::function<Tensor(const Tensor& from)> make) {
  if (!call.runs()) return placeholder(on, sizes, contiguous_strides(sizes), dtype);
  const Tensor result = make(from);
  if (call.graph) {
    const int source = call.graph->index_of(from);
    call.graph->record_tensor(result, [source, shape = sizes_of(from), make = std::move(make)](const Replay& r) {
      return make(r.tensor(source, shape));
    });
  }
  return result;
}

Tensor empty_result(const Call& call, const Tensor& input, const Sizes& sizes, int axes, ScalarType dtype) {
  return allocate(call, input, sizes, strides_in_format_of(input, sizes, axes), dtype);
}

Tensor empty_results(const Call& call, int64_t count, const Tensor& input, Sizes sizes, int axes, ScalarType dtype) {
  Sizes strides = strides_in_format_of(input, sizes, axes);
  int64_t one = 1;
  for (const int64_t size : sizes) one *= std::max<int64_t>(size, 1);
  sizes.insert(sizes.begin(), count);
  strides.insert(strides.begin(), one);
  return allocate(call, input, sizes, strides, dtype);
}

ImageView view_input(const Call& call, const Tensor& input, int axes) {
  const Dtype dtype = dtype_of(call.op, "input", input.scalar_type());
  if (auto image = merge_leading(input, dtype, axes)) return {input, *image};
  const Tensor copy = dense(call, input);
  return {copy, *merge_leading(copy, dtype, axes)};
}

Tensor dense(const Call& call, const Tensor& t) {
  if (t.is_contiguous()) return t;
  return derive(call, t, t, sizes_of(t), t.scalar_type(), [](const Tensor& t) { return torch::stable::contiguous(t); });
}

}  // namespace torch_conv
