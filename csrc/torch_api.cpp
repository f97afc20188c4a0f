#include "torch_api.h"

#include "core/parallel.h"

namespace torch_conv {

Tensor empty_strided(const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype) {
  int32_t device_type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  const int32_t type = torch::stable::detail::to<int32_t>(torch::stable::detail::from(dtype));
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_empty_strided(sizes.size(), sizes.data(), strides.data(), type, device_type, like.get_device_index(),
                               &handle) != TORCH_SUCCESS)
    throw std::runtime_error("torch_conv: allocating a result failed: out of memory");
  return Tensor(handle);
}

Tensor empty_contiguous(const Tensor& like, const Sizes& sizes, ScalarType dtype) {
  Sizes strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return empty_strided(like, sizes, strides, dtype);
}

void parallel_for(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& f) {
  torch::stable::parallel_for(begin, end, grain, f);
}

int thread_count() { return int(torch::stable::get_num_threads()); }

}  // namespace torch_conv
