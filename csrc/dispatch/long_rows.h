// Signals as images that tiles fill: under a window of one row an image may have its rows wherever they lie.
#pragma once

#include <vector>

#include "core/problem.h"

namespace torch_conv {

// The same filter with a window of one row as problems on images of at least 32 rows, a tile's, empty where the image
// is tall already or there are none. They are to run in this order. Rows of all planes make one image:
//
//   (B, C, L)        row 0                         B * C rows
//                    row 1
//
// and where those are too few, each row is cut into as many pieces of equal length, the rows of an image whose windows
// go on in the next one. A row's ends, where windows hang over it and where equal pieces leave something, are the two
// rows of another image, which goes first: at the cut, where the row goes on and this image does not, its outputs are
// wrong (x), until the pieces' take their place.
//
//   outputs       0        begin                                                       end             L
//                 +--------+-------------+-------------+-- ... --+-------------+-------+---------------+
//   the row       |        : piece 0     : piece 1     :         :             : 95    :               |
//                 +--------+-------------+-------------+-- ... --+-------------+-------+---------------+
//   ends, row 0   |   right     xxx|
//   ends, row 1                                                              |xxx    right             |
//
// Pieces and ends start on 16 bytes of the row, inputs and outputs: `begin` is a multiple of that, at least the pad.
// Where only one end has outputs it is a problem of its own. So are both if the border is circular, since each reads
// the other one then, or if they are so long that they would meet.
std::vector<Direct> long_rows(const Direct& p);

}  // namespace torch_conv
