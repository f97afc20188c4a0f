// Kernels that stream down strips with line buffers, for host and device: the tile row that their loader brings
// (core/cuda/line_loader.cuh), and how its planes and channels are chosen.
#pragma once

#include <algorithm>

#include "core/problem.h"

namespace torch_conv {

constexpr int kLineWarps = 8;  // of a block; in a row pass each makes segments of a tile row's outputs
constexpr int kLineRows = 32;  // input rows of a box, one per lane; output rows of a step

constexpr int kLineBeyond = 3;  // elements or lines that a pass may read behind those under a window

// Columns of a lane that wait in registers: those of 128 columns and a halo, as far as there are registers.
constexpr int line_ahead(int acc_bytes) { return acc_bytes == 8 ? 3 : 5; }

// Elements that a window's taps take in shared memory.
constexpr int tap_elements(int64_t k) { return int(round_up(k, 4)); }

// A tile row holds pixels of one plane, of several narrow planes, or of the interleaved channels of an HWC image.
struct LineRow {
  int channels;     // interleaved channels of a tile row, else 1
  int pixels;       // output pixels of a tile row of a plane
  int planes;       // narrow ones, side by side in a tile row
  int plane_span;   // input elements of a tile row of a plane, with its channels
  int span;         // ... of all planes
  bool contiguous;  // neighbouring elements of a tile row are neighbours in the image

  // Odd, so that lanes on 32 rows hit 32 banks.
  constexpr int pitch() const { return span | 1; }
};

// A tile row of `pixels` outputs over `span` input pixels of a plane. Spans beyond any shared memory are cut.
inline LineRow line_row(const Image& in, int channels, int planes, int pixels, int64_t span) {
  constexpr int64_t kMost = 1 << 20;
  const bool unit = in.stride_w == channels && (channels == 1 || in.stride_c == 1);
  const int plane_span = int(std::min(span, kMost)) * channels;
  return {.channels = channels,
          .pixels = pixels,
          .planes = planes,
          .plane_span = plane_span,
          .span = plane_span * planes,
          .contiguous = unit && planes == 1 && in.c % channels == 0};
}

// Interleaved channels, at most so many, are filtered together, so that loads and stores are coalesced; pixels may be
// further apart than that, and outputs anywhere.
inline int channels_together(const Image& in, int most) {
  const bool together = in.stride_c == 1 && in.c > 1 && in.stride_w != 1;
  return together ? int(ceil_div(in.c, ceil_div(in.c, most))) : 1;
}

// Narrow planes that a tile row of `most` elements holds side by side, `pixels` each.
inline int narrow_planes(const Image& in, const Image& out, int most, int pixels) {
  const int64_t count = std::min<int64_t>(most / pixels, out.n * out.c);
  // Offsets from the first plane on ascend, and fit an int.
  const bool ascend = in.n == 1 || in.c == 1 || in.stride_n >= (in.c - 1) * in.stride_c;
  const bool near = ascend && count * std::max(in.stride_n, in.stride_c) < 1 << 30;
  return near && pixels >= out.w ? int(std::max<int64_t>(count, 1)) : 1;
}

// Blocks side by side: over the channels of a sample, or over all planes.
inline int64_t line_planes(const Image& out, const LineRow& row) {
  return row.planes > 1 ? ceil_div(out.n * out.c, row.planes) : ceil_div(out.c, row.channels);
}
inline int64_t line_grid(const Image& out, const LineRow& row, int64_t rows) {
  const int64_t samples = row.planes > 1 ? 1 : out.n;
  return samples * line_planes(out, row) * ceil_div(out.w, row.pixels) * ceil_div(out.h, rows);
}

// Why offsets in a row or a column of an image do not fit an int; null if they do.
inline const char* line_refusal(const Image& in) {
  constexpr int64_t kMost = 1 << 30;
  if (in.w * std::max<int64_t>(in.stride_w, 1) >= kMost || in.h >= kMost) return "rows or columns of 2^30 elements";
  return in.h > 1 && in.stride_h >= kMost ? "rows that are 2^30 elements apart" : nullptr;
}

}  // namespace torch_conv
