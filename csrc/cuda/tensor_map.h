// Tensor maps over images: what a kernel's bulk copies read.
#pragma once

#include "core/tma.h"

namespace torch_conv::tma {

// Boxes of box_w x box_h elements of one plane of an image: coordinates (x, y, c, n), x and y signed. A box holds at
// most 256 elements a side: with pack > 1 that many pixels count as one element (w a multiple of pack), in boxes,
// coordinates and all.
TensorMap plane_map(const Image& x, int box_w, int box_h, int pack = 1);

// ... of one plane of a volume: coordinates (x, y, z, c, n), the first three signed.
TensorMap volume_map(const Image& x, int box_w, int box_h, int pack = 1);

}  // namespace torch_conv::tma
