// A problem on a shard, cut into the interior, which reads no other shard, and the boundary strips, which do.
#pragma once

#include <algorithm>
#include <type_traits>

#include "core/problem.h"

namespace torch_conv {

// The members of one axis in Image and in Placement.
struct AxisMembers {
  int64_t Image::*size, Image::*step;
  int64_t Placement::*pad, Placement::*stride, Placement::*dilation;
};
constexpr AxisMembers kRows{&Image::h, &Image::stride_h, &Placement::pad_y, &Placement::stride_y,
                            &Placement::dilation_y};
constexpr AxisMembers kPlanes{&Image::d, &Image::stride_d, &Placement::pad_z, &Placement::stride_z,
                              &Placement::dilation_z};

// The problem for the outputs [begin, end) along an axis. Its input begins at row `first`: no window of these
// outputs covers an earlier row.
template <typename Problem>
Problem rows_of_problem(const Problem& p, const AxisMembers& axis, int64_t begin, int64_t end, int64_t first) {
  const auto below = [&](const Image& x, int64_t rows) {
    return static_cast<char*>(x.data) + rows * x.*axis.step * size_of(x.dtype);
  };
  Problem q = p;
  q.out.data = below(p.out, begin), q.out.*axis.size = end - begin;
  q.in.data = below(p.in, first), q.in.*axis.size = p.in.*axis.size - first;
  q.place.*axis.pad = p.place.*axis.pad + first - begin * p.place.*axis.stride;
  if constexpr (std::is_same_v<Problem, Box>) q.first_row += &axis == &kRows ? begin : 0;
  return q;
}

template <typename Problem>
struct Boundaries {
  Problem interior, above, below;  // some may be without outputs

  // `volumes`: the image is cut along d, else along h. A boundary strip has at least `least` outputs, if the shard has
  // enough of them.
  static Boundaries of(const Problem& p, bool volumes, int64_t least) {
    const AxisMembers& axis = volumes ? kPlanes : kRows;
    const int64_t pad = p.place.*axis.pad, stride = p.place.*axis.stride, in = p.in.*axis.size, out = p.out.*axis.size;
    const int64_t length = ((volumes ? p.kd : p.kh) - 1) * p.place.*axis.dilation + 1;
    // Outputs before `top` may read the shard above; outputs from `bottom` on may read the shard below.
    const int64_t top = p.peers.above.data ? std::min(out, std::max(least, ceil_div(pad, stride))) : 0;
    const int64_t fitting = in + pad - length, last = std::max<int64_t>(0, out - least);
    const int64_t bottom = !p.peers.below.data ? out : fitting < 0 ? 0 : std::min(last, fitting / stride + 1);
    const int64_t middle = std::max(top, bottom);  // a shard thinner than its window has no interior
    // The input of each problem begins at the first row of its windows, so that no tile is outside the image.
    const auto first = [&](int64_t begin) { return std::max<int64_t>(0, begin * stride - pad); };
    Boundaries s{rows_of_problem(p, axis, top, middle, first(top)), rows_of_problem(p, axis, 0, top, 0),
                 rows_of_problem(p, axis, middle, out, first(middle))};
    s.interior.peers = {};
    s.below.peers.above = {};
    return s;
  }
};

}  // namespace torch_conv
