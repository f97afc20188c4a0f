// Which tile of which plane a block computes.
#pragma once

#include "core/dtype.h"

namespace torch_conv {

// Where rows of a box that come by copies of single threads start: on as many bytes as the memory takes at once (16:
// float32 3x3 of odd width 98.2 us, 32: 94.4, 64: 94.7, 128: 95.2; one NVIDIA H200).
constexpr int kRowStart = 32;

// Tiles side by side that start `step` columns apart and make `overlap` more: the last one makes the rest of its row.
constexpr int64_t tiles_across(int64_t columns, int64_t step, int64_t overlap) {
  return columns > overlap ? (columns - overlap + step - 1) / step : columns > 0;
}

// A block's tile, the channel and the sample of its plane.
struct TilePosition {
  unsigned x, y, c, n;
};

// Division by a number that the host knows: the high half of a product, once the 32-bit dividend is below 2^31.
struct FastDivisor {
  unsigned divisor, factor, shift;

  static FastDivisor of(unsigned divisor) {
    FastDivisor d{divisor, 0, 0};
    if (divisor < 2) return d;  // factor 0 says so; 0 where there are no outputs, and so no blocks
    while ((1ull << (d.shift + 1)) < divisor) ++d.shift;
    d.factor = unsigned(((1ull << (32 + d.shift)) + divisor - 1) / divisor);
    return d;
  }
  TC_HD unsigned divide(unsigned x) const { return factor ? unsigned(uint64_t(x) * factor >> 32) >> shift : x; }
};

// Tiles of a plane follow each other in raster order, so that halos are still in L2 when the next row of tiles needs
// them. Only the left and right columns and the bottom row of tiles come first: their blocks patch a border, and would
// lengthen the grid's tail (separable 15x15 with reflect at 4096^2 on one NVIDIA H200: 74.9 % of copy with only the
// bottom row first, 75.3 % so). Kernels receive the divisions prepared.
struct TileOrder {
  unsigned tiles_x, tiles_y;
  FastDivisor plane, row, inner_row, channels;

  static TileOrder of(int64_t tiles_x, int64_t tiles_y, int64_t channels) {
    return {unsigned(tiles_x),
            unsigned(tiles_y),
            FastDivisor::of(unsigned(tiles_x * tiles_y)),
            FastDivisor::of(unsigned(tiles_x)),
            FastDivisor::of(unsigned(tiles_x > 2 ? tiles_x - 2 : 1)),
            FastDivisor::of(unsigned(channels))};
  }
  TC_HD TilePosition at(unsigned block) const {
    const unsigned index = plane.divide(block), n = channels.divide(index);
    return in_plane(block - index * plane.divisor, index - n * channels.divisor, n);
  }
  // The tiles of all channels at one place follow each other.
  TC_HD TilePosition at_together(unsigned block) const {
    const unsigned tile = channels.divide(block), n = plane.divide(tile);
    return in_plane(tile - n * plane.divisor, block - tile * channels.divisor, n);
  }

 private:
  TC_HD TilePosition in_plane(unsigned rest, unsigned c, unsigned n) const {
    const unsigned edges = 2 * tiles_y;
    unsigned x, y;
    if (tiles_x < 3) {
      y = row.divide(rest), x = rest - y * tiles_x;
    } else if (rest < edges) {
      y = rest / 2, x = rest % 2 ? tiles_x - 1 : 0;
    } else {
      rest -= edges;
      y = inner_row.divide(rest), x = 1 + rest - y * (tiles_x - 2);
    }
    return {x, (y == 0 ? tiles_y : y) - 1, c, n};
  }
};

}  // namespace torch_conv
