// The ring of box_depth_ring, for host and kernel.
#pragma once

#include "kernels/box/depth/params.h"

namespace torch_conv::box {

// A window's planes are in groups of 8. The first group holds the window's lead. The last holds its trail, or the end
// of a trail that begins in the group before.
constexpr int trail_group(int64_t kd) { return int((kd - 1) / kGroup); }
constexpr int trail_groups(int rest) { return rest > 0 ? 2 : 1; }

// Groups of planes that are being copied while one is added up.
constexpr int kDepthAhead = 1;

constexpr int depth_ring_groups(int64_t kd) { return trail_group(kd) + trail_groups(int(rest_of(kd))) + kDepthAhead; }

}  // namespace torch_conv::box
