// Tensor maps of images, for the bulk copies of kernels. Coordinates stand innermost first.
#pragma once

#include "core/tma.h"

namespace torch_conv::tma {

// Boxes of box_w x box_h elements of one plane of an image: coordinates (x, y, c, n), x and y signed. A box has at most
// 256 elements a side. `pack` pixels are one element, in boxes and in coordinates; w is a multiple of `pack`.
TensorMap plane_map(const Image& x, int box_w, int box_h, int pack = 1);

// Boxes of 128 bytes x box_h of one plane of an image: coordinates (x, y, c, n). A box starts on 1024 bytes of shared
// memory. There the 16-byte pieces of row i stand at piece ^ i % 8.
TensorMap rows_map(const Image& x, int box_h);

// The map of one plane of a volume: coordinates (x, y, z, c, n), the first three signed.
TensorMap volume_map(const Image& x, int box_w, int box_h, int pack = 1);

// Boxes of an image whose channels are innermost, in the order of memory: coordinates (c, x, y, n).
TensorMap pixels_map(const Image& x, int box_c, int box_w, int box_h);

// Boxes of an image whose channels are innermost: coordinates (c, x, n, y), so that a box holds the same row of all its
// images side by side. The channels of a box are 32, 64 or 128 bytes. A box starts on 1024 bytes of shared memory.
// There the 16-byte pieces of pixel i stand at piece ^ i / 4 % 2, piece ^ i / 2 % 4 or piece ^ i % 8.
TensorMap channels_map(const Image& x, int box_c, int box_w, int box_n, int box_h);

}  // namespace torch_conv::tma
