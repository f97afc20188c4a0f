#include "dispatch/windows.h"

#include <algorithm>
#include <cmath>

#include "graph/allocate.h"
#include "graph/launch_graph.h"
#include "sharding/split.h"

namespace torch_conv {

namespace {

// The sums are float64, so that their order rarely changes a tap's bits; `finish_taps` on the GPU has another order.
template <typename A>
void edit_taps(A* taps, int64_t windows, int64_t count, const WindowOptions& options) {
  for (int64_t i = 0; i < windows; ++i, taps += count) {
    if (options.flip) std::reverse(taps, taps + count);
    if (!options.normalized) continue;
    double sum = 0;
    for (int64_t t = 0; t < count; ++t) sum += std::abs(double(taps[t]));
    for (int64_t t = 0; t < count; ++t) taps[t] /= A(sum);
  }
}

Tensor finish_taps(const Tensor& kernel, ScalarType type, int axes, const WindowOptions& options) {
  Tensor taps = kernel.scalar_type() == type ? kernel : torch::stable::to(kernel, type);
  if (!taps.is_contiguous()) taps = torch::stable::contiguous(taps);
  if (!options.flip && !options.normalized) return taps;
  const Sizes sizes = sizes_of(taps);
  if (taps.is_cpu()) {
    taps = torch::stable::clone(taps);
    int64_t count = 1;
    for (int i = 0; i < axes; ++i) count *= sizes[sizes.size() - 1 - i];
    const int64_t windows = count ? taps.numel() / count : 0;
    if (type == ScalarType::Double) edit_taps(static_cast<double*>(taps.data_ptr()), windows, count, options);
    else edit_taps(static_cast<float*>(taps.data_ptr()), windows, count, options);
    return taps;
  }
  // Taps on the GPU stay there: a few small launches, no synchronisation.
  std::vector<int64_t> dims;
  for (int i = 0; i < axes; ++i) dims.push_back(int64_t(sizes.size()) - 1 - i);
  if (options.flip) taps = call_aten("aten::flip", "", taps, dims);
  if (options.normalized) {
    const Tensor sum =
        call_aten("aten::sum", "dim_IntList", call_aten("aten::abs", "", taps),
                  std::optional<std::vector<int64_t>>(dims), true, std::optional<ScalarType>(ScalarType::Double));
    taps = call_aten("aten::div", "Tensor", taps, torch::stable::to(sum, type));
  }
  return taps;
}

// Whether kernels can read the caller's taps.
bool are_finished(const Tensor& kernel, ScalarType type, const WindowOptions& options) {
  return kernel.scalar_type() == type && kernel.is_contiguous() && !options.flip && !options.normalized;
}

// Contiguous taps of `type`, flipped and normalised over the last `axes` dimensions.
Tensor finished_taps(const Call& call, const Tensor& kernel, ScalarType type, int axes, const WindowOptions& options) {
  if (are_finished(kernel, type, options)) return kernel;
  return derive(call, kernel, kernel, sizes_of(kernel), type,
                [=](const Tensor& t) { return finish_taps(t, type, axes, options); });
}

// The last `axes` sizes.
Extent extent_of(const Sizes& sizes, int axes) {
  const size_t dims = sizes.size();
  return {.d = axes >= 3 ? sizes[dims - 3] : 1, .h = axes >= 2 ? sizes[dims - 2] : 1, .w = sizes[dims - 1]};
}

int64_t taps_of(const Extent& e) { return e.d * e.h * e.w; }
int64_t bytes_of(const Window& window) { return window.tensor.numel() * int64_t(window.tensor.element_size()); }

}  // namespace

Window prepare_window(const Call& call, const Tensor& given, int axes, const Tensor& input, const Image& image,
                      const WindowOptions& options) {
  const ScalarType image_type = scalar_type_of(image.dtype);
  const bool narrow = options.narrow && is_half(image.dtype) && are_finished(given, image_type, options);
  const ScalarType type = narrow ? image_type : accumulation_type(image.dtype);
  const bool in_place = call.on_shards && are_finished(given, type, options) && read_from_peer(call, input, given);
  const Tensor kernel = call.on_shards && !in_place ? on_device_of(call, input, given) : given;
  const Tensor taps = finished_taps(call, kernel, type, axes, options);

  const Sizes sizes = sizes_of(given);
  const size_t leading = sizes.size() - axes;
  const Extent size = extent_of(sizes, axes);
  const int64_t samples = leading >= 1 ? sizes[0] : 1, channels = leading >= 2 ? sizes[1] : 1;
  return {taps,
          Taps{.data = taps.data_ptr(),
               .on_host = on_cuda(call, input) && taps.is_cpu(),
               .stride_n = samples == 1 ? 0 : channels * taps_of(size),
               .stride_c = channels == 1 ? 0 : taps_of(size),
               .stride_ci = 0,
               .narrow = narrow},
          size};
}

Tensor host_taps(const Tensor& kernel, Dtype image, int axes, const WindowOptions& options) {
  return finish_taps(kernel, accumulation_type(image), axes, options);
}

Window prepare_weight(const Call& call, const Tensor& weight, const Image& image) {
  const Tensor taps = finished_taps(call, weight, accumulation_type(image.dtype), 2, {});
  const Sizes sizes = sizes_of(taps);
  const Extent size = extent_of(sizes, int(sizes.size()) - 2);
  const bool one = sizes[0] == 1 && sizes[1] == 1;  // Direct::one_window
  return {taps,
          Taps{.data = taps.data_ptr(),
               .on_host = false,
               .stride_n = 0,
               .stride_c = one ? 0 : sizes[1] * taps_of(size),
               .stride_ci = taps_of(size)},
          size};
}

Taps one_tap(const Call& call, Dtype sums, bool on_host) {
  static constexpr double one = 1;
  static constexpr float narrow_one = 1;
  const void* data = sums == Dtype::f64 ? static_cast<const void*>(&one) : &narrow_one;
  if (call.graph) call.graph->keep(nullptr, data, size_of(sums));
  return {.data = data, .on_host = on_host, .stride_n = 0, .stride_c = 0, .stride_ci = 0};
}

void widen(const Call& call, Window& window, const Tensor& input, Dtype image) {
  if (!window.taps.narrow) return;
  const Tensor here = call.on_shards ? on_device_of(call, input, window.tensor) : window.tensor;
  window.tensor = finished_taps(call, here, accumulation_type(image), 2, {});
  window.taps.data = window.tensor.data_ptr();
  window.taps.narrow = false;
}

Taps taps_after_upload(const Window& window, Dtype image, bool narrow) {
  Taps taps = window.taps;
  taps.narrow = taps.narrow && narrow;
  const int64_t bytes = window.tensor.numel() * (taps.narrow ? size_of(image) : acc_bytes(image));
  taps.on_host = taps.on_host && bytes <= kInlineTapBytes;
  return taps;
}

void upload_large(const Call& call, Window& window, const Tensor& input) {
  if (bytes_of(window) > kInlineTapBytes) upload(call, window, input);
}

void upload(const Call& call, Window& window, const Tensor& input) {
  if (!window.taps.on_host) {
    if (!call.on_shards) return;
    window.tensor = on_device_of(call, input, window.tensor);
    window.taps.data = window.tensor.data_ptr();
    return;
  }
  const int64_t bytes = bytes_of(window);
  window.tensor = derive(call, window.tensor, input, sizes_of(window.tensor), window.tensor.scalar_type(),
                         [bytes, device = device_of(input)](const Tensor& taps) {
                           const cuda::OnDevice current(device.index);
                           const Sizes sizes = sizes_of(taps);
                           const Tensor copy =
                               empty_strided(device, sizes, contiguous_strides(sizes), taps.scalar_type());
                           cuda::upload(taps.data_ptr(), copy.data_ptr(), bytes, cuda::arch_of(device.index),
                                        cuda::current_stream(device.index));
                           return copy;
                         });
  window.taps.data = window.tensor.data_ptr();
  window.taps.on_host = false;
}

}  // namespace torch_conv
