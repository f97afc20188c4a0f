// Fused + Arch -> Plan: which compiled pipeline serves the chain, and with which tile. Pure.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/rooms.h"
#include "core/tma.h"
#include "fused/pipelines.h"

namespace torch_conv::fused {

// A block of four warps, one above the other. A lane owns `columns` columns of its warp's rows; the first and last
// `lend` lanes only lend theirs to their neighbours' later stages.
struct TileShape {
  int columns, rows, lend, align;  // align: elements that the box starts on
  int reach, radius, min_blocks;   // rows around the tile; columns that a lane reads around its own
  static constexpr int warps = 4;
  constexpr int width() const { return (32 - 2 * lend) * columns; }
  constexpr int height() const { return warps * rows; }
  constexpr int most_skew() const { return (align + radius - 1) / columns * columns; }
  // Whole lines of 128 bytes of float32 on either side: Sobel 92 / 95 with boxes that end anywhere.
  constexpr int pitch() const { return int(round_up(most_skew() + 32 * columns + radius, 32)); }
  constexpr int box_h() const { return height() + 2 * reach; }
  constexpr int box_bytes(int bytes) const { return pitch() * box_h() * bytes; }
  // The column of the image where the box of a tile begins that begins with column x.
  TC_HD constexpr int box_x(int x) const {
    const int first = x - lend * columns - radius + 4 * align;  // not negative
    return first / align * align - 4 * align;
  }
};

// Measured on one NVIDIA H200, % of the byte floor at 4096^2 / 8192^2, float32, reflect.
template <class P>
constexpr TileShape tile_shape(int bytes) {
  // 8 columns of 16- and 8-bit elements while that leaves registers for 16 warps.
  const int columns = bytes == 4 ? 4 : P::ring(true, 8) > 96 ? 4 : 8;
  // Making a neighbour's columns once more is cheaper than lending them while there are few: Gaussian 3 and Sobel 92 /
  // 95 without, 91 / 94 with; thin edges 5: 51 / 58 without, 59 / 70 with; structure tensor 5: 76 / 78 and 83 / 88.
  const bool lend = P::count > 1 && P::ring(false, 4) > 45;
  // More rows repeat less of the stages' halos, but make the grid's tail longer. Sobel 93 / 96 with 5 rows, 92 / 95
  // with 8; Gaussian 3 and Sobel 92 / 95 with 8, 90 / 94 with 6; sums of 7x7 83 / 86 with 8, 84 / 93 with 16; structure
  // tensor 5: 76 / 78 with 8, 77 / 84 with 16 (without lending), 7: 69 / 75 with 12, 64 / 74 with 16.
  const int rows = P::reach == 1                                      ? (P::stride == 1 ? 5 : 6)
                   : P::reach == 2 || (P::count > 1 && P::reach == 3) ? 8
                   : P::count > 1                                     ? 12
                                                                      : 16;
  // Rings, input rows, addresses.
  const int registers = P::ring(lend, columns) + 2 * (columns + 2 * P::reach) + 20;
  return {.columns = columns,
          .rows = rows,
          .lend = lend,
          .align = (bytes == 4 ? 128 : 32) / bytes,
          .reach = P::reach,
          .radius = lend ? P::first_radius : P::reach,
          .min_blocks = std::clamp(65536 / (128 * registers), 2, 8)};
}

// Pieces of the frame along an image's edge are this long: as long as their memory fits into the box's.
template <class P>
constexpr int edge_bytes(int piece) {
  return 4 * std::max(P::edge_floats(piece, P::reach), P::edge_floats(P::reach, piece));
}
template <class P>
constexpr int edge_piece(int box_bytes) {
  int piece = 128;
  while (piece > 16 && edge_bytes<P>(piece) > box_bytes) piece /= 2;
  return piece;
}
template <class P>
constexpr int shared_bytes(int bytes) {
  const int box = tile_shape<P>(bytes).box_bytes(bytes);
  return std::max(box, edge_bytes<P>(edge_piece<P>(box)));
}

inline bool element_types(const Fused& p) {
  const Dtype in = p.in.dtype, out = p.out.dtype;
  if (in == Dtype::u8 && out == Dtype::f32) return true;
  return in == out && (in == Dtype::f32 || in == Dtype::f16 || in == Dtype::bf16 || in == Dtype::u8);
}

inline bool shared_host_taps(const Fused& p) {
  for (int s = 0; s < p.count; ++s)
    for (int i = 0; i < p.stages[s].windows; ++i)
      for (const Taps* taps : {&p.stages[s].taps_x[i], &p.stages[s].taps_y[i]})
        if (!taps->on_host || taps->stride_n != 0 || taps->stride_c != 0) return false;
  return true;
}

// How the image's border is met. The box is extended by the policy where that is made of elements: `extend` rows and
// columns of it, as far as the first stage looks, or all stages, where filtering commutes with the extension. What
// later stages read beyond the image is in the registers, unless the image is smaller than their reach. Else pixels
// nearer than `margin` to an edge, whose windows hang over it, are computed again.
struct Edges {
  int extend, margin;
};

template <class P>
Edges edges(const Fused& p) {
  const bool elements = p.border != Border::skip && p.border != Border::zero_output &&
                        (p.border != Border::constant || holds(p.in.dtype, p.value));
  if (p.valid) return {0, 0};
  if (!elements) return {0, P::reach};
  const bool tiny = p.in.h <= P::reach || p.in.w <= P::reach;
  if (p.border == Border::circular && !P::thins) return {P::reach, 0};
  if (!P::extends_rows || tiny) return {P::first_radius, P::reach - P::first_radius};
  return {p.border == Border::circular ? P::reach : P::first_radius, 0};
}

// Rows of results that start on a word of so many and end on one.
inline bool whole_words(const Fused& p, int outputs) {
  const int64_t bytes = std::min<int64_t>(16, int64_t(outputs) * size_of(p.out.dtype));
  auto whole = [&](int64_t stride, int64_t count) { return count == 1 || stride * size_of(p.out.dtype) % bytes == 0; };
  return reinterpret_cast<uintptr_t>(p.out.data) % bytes == 0 && p.out.w % outputs == 0 &&
         whole(p.out.stride_h, p.out.h) && whole(p.out.stride_c, p.out.c) && whole(p.out.stride_n, p.out.n) &&
         whole(p.stride_output, p.stages[p.count - 1].outputs());
}

inline Plan plan(const Fused& p, const Arch& arch, const char* pinned) {
  Plan plan{.algorithm = "fused", .variant = nullptr, .why = ""};
  auto small = [](int64_t i) { return i < (int64_t(1) << 30); };
  if (!element_types(p))
    plan.why = "it takes float32, float16, bfloat16 and uint8, and writes the same or float32 of uint8";
  else if (p.in.stride_w != 1 || p.out.stride_w != 1)
    plan.why = "it takes rows of neighbouring pixels, not channels side by side";
  else if (!shared_host_taps(p)) plan.why = "it takes one set of windows, on the CPU";
  else if (!small(p.in.h) || !small(p.in.w) || (p.valid && p.stride > 1))
    plan.why = "the image is too large, or 'valid' meets a stride";
  int numbers = 0;
  for (int s = 0; s < p.count; ++s) numbers += p.stages[s].number != 0;
  if (numbers > 1) plan.why = "it takes a number for one stage";
  if (*plan.why) return plan;
  const auto chosen = [&](const char* name) { return *pinned == 0 || std::strcmp(pinned, name) == 0; };
  const bool bulk = arch.bulk_copy && tma::words_possible(p.in) && chosen("tile_tma");
  bool mends = false;
  const bool compiled = Compiled::with(p, [&](auto pipeline) {
    using P = decltype(pipeline);
    const int bytes = size_of(p.in.dtype);
    mends = P::count > 1 && !P::extends_rows;
    if (bulk || chosen("tile")) {
      const TileShape shape = tile_shape<P>(bytes);
      plan.variant = bulk ? "tile_tma" : "tile";
      plan.why = "one box of the image, stages in registers";
      plan.tile_w = shape.width(), plan.tile_h = shape.height();
      plan.threads = 32 * TileShape::warps;
      plan.shared_bytes = shared_bytes<P>(bytes);
    } else {
      return;
    }
    plan.blocks = p.in.n * p.in.c * ceil_div(p.in.w, plan.tile_w) * ceil_div(p.in.h, plan.tile_h);
    const double pixels = double(p.in.n) * double(p.in.c) * double(p.out.h) * double(p.out.w);
    plan.bytes = double(p.in.n * p.in.c * p.in.h * p.in.w) * bytes + P::outputs * pixels * size_of(p.out.dtype);
    for (int s = 0; s < p.count; ++s) plan.flops += 4.0 * p.stages[s].windows * double(p.stages[s].kh) * pixels;
  });
  if (!compiled) plan.why = "no pipeline of these windows is compiled";
  // Edges that are computed again take a block three times as long, which few blocks do not hide (structure tensor 5 on
  // one NVIDIA H200, one launch against filters one by one: 1024^2 40 and 33 us, 2048^2 49 and 98).
  if (plan.variant && mends && !p.wanted && *pinned == 0 && plan.blocks < 4 * arch.multiprocessors) {
    plan.variant = nullptr;
    plan.why = "filters one by one are faster on small images";
  }
  return plan;
}

}  // namespace torch_conv::fused
