#include "tensors/torch_api.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <exception>
#include <mutex>

#include "core/parallel.h"

namespace torch_conv {

namespace {

// The first access to each page of fresh memory costs a page fault. madvise makes pages of 2 MiB: filter2d 3x3 of
// (4000, 6000, 3) bytes takes 28 ms instead of 51 (two threads of an AMD EPYC).
void ask_for_large_pages(const Tensor& t) {
#ifdef __linux__
  constexpr uintptr_t kPage = 4096, kWorthIt = 4 << 20;
  const uintptr_t bytes = t.numel() * t.element_size();
  if (bytes < kWorthIt) return;
  const uintptr_t data = reinterpret_cast<uintptr_t>(t.data_ptr());
  const uintptr_t begin = (data + kPage - 1) / kPage * kPage, end = (data + bytes) / kPage * kPage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // an error changes nothing
#endif
}

}  // namespace

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
  Tensor tensor(handle);
  if (device.type == aoti_torch_device_type_cpu()) ask_for_large_pages(tensor);
  return tensor;
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
  // torch would print a thread's exception and throw one of its own instead.
  std::exception_ptr thrown;
  std::mutex first;
  torch::stable::parallel_for(begin, end, grain, [&](int64_t from, int64_t to) {
    try {
      f(from, to);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(first);
      if (!thrown) thrown = std::current_exception();
    }
  });
  if (thrown) std::rethrow_exception(thrown);
}

int thread_count() { return int(torch::stable::get_num_threads()); }

}  // namespace torch_conv
