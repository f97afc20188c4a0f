// A problem on a shard with neighbours, cut into what needs no other shard and what does.
#pragma once

#include <algorithm>

#include "core/problem.h"

namespace torch_conv {

// The same problem for the outputs [begin, end) along h, which read rows of `in` from `first` on: those before it
// belong to nobody, so only outputs whose windows do not reach them are asked for.
template <typename Problem>
Problem rows_of_problem(const Problem& p, int64_t begin, int64_t end, int64_t first) {
  const auto below = [](const Image& x, int64_t rows) {
    return static_cast<char*>(x.data) + rows * x.stride_h * size_of(x.dtype);
  };
  Problem q = p;
  q.out.data = below(p.out, begin), q.out.h = end - begin;
  q.in.data = below(p.in, first), q.in.h = p.in.h - first;
  q.place.pad_y = p.place.pad_y + first - begin * p.place.stride_y;
  return q;
}

template <typename Problem>
struct Seams {
  Problem interior, above, below;  // those without outputs have out.h == 0

  static Seams of(const Problem& p) {
    const int64_t pad = p.place.pad_y, stride = p.place.stride_y;
    const int64_t length = (p.kh - 1) * p.place.dilation_y + 1;
    // Outputs before `top` read the shard above; those from `bottom` on the one below.
    const int64_t top = p.beside.above.data ? std::min(p.out.h, ceil_div(pad, stride)) : 0;
    const int64_t fitting = p.in.h + pad - length;
    const int64_t bottom = !p.beside.below.data ? p.out.h : fitting < 0 ? 0 : std::min(p.out.h, fitting / stride + 1);
    const int64_t middle = std::max(top, bottom);  // a shard thinner than its window has no interior
    // Each from the first row that its windows read, so that tiles find it inside the image.
    const auto first = [&](int64_t begin) { return std::max<int64_t>(0, begin * stride - pad); };
    Seams s{rows_of_problem(p, top, middle, first(top)), rows_of_problem(p, 0, top, 0),
            rows_of_problem(p, middle, p.out.h, first(middle))};
    s.interior.beside = {};
    s.below.beside.above = {};
    return s;
  }
};

}  // namespace torch_conv
