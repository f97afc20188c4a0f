// What the filters of images and volumes share: their options, where the window sits, and the result.
#pragma once

#include <functional>

#include "graph/allocate.h"

namespace torch_conv {

// What the filters share; documented at torch_conv.functional.filter2d.
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
  bool in_float64 = false;  // sums as of a float64 image, on the CPU (api/float64.h)
};

// The spatial half of a filter call: where the window sits and how large the result is.
struct Geometry {
  Placement place;
  Extent out;
};

void check_input(const char* op, const Tensor& input, int axes);

// The geometry of a call for a part: its pad and outputs along the part's axis.
void apply_part(const Call& call, Geometry& geometry);

// Options per axis have `axes` values. Says how far the call reaches; a call for a part gets the part's geometry.
Geometry place_window(Call& call, const Image& image, const Extent& window, int axes, const FilterOptions& options);

// Border::skip divides by the taps inside, which only the kernel family knows; every other border by all of them, in
// the operator layer.
bool normalize_taps(const char* op, const FilterOptions& options);

// Allocates the result (or checks call.out), lets `fill` compute into an image of it, and returns it. A call for its
// reach ends here.
Tensor fill_result(Call& call, const Tensor& input, const ImageView& in, int axes, const Geometry& geometry,
                   const FilterOptions& options, const std::function<void(const Image&)>& fill);

// The same where every image makes several: they stand in a dimension before the spatial axes of a contiguous result.
// `fill` computes into images of the first, each of the others lies `stride_output` elements behind the one before.
Tensor fill_results(Call& call, const Tensor& input, const ImageView& in, int axes, int outputs, const Extent& size,
                    const FilterOptions& options, const std::function<void(const Image&, int64_t stride_output)>& fill);

// The types of operator arguments as the dispatcher hands them over.
using Type = std::optional<ScalarType>;
using Anchor = std::optional<Sizes>;

}  // namespace torch_conv
