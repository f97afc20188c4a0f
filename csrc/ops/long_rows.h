// Signals as images that tiles fill: under a window of one row an image may have its rows wherever they lie.
#pragma once

#include <vector>

#include "core/problem.h"

namespace torch_conv {

// The same filter with a window of one row as problems on images of at least 32 rows, a tile's, empty where the image
// is tall already or there are none. Rows of all planes make one image:
//
//   (B, C, L)        row 0                         B * C rows
//                    row 1
//
// and where those are too few, each row is cut into as many pieces of equal length, whose windows go on in the next
// one. Outputs whose windows hang over the row's ends, and what equal pieces leave, are problems of their own:
//
//   +----+-------------+-------------+-- ... --+-------------+------+
//   |left| piece 0     | piece 1     |         |             | right|      a row
//   +----+-------------+-------------+-- ... --+-------------+------+
//        pad
std::vector<Direct> long_rows(const Direct& p);

}  // namespace torch_conv
