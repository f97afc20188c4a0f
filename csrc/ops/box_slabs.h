// How boxes of volumes are cut so that the sums of a slab's planes stay in L2 until they are added up along z. Numbers
// only.
//
//   volume   +-----+-----+    for every slab, the whole depth of some rows and columns (samples, channels):
//            |  1  |  2  |    planes' windows -> scratch, as large as a slab; scratch along z -> outputs.
//            +-----+-----+    What a slab's windows reach of its neighbours' rows and columns is read again, and the
//            |  3  |  4  |    bits are those of the whole: rows of outputs are cut between groups (box/order.h).
//            +-----+-----+
#pragma once

#include <algorithm>

#include "box/order.h"
#include "core/problem.h"

namespace torch_conv {

struct Slab {
  int64_t n, c, h, w;  // at most
  bool operator==(const Slab&) const = default;
};

// Of sums: of the 50 MB of an H100's L2, what leaves its streams some.
constexpr int64_t kSlabBytes = int64_t(32) << 20;

// Rows and columns that the planes' pass works on for an output: column warps start anew with every slab (a block of
// strips starts with half a window and two batches of rows, box/floats_plan.h), row warps have the window's halo.
inline double slab_work(const Box& p, int64_t h, int64_t w) {
  return double(h + p.kh / 2 + 16) / double(h) * (double(w + p.kw + 1) / double(w));
}

// The largest slab of a volume whose sums, of `bytes` each, are few enough; whole planes where small ones cost more
// than they save.
inline Slab slab_of(const Box& p, int64_t bytes, int64_t most = kSlabBytes) {
  const Image& out = p.out;
  const Slab whole{out.n, out.c, out.h, out.w};
  const int64_t volume = p.in.d * out.h * out.w * bytes;
  if (volume * out.n * out.c <= most || volume == 0) return whole;
  const bool planar = p.in.stride_w == 1 && out.stride_w == 1;
  const int64_t apart = planar ? 1 : out.c;  // channels that no slab parts
  if (volume * apart <= most) {
    const int64_t volumes = most / volume;
    return volumes >= out.c ? Slab{volumes / out.c, out.c, out.h, out.w} : Slab{1, volumes, out.h, out.w};
  }
  Slab best{1, apart, out.h, out.w};
  double least = 1.5 * slab_work(p, out.h, out.w);
  for (int64_t across = 1; across <= (planar ? 8 : 1); ++across) {
    const int64_t w = across == 1 ? out.w : round_up(ceil_div(out.w, across), 32);
    const int64_t fitting = most / (p.in.d * w * bytes * apart) / box::kGroup * box::kGroup;
    if (fitting == 0) continue;
    const int64_t h = std::min(out.h, round_up(ceil_div(out.h, ceil_div(out.h, fitting)), box::kGroup));
    if (const double work = slab_work(p, h, w); work < least) least = work, best = {1, apart, h, w};
  }
  return best;
}

}  // namespace torch_conv
