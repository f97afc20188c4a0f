// Which tile of which plane a block computes.
#pragma once

#include "core/dtype.h"

namespace torch_conv {

struct TileIndex {
  unsigned x, y, plane;
};

// The same with the plane taken apart: channel c of sample n.
struct TilePlace {
  unsigned x, y, c, n;
};

// Tiles of a plane follow each other in raster order, so that halos are still in L2 when the next row of tiles needs
// them. Only the left and right columns and the bottom row of tiles come first: their blocks patch a border, and would
// lengthen the grid's tail (separable 15x15 with reflect at 4096^2 on one NVIDIA H200: 74.9 % of copy with only the
// bottom row first, 75.3 % so).
TC_HD TileIndex tile_index(unsigned block, unsigned tiles_x, unsigned tiles_y) {
  const unsigned tiles = tiles_x * tiles_y, plane = block / tiles, edges = 2 * tiles_y;
  unsigned rest = block % tiles, x, row;
  if (tiles_x < 3) {
    x = rest % tiles_x, row = rest / tiles_x;
  } else if (rest < edges) {
    x = rest % 2 ? tiles_x - 1 : 0, row = rest / 2;
  } else {
    rest -= edges;
    x = 1 + rest % (tiles_x - 2), row = rest / (tiles_x - 2);
  }
  return {x, (row == 0 ? tiles_y : row) - 1, plane};
}

// Division by a number that the host knows: the high half of a product, once the 32-bit dividend is below 2^31.
struct FastDivisor {
  unsigned divisor, factor, shift;

  static FastDivisor of(unsigned divisor) {
    FastDivisor d{divisor, 0, 0};
    if (divisor == 1) return d;  // factor 0 says so
    while ((1ull << (d.shift + 1)) < divisor) ++d.shift;
    d.factor = unsigned(((1ull << (32 + d.shift)) + divisor - 1) / divisor);
    return d;
  }
  TC_HD unsigned divide(unsigned x) const { return factor ? unsigned(uint64_t(x) * factor >> 32) >> shift : x; }
};

// The same order of tiles with the divisions prepared, as kernels receive it.
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
  TC_HD TileIndex tile(unsigned block) const {
    const unsigned index = plane.divide(block), edges = 2 * tiles_y;
    unsigned rest = block - index * plane.divisor, x, y;
    if (tiles_x < 3) {
      y = row.divide(rest), x = rest - y * tiles_x;
    } else if (rest < edges) {
      y = rest / 2, x = rest % 2 ? tiles_x - 1 : 0;
    } else {
      rest -= edges;
      y = inner_row.divide(rest), x = 1 + rest - y * (tiles_x - 2);
    }
    return {x, (y == 0 ? tiles_y : y) - 1, index};
  }
  TC_HD TilePlace at(unsigned block) const {
    const TileIndex t = tile(block);
    const unsigned n = channels.divide(t.plane), c = t.plane - n * channels.divisor;
    return {t.x, t.y, c, n};
  }
};

}  // namespace torch_conv
