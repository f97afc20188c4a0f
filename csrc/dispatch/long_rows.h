// Signals as images that fill tiles. A window of one row reads no other row, so rows of any planes can form an image.
#pragma once

#include <vector>

#include "core/problem.h"

namespace torch_conv {

// A filter with a window of one row as problems on images of at least 32 rows, the rows of a tile. They run in this
// order. The list is empty where the image has 32 rows already, or where no such images exist. The rows of all planes
// make one image:
//
//   (B, C, L)        row 0                         B * C rows
//                    row 1
//
// If all planes have fewer than 32 rows, each row becomes an image. Its rows are pieces of equal length, whose windows
// read on in the next piece. The ends of a row, which windows overlap and equal pieces leave over, are the two rows of
// another image. It runs first, because its outputs next to a cut are wrong (x) until the pieces overwrite them.
//
//   outputs       0        begin                                                       end             L
//                 +--------+-------------+-------------+-- ... --+-------------+-------+---------------+
//   the row       |        : piece 0     : piece 1     :         :             : 95    :               |
//                 +--------+-------------+-------------+-- ... --+-------------+-------+---------------+
//   ends, row 0   |   right     xxx|
//   ends, row 1                                                              |xxx    right             |
//
// Inputs and outputs of pieces and ends start on 16 bytes of the row: `begin` is a multiple of 16 numbers, at least the
// pad. An end is a problem of its own if the other end has no outputs. Both ends are separate problems if the border is
// circular, because each reads the other end, or if they would meet.
std::vector<Direct> long_rows(const Direct& p);

}  // namespace torch_conv
