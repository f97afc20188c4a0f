// The common parts of filters of images and volumes: options, windows, geometry and results.
#pragma once

#include <functional>

#include "dispatch/windows.h"
#include "graph/allocate.h"

namespace torch_conv {

// torch_conv.functional.filter2d documents them.
struct FilterOptions {
  std::string border_type;
  bool normalized;
  std::string padding;
  double value;
  std::optional<Sizes> anchor;
  Sizes stride;
  Sizes dilation;
  std::optional<ScalarType> output_type;
  std::string algorithm;
  bool in_float64 = false;  // sums in float64 on the CPU, for any dtype of the image (api/float64.h)
};

// The placement of a filter's windows and the spatial size of its result.
struct Geometry {
  Placement place;
  Extent out;
};

// A window along one axis: output o begins at pixel o * stride - before. Its centre is pixel o * stride + middle.
struct AxisWindow {
  int64_t pixels;  // of the image
  int64_t taps, stride, dilation;
  int64_t before = 0, after = 0;  // padding
  int64_t middle = 0;

  int64_t span() const { return (taps - 1) * dilation + 1; }
  int64_t padded() const { return before + pixels + after; }
};
bool larger_than_padded(const std::vector<AxisWindow>& windows);
std::string spans_text(const std::vector<AxisWindow>& windows);   // "2x3"
std::string padded_text(const std::vector<AxisWindow>& windows);  // "2x3"

// Places the windows of all spatial axes, and fills in the call's footprint. A call for a part gets the part's
// geometry.
Geometry place_axes(Call& call, const std::vector<AxisWindow>& windows, const Placement& placement);

// A filter of the last `axes` dimensions of an image: its checked options. The arguments of the constructor outlive it.
struct FilterCall {
  Call& call;
  const int axes;
  const Tensor& input;
  const FilterOptions& options;
  const Algorithm algorithm;  // one of `algorithms`
  const Border border;
  const bool valid;     // padding='valid'
  ImageView in;         // of dtype float64 if the sums are in float64
  const Dtype element;  // of the image in memory

  FilterCall(Call& call, int axes, const Tensor& input, const FilterOptions& options,
             std::initializer_list<Algorithm> algorithms);

  // Checks a window argument and prepares it: (kH, kW) or (kD, kH, kW) after none, (1|B) or (1|B, 1|C), or one axis of
  // a separable filter.
  Window window(const char* argument, const Tensor& kernel, int window_axes, const WindowOptions& options = {}) const;
  // Whether `window` divides the taps by their sum. For Border::skip the kernels do: they divide by the taps inside the
  // image.
  bool normalizes_taps() const { return options.normalized && border != Border::skip; }

  // Places windows of this size, and fills in the call's footprint.
  Geometry place_windows(const Extent& window);

  Dtype result_dtype() const;
  // The result before its allocation, in the layout of the image.
  Image expected(const Geometry& geometry) const;
  // Allocates the result or checks call.out, calls `fill` with an image of it, and returns it. A call for its footprint
  // ends before the allocation.
  Tensor fill(const Geometry& geometry, const std::function<void(const Image&)>& fill) const;
  // Fills a contiguous result that has several outputs of each image, in a dimension before the spatial axes. `fill`
  // gets the images of the first output; the next output is `stride_output` elements behind.
  Tensor fill_several(int outputs, const Geometry& geometry,
                      const std::function<void(const Image&, int64_t stride_output)>& fill) const;

 private:
  Tensor filled(const Sizes& sizes, const std::function<Tensor(ScalarType)>& allocated,
                const std::function<bool(const Tensor&, Dtype)>& fill) const;
};

// Types of operator arguments.
using Type = std::optional<ScalarType>;
using Anchor = std::optional<Sizes>;

}  // namespace torch_conv
