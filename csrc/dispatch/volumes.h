// Volumes taken apart: the problems on images that a problem on volumes consists of.
#pragma once

#include <functional>
#include <optional>

#include "core/problem.h"
#include "core/ranges.h"

namespace torch_conv {

// The same problem on images, where there is one: a window of depth 1 filters planes, a window along z alone filters
// images of d rows and h * w columns.
std::optional<Direct> as_images(const Direct& p);

// The rows `y` and columns `x` of all planes.
Image cut(const Image& image, Range y, Range x);

// Calls run(in, out, n) until every plane of the two volumes (equal in n, c and d) has been part of an image that it
// was given. Where samples and channels have no windows of their own, all planes are one image's as far as strides
// allow; else every sample n makes an image, with z as its sample axis.
void for_each_plane(const Image& in, const Image& out, bool own_samples, bool own_channels,
                    const std::function<void(const Image& in, const Image& out, int64_t n)>& run);

}  // namespace torch_conv
