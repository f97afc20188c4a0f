// Shared by host and kernels of overlap-save: the positions of tiles and of their outputs.
#pragma once

#include "core/problem.h"
#include "core/ranges.h"
#include "core/tile_order.h"

namespace torch_conv::overlap_save {

// The value of the tiles outside the image. The border policies that skip taps do not read it.
TC_HD double outside_of(const Placement& p) { return p.border == Border::constant ? p.value : 0; }

// A tile of an image: its unit counts the tiles of all images of a batch.
struct Tile {
  int64_t n, c, row, column;  // of the grid of tiles

  static TC_HD Tile of(const Tiles& tiles, int64_t channels, int64_t unit) {
    const int64_t plane = unit / tiles.count, tile = tiles.first + unit % tiles.count;
    return {plane / channels, plane % channels, tile / tiles.across, tile % tiles.across};
  }
};

// The tile of a block and the block's position in a row of it, with prepared divisions.
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

// The transforms' rounding errors are a part of the largest pixel of a tile. So a tile is divided into cells, and
// windows whose pixels are all far smaller than that pixel are summed directly.
//
//    +--+--+--+--+--+
//    |  |  |  |  |  |      every window that starts in cell (1, 1) is in `down` x `across` cells, here 2 x 3;
//    |  |##|##|##|  |      all of them have one mark
//    |  |##|##|##|  |
//    +--+--+--+--+--+
//
// A tile's notes: each cell's largest exponent (exponent_of), then whether a pixel is negative.
struct Cells {
  int log_h, log_w;  // of the pixels of a cell
  int rows, columns;
  int down, across;

  TC_HD int count() const { return rows * columns; }
  TC_HD int notes() const { return count() + 1; }
  TC_HD int at(int64_t y, int64_t x) const { return int(y >> log_h) * columns + int(x >> log_w); }

  static Cells of(const Tiles& tiles) {
    const auto [log_h, rows, down] = along(tiles.h, tiles.step_h);
    const auto [log_w, columns, across] = along(tiles.w, tiles.step_w);
    return {log_h, log_w, rows, columns, down, across};
  }

 private:
  // 16 pixels, in larger windows up to a quarter of them; at most 128 cells.
  struct Axis {
    int log, cells, touched;
  };
  static Axis along(int64_t length, int64_t step) {
    const int64_t beyond = length - step;  // a window's span less one, or a little more
    int log = 4;
    while ((int64_t(128) << log) < length || (int64_t(8) << log) <= beyond) ++log;
    const int64_t side = int64_t(1) << log;
    return {log, int(ceil_div(length, side)), int(ceil_div(side + beyond, side))};
  }
};

// 0 for 0, and one more from a power of two to the next. The largest are those of infinities and NaNs.
TC_HD int exponent_of(uint32_t bits) { return bits << 1 == 0 ? 0 : 1 + int(bits << 1 >> 24); }
TC_HD int exponent_of(uint64_t bits) { return bits << 1 == 0 ? 0 : 1 + int(bits << 1 >> 53); }

// Sums by FFT are as good as their bound for pixels that are 2^kRange times larger than the largest in the window.
constexpr int kRange = 8;

// The step from the sums of the windows that start in a cell to outputs.
enum class Mark : char {
  keep,
  clamp,     // not below 0: no pixel of the tile and no tap of the window is negative
  nothing,   // 0: all pixels are
  directly,  // made tap by tap
};

TC_HD Mark mark_of(const Cells& cells, const int32_t* notes, int row, int column, int largest, bool clamps) {
  int most = 0;
  for (int y = row; y < cells.rows && y < row + cells.down; ++y)
    for (int x = column; x < cells.columns && x < column + cells.across; ++x) {
      const int one = notes[y * cells.columns + x];
      most = one > most ? one : most;
    }
  return most == 0 ? Mark::nothing : most + kRange < largest ? Mark::directly : clamps ? Mark::clamp : Mark::keep;
}

// The taps of a tile's window: kh * kw numbers.
template <typename A>
TC_HD const A* taps_of(const Direct& p, const Tile& tile) {
  return static_cast<const A*>(p.taps.data) + tile.n * p.taps.stride_n + tile.c * p.taps.stride_c;
}

// Outputs of a tile, and the position of the first one's sum.
struct Outputs {
  int64_t h, w, from_h, from_w;

  static TC_HD Outputs of(const WriteTiles& p) {
    const Placement& s = p.filter.place;
    return {p.sums.step_h / s.stride_y, p.sums.step_w / s.stride_x, (p.filter.kh - 1) * s.dilation_y,
            (p.filter.kw - 1) * s.dilation_x};
  }
};

// The outputs along an axis, of the tile's first `most`, whose windows start in `cells`.
TC_HD Range outputs_of(Range cells, int log, int64_t stride, int64_t most) {
  const int64_t begin = ceil_div(cells.begin << log, stride), end = ceil_div(cells.end << log, stride);
  return {begin < most ? begin : most, end < most ? end : most};
}

// The sum of the |taps| inside the image under the window of output (y, x). It is negative where less than kLeastPart
// of the window is inside. The transform's rounding error belongs to the whole window and exceeds such a small sum,
// so the output is made tap by tap.
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

// Whether the window of output (y, x) is inside the image.
TC_HD bool fits(const Direct& f, int64_t y, int64_t x) {
  const Placement& s = f.place;
  const int64_t top = y * s.stride_y - s.pad_y, left = x * s.stride_x - s.pad_x;
  return top >= 0 && top + (f.kh - 1) * s.dilation_y < f.in.h && left >= 0 && left + (f.kw - 1) * s.dilation_x < f.in.w;
}

constexpr int kThreads = 128;
constexpr int kPixels = 4;  // of a thread: `read` makes them a block's width apart, `write` neighbours

// The time of notes and marks, 4096 x 4096 float32 by 127 x 127, one NVIDIA H100, the last row one H200:
//
//     an atomic a cell and row in `read`, one block a tile in `mark`, direct sums in `write`     14 % (255 x 255: 12 %)
//     groups of rows in `read`, many blocks in `mark`                                             4 % (255 x 255: 4 %)
//     two rows in `write`, direct sums in a kernel of their own                                   0 % (255 x 255: 2 %)
constexpr int kWriteRows = 2;      // of a thread of `write`
constexpr int kMarkThreads = 512;  // of a block of `mark`, a cell each
constexpr int kCells = 8;          // of a block of `directly`: at most 32

// A grid's x counts the tiles of all images and in each the blocks of a row; its y counts groups of rows. Of
// `mark` and `directly` x counts the tiles and y groups of cells.
struct ReadArgs {
  ReadTiles p;
  BlockOrder order;
  Cells cells;
  int rows;  // of a block: a power of two that a cell's height is a multiple of
};
struct WriteArgs {
  WriteTiles p;
  BlockOrder order;
  Cells cells;
  double scale;  // of the sums
  bool packs;    // outputs from one on kPixels on are a word of at most 16 bytes
};

}  // namespace torch_conv::overlap_save
