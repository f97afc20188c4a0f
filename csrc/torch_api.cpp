#include "torch_api.h"

#include "core/parallel.h"

namespace torch_conv {

Device device_of(const Tensor& t) {
  Device device{0, t.get_device_index()};
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(t.get(), &device.type));
  return device;
}

Tensor empty_strided(Device device, const Sizes& sizes, const Sizes& strides, ScalarType dtype) {
  const int32_t type = torch::stable::detail::to<int32_t>(torch::stable::detail::from(dtype));
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_empty_strided(sizes.size(), sizes.data(), strides.data(), type, device.type, device.index, &handle) !=
      TORCH_SUCCESS)
    throw OutOfMemory();
  return Tensor(handle);
}

Sizes contiguous_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

void parallel_for(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& f) {
  torch::stable::parallel_for(begin, end, grain, f);
}

int thread_count() { return int(torch::stable::get_num_threads()); }

}  // namespace torch_conv
