// Tensor maps over images: what a kernel's bulk copies read.
#pragma once

#include "core/tma.h"

namespace torch_conv::tma {

// Boxes of box_w x box_h elements of one plane of an image: coordinates (x, y, c, n), x and y signed. A box holds at
// most 256 elements a side: with pack > 1 that many pixels count as one element (w a multiple of pack), in boxes,
// coordinates and all.
TensorMap plane_map(const Image& x, int box_w, int box_h, int pack = 1);

// Boxes of 128 bytes x box_h of one plane of an image: coordinates (x, y, c, n). In shared memory (a box starts on 1024
// bytes) the 16-byte pieces of row i stand at piece ^ i % 8.
TensorMap rows_map(const Image& x, int box_h);

// ... of one plane of a volume: coordinates (x, y, z, c, n), the first three signed.
TensorMap volume_map(const Image& x, int box_w, int box_h, int pack = 1);

// Boxes of an image whose channels lie innermost, as they lie there: coordinates (c, x, y, n).
TensorMap pixels_map(const Image& x, int box_c, int box_w, int box_h);

// Boxes of an image whose channels lie innermost: coordinates (c, x, n, y), so that a box holds the same row of all its
// images side by side. The channels of a box are 32, 64 or 128 bytes; in shared memory the 16-byte pieces of pixel i
// (of a box that starts on 1024 bytes) stand at piece ^ i / 4 % 2, piece ^ i / 2 % 4 or piece ^ i % 8.
TensorMap channels_map(const Image& x, int box_c, int box_w, int box_n, int box_h);

}  // namespace torch_conv::tma
