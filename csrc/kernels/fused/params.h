// Shared by host and kernel of pipelines: the shape of a tile, and the kernel's parameters.
#pragma once

#include <type_traits>

#include "core/geometry.h"
#include "core/shard_planes.h"
#include "core/tile_order.h"
#include "core/tma.h"
#include "kernels/fused/stages.h"

namespace torch_conv::fused {

// A block of four warps, one above the other. A lane owns `columns` columns of its warp's rows; the first and last
// `halo_lanes` lanes only pass theirs to their neighbours' later stages.
struct TileShape {
  int columns, rows, halo_lanes, align;  // align: elements that the box starts on
  int halo, radius, min_blocks;          // rows around the tile; columns that a lane reads around its own
  static constexpr int warps = 4;
  constexpr int width() const { return (32 - 2 * halo_lanes) * columns; }
  constexpr int height() const { return warps * rows; }
  constexpr int most_skew() const { return (align + radius - 1) / columns * columns; }
  // Whole lines of 128 bytes of float32 on either side: Sobel 92 / 95 with boxes that end anywhere.
  constexpr int pitch() const { return int(round_up(most_skew() + 32 * columns + radius, 32)); }
  constexpr int box_h() const { return height() + 2 * halo; }
  constexpr int box_bytes(int bytes) const { return pitch() * box_h() * bytes; }
  // The column of the image where the box of a tile begins that begins with column x.
  constexpr int box_x(int x) const {
    const int first = x - halo_lanes * columns - radius + 4 * align;  // not negative
    return first / align * align - 4 * align;
  }
};

// Measured on one NVIDIA H200, % of the byte floor at 4096^2 / 8192^2, float32, reflect.
template <class P>
constexpr TileShape tile_shape(int bytes) {
  // 8 columns of 16- and 8-bit elements while that leaves registers for 16 warps.
  const int columns = bytes == 4 ? 4 : P::ring(true, 8) > 96 ? 4 : 8;
  // Computing a neighbour's columns again is cheaper than passing them while there are few. Without and with passing:
  //     Gaussian 3 and Sobel 92 / 95, 91 / 94; thin edges 5 51 / 58, 59 / 70; structure tensor 5 76 / 78, 83 / 88
  const bool halo_lanes = P::count > 1 && P::ring(false, 4) > 45;
  // More rows repeat less of the stages' halos, but make the grid's tail longer. By rows:
  //     Sobel 5: 93 / 96, 8: 92 / 95; Gaussian 3 and Sobel 6: 90 / 94, 8: 92 / 95; sums of 7x7 8: 83 / 86, 16: 84 / 93
  //     structure tensor 5, without passing 8: 76 / 78, 16: 77 / 84; structure tensor 7 12: 69 / 75, 16: 64 / 74
  const int rows = P::halo == 1                                     ? (P::stride == 1 ? 5 : 6)
                   : P::halo == 2 || (P::count > 1 && P::halo == 3) ? 8
                   : P::count > 1                                   ? 12
                                                                    : 16;
  // Rings, input rows, addresses.
  const int registers = P::ring(halo_lanes, columns) + 2 * (columns + 2 * P::halo) + 20;
  const int blocks = 65536 / (128 * registers);
  return {.columns = columns,
          .rows = rows,
          .halo_lanes = halo_lanes,
          .align = (bytes == 4 ? 128 : 32) / bytes,
          .halo = P::halo,
          .radius = halo_lanes ? P::first_radius : P::halo,
          .min_blocks = blocks < 2   ? 2
                        : blocks > 8 ? 8
                                     : blocks};
}

// ---- STREAMING: one stage; a block is one warp, which streams down a strip of 32 * columns pixels

struct StreamingStrip {
  int columns;  // of a lane
  int rows;     // of a box
  int stages;   // boxes in shared memory
  int align;    // elements that boxes start on
  int radius;
  int blocks;  // per multiprocessor

  constexpr int width() const { return 32 * columns; }
  constexpr int height(int boxes) const { return boxes * rows - 2 * radius; }  // of a strip
  constexpr int skew() const { return int(round_up(radius, align)); }
  // A whole multiple of 128 bytes: bulk copies of single rows start there.
  constexpr int pitch(int bytes) const { return int(round_up(skew() + width() + radius, 128 / bytes)); }
  constexpr int box_bytes(int bytes) const { return rows * pitch(bytes) * bytes; }
  constexpr int shared_bytes(int bytes) const { return stages * (box_bytes(bytes) + 8); }  // and a barrier
};

// Sums of windows that are large enough: 7 taps take 80 / 82 % of the byte floor so, 83 / 92 by a tile, 9 taps 77 / 82
// and 71 / 79.
template <class P>
constexpr bool kFitsStreaming = P::count == 1 && P::stride == 1 && P::Start::kind == Point::sum&& P::halo >= 4;

// Measured on one NVIDIA H200, % of the byte floor at 4096^2 / 8192^2, float32, reflect, two windows.
template <class P>
constexpr StreamingStrip streaming_strip(int bytes) {
  // 9 taps: boxes of 8 rows that start on 128 bytes 77 / 82; 4 rows on 64 75 / 82; 12 blocks 75 / 77.
  if (P::halo == 4)
    return {.columns = 4, .rows = 8, .stages = 2, .align = 128 / bytes, .radius = P::halo, .blocks = 16};
  //     13 taps   12 blocks (168 registers) 68 / 76, 10 59 / 65, 8 66 / 69; boxes of 8 rows 68 / 75; 2 columns 64 / 68
  //     15 taps   12 blocks 58 / 65, 10 51 / 55
  return {.columns = 4, .rows = 4, .stages = 4, .align = 64 / bytes, .radius = P::halo, .blocks = 12};
}

// Pieces of the frame along an image's edge are this long: as long as their memory fits into the box's.
template <class P>
constexpr int edge_bytes(int piece) {
  const int flat = P::edge_floats(P::halo, piece), tall = P::edge_floats(piece, P::halo);
  return 4 * (flat > tall ? flat : tall);
}
template <class P>
constexpr int edge_piece(int box_bytes) {
  int piece = 128;
  while (piece > 16 && edge_bytes<P>(piece) > box_bytes) piece /= 2;
  return piece;
}
template <class P>
constexpr int shared_bytes(int bytes) {
  const int box = tile_shape<P>(bytes).box_bytes(bytes), edge = edge_bytes<P>(edge_piece<P>(box));
  return box > edge ? box : edge;
}

// The handling of the image's border. A policy that repeats elements extends the box by `extend` rows and
// columns: the halo of the first stage, or of all stages if filtering commutes with the extension. Values that
// later stages read beyond the image are in registers, unless the image is smaller than their halo. Else pixels
// nearer than `margin` to an edge are computed again, because their windows extend beyond it.
struct Edges {
  int extend, margin;
};

struct Args {
  PlaneGeometry planes;
  int64_t stride_output;  // from one output's images to the next one's
  int first;              // the image's pixel under output (0, 0)
  TileOrder order;
  int extend, margin;  // see Edges
  Border border;
  float value, number;
  bool bulk;  // the box comes by a bulk copy
  int boxes;  // STREAMING: that a block goes through
};

// A kernel's argument for the image: its tensor map, or for a shard the maps of the neighbour shards as well.
template <bool kPeers>
using MapOf = std::conditional_t<kPeers, ShardMaps, TensorMap>;

// The taps of all windows, one after another; parameters, so that they need no registers.
template <class P>
struct TapsOf {
  float v[P::taps + 1];  // + 1: all of a pipeline's may be known
};
// The taps of any pipeline, packed by the host: a launch copies as much of it as the kernel declares.
constexpr int kMostTaps = 63;
struct PackedTaps {
  float v[kMostTaps + 1];
};

}  // namespace torch_conv::fused
