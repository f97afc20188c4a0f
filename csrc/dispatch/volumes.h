// Problems on volumes as problems on images.
#pragma once

#include <functional>
#include <optional>

#include "core/problem.h"
#include "core/ranges.h"

namespace torch_conv {

// A problem on volumes as a problem on images, or none. A window of depth 1 filters planes. A window along z filters
// images of d rows and h * w columns.
std::optional<Direct> as_images(const Direct& p);

// The rows `y` and columns `x` of every plane.
Image cut(const Image& image, Range y, Range x);

// Calls run(in, out, n) with images that together hold all planes of two volumes, equal in n, c and d. Where all
// samples and channels share a window and the strides allow it, one image holds all planes. Else each sample n is an
// image whose sample axis is z.
void for_each_plane(const Image& in, const Image& out, bool window_each_sample, bool window_each_channel,
                    const std::function<void(const Image& in, const Image& out, int64_t n)>& run);

}  // namespace torch_conv
