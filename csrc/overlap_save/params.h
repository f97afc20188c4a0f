// What the host and the kernels of overlap-save agree on: where tiles and their outputs lie.
#pragma once

#include "core/problem.h"
#include "core/ranges.h"
#include "core/tile.h"

namespace torch_conv::overlap_save {

// What the tiles hold outside the image: no border policy that leaves taps out reads anything there.
TC_HD double outside_of(const Placement& p) { return p.border == Border::constant ? p.value : 0; }

// A tile of an image: its unit counts the tiles of all images of a batch.
struct Tile {
  int64_t n, c, row, column;  // of the grid of tiles

  static TC_HD Tile of(const Tiles& tiles, int64_t channels, int64_t unit) {
    const int64_t plane = unit / tiles.count, tile = tiles.first + unit % tiles.count;
    return {plane / channels, plane % channels, tile / tiles.across, tile % tiles.across};
  }
};

// Which tile a block works at, and where in a row of it, with the divisions prepared.
struct BlockOrder {
  FastDivisor blocks, tiles, channels, across;  // of a row, of an image, of a sample, of a row of tiles
  unsigned first;

  static BlockOrder of(const Tiles& tiles, int64_t channels, unsigned blocks) {
    return {FastDivisor::of(blocks), FastDivisor::of(unsigned(tiles.count)), FastDivisor::of(unsigned(channels)),
            FastDivisor::of(unsigned(tiles.across)), unsigned(tiles.first)};
  }
  TC_HD unsigned unit_of(unsigned block) const { return blocks.divide(block); }
  TC_HD Tile tile_of(unsigned unit) const {
    const unsigned plane = tiles.divide(unit), tile = first + unit - plane * tiles.divisor;
    const unsigned n = channels.divide(plane), row = across.divide(tile);
    return {n, plane - n * channels.divisor, row, tile - row * across.divisor};
  }
};

// Outputs of a tile, and where the first one's sum stands.
struct Outputs {
  int64_t h, w, from_h, from_w;

  static TC_HD Outputs of(const WriteTiles& p) {
    const Placement& s = p.filter.place;
    return {p.sums.step_h / s.stride_y, p.sums.step_w / s.stride_x, (p.filter.kh - 1) * s.dilation_y,
            (p.filter.kw - 1) * s.dilation_x};
  }
};

// The sum of the |taps| inside the image under the window of output (y, x). Of a window of which less than this part
// lies inside it is negative: its own sum is so small beside the rounding of the transform, which is that of the whole
// window, that the output is to be made tap by tap.
constexpr double kLeastPart = 1.0 / 64;

TC_HD double sum_inside(const WriteTiles& p, int64_t n, int64_t c, int64_t y, int64_t x) {
  const Direct& f = p.filter;
  const Placement& s = f.place;
  const Range i = positions_inside({0, f.kh}, y * s.stride_y - s.pad_y, s.dilation_y, f.in.h);
  const Range j = positions_inside({0, f.kw}, x * s.stride_x - s.pad_x, s.dilation_x, f.in.w);
  const double* corner = p.corners.data + n * p.corners.stride_n + c * p.corners.stride_c;
  const int64_t row = f.kw + 1;
  const double sum = corner[i.end * row + j.end] - corner[i.begin * row + j.end] - corner[i.end * row + j.begin] +
                     corner[i.begin * row + j.begin];
  return sum >= kLeastPart * corner[f.kh * row + f.kw] ? sum : -1;
}

// Does the window of output (y, x) lie inside the image?
TC_HD bool fits(const Direct& f, int64_t y, int64_t x) {
  const Placement& s = f.place;
  const int64_t top = y * s.stride_y - s.pad_y, left = x * s.stride_x - s.pad_x;
  return top >= 0 && top + (f.kh - 1) * s.dilation_y < f.in.h && left >= 0 && left + (f.kw - 1) * s.dilation_x < f.in.w;
}

constexpr int kThreads = 128;
constexpr int kPixels = 4;  // of a thread: `read` makes them a block's width apart, `write` side by side

// A grid's y counts rows, its x the tiles of all images and in each the blocks of a row.
struct ReadArgs {
  ReadTiles p;
  BlockOrder order;
};
struct WriteArgs {
  WriteTiles p;
  BlockOrder order;
  double scale;  // of the sums
  bool packs;    // outputs from one on kPixels on are a word of at most 16 bytes
};

}  // namespace torch_conv::overlap_save
