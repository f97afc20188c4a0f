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

void check_input(const char* op, const Tensor& input, int axes);

// Checks a window argument and prepares it: (kH, kW) or (kD, kH, kW) after none, (1|B) or (1|B, 1|C), or one axis of a
// separable filter.
Window checked_window(const Call& call, const char* argument, const Tensor& kernel, int axes, const Tensor& input,
                      const Image& image, int image_axes, const WindowOptions& options);

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

// Places the windows of a filter. Its options per axis have `axes` values.
Geometry place_window(Call& call, const Image& image, const Extent& window, int axes, const FilterOptions& options);

// Whether the operator layer divides the taps by their sum. For Border::skip the kernels do: they divide by the taps
// inside the image.
bool normalize_taps(const char* op, const FilterOptions& options);

// Allocates the result or checks call.out, calls `fill` with an image of it, and returns it. A call for its footprint
// ends before the allocation.
Tensor fill_result(Call& call, const Tensor& input, const ImageView& in, int axes, const Geometry& geometry,
                   const FilterOptions& options, const std::function<void(const Image&)>& fill);

// Fills a contiguous result that has several outputs of each image, in a dimension before the spatial axes. `fill` gets
// the images of the first output; the next output is `stride_output` elements behind.
Tensor fill_results(Call& call, const Tensor& input, const ImageView& in, int axes, int outputs, const Extent& size,
                    const FilterOptions& options, const std::function<void(const Image&, int64_t stride_output)>& fill);

// Types of operator arguments.
using Type = std::optional<ScalarType>;
using Anchor = std::optional<Sizes>;

}  // namespace torch_conv
