// PRODUCTS: both passes as products of banded matrices on tensor cores, in numbers that the plan and the kernel share.
#pragma once

#include "separable2d/params.h"

namespace torch_conv::separable2d {

// Windows up to so many rows and columns: the bands of larger ones do not fit the registers.
constexpr int kBandMost = 63;

// A warp makes 16 rows of outputs and marches along them, tile by tile of 8 columns, of bytes 16. The column pass makes
// a tile of sums of `halves` times 8 rows of pixels; the row pass makes one of outputs of the last `tiles` of sums.
struct BandShape {
  int bytes;    // of an element
  int halves;   // of 8 rows, that the windows of 16 rows see
  int tiles;    // of columns, that the windows of a tile's outputs see; odd but for bytes
  int early;    // tiles that a chunk starts before the first window's, so that it starts on 32 bytes: 0 or 1
  bool stores;  // bulk copies take outputs away
  // Of a tile of bytes: do the windows of its first eight outputs see the last tile, those of its last eight the first?
  bool first_sees_last, last_sees_first;

  static constexpr int warps = 4;          // on top of each other
  static constexpr int chunk = 128;        // bytes of a row that a bulk copy brings: what swizzling allows
  static constexpr int rows = 16 * warps;  // of outputs
  static constexpr int parts = 2;          // of a tap, and of a sum between the passes

  constexpr int tile() const { return bytes == 1 ? 16 : 8; }
  constexpr int columns() const { return chunk / bytes; }  // of a chunk
  constexpr int chunk_tiles() const { return columns() / tile(); }
  constexpr int box_h() const { return 16 * (warps - 1) + 8 * halves; }
  constexpr int box_bytes() const { return box_h() * chunk; }
  // Outputs lag so many tiles behind pixels, which is so many chunks and tiles.
  constexpr int lag() const { return early + tiles - 1; }
  constexpr int lag_chunks() const { return (lag() + chunk_tiles() - 1) / chunk_tiles(); }
  constexpr int shift() const { return lag() % chunk_tiles(); }
  // Boxes of outputs of a warp: one fills, one leaves. Where a chunk's outputs fall into two, and single threads store
  // the end of the box before with the one that is full, one more.
  constexpr int boxes() const { return shift() && !stores ? 3 : 2; }
  static constexpr int out_box_bytes() { return 16 * chunk; }

  // Resident blocks, which cap the registers: as many as nothing is spilled for. (Five for float16 15x15, which two
  // stages leave room for: 4096^2 24.6 us instead of 25.4, 8192^2 89.2 instead of 84.1, waiting for chunks.)
  constexpr int min_blocks() const {
    if (bytes == 1) return halves + 4 * tiles <= 17 && halves < 9 ? 4 : halves + 2 * tiles <= 16 ? 3 : 2;
    return halves + tiles <= 11 ? 4 : halves + tiles <= 15 ? 3 : 2;
  }
  // Stages of chunks: three where shared memory has room for them in all resident blocks, else two.
  constexpr int stages() const {
    constexpr int kOfMultiprocessor = 228 * 1024, kReserved = 1024 + 1024 + 128;  // by the system; taps; barriers
    const int outputs = warps * boxes() * out_box_bytes();
    return min_blocks() * (3 * box_bytes() + outputs + kReserved) <= kOfMultiprocessor ? 3 : 2;
  }

  // Bytes of shared memory: chunks, boxes of outputs, taps, barriers. Where single threads bring chunks, one stands
  // as bulk copies would leave it, and behind it the next as it lies in memory, in rows of `raw` bytes.
  static constexpr int raw = chunk + 16;
  constexpr int outputs_at() const {
    const int copied = box_bytes() + box_h() * raw, bulk = stages() * box_bytes();
    return ((copied > bulk ? copied : bulk) + 1023) / 1024 * 1024;
  }
  constexpr int taps_at() const { return outputs_at() + warps * boxes() * out_box_bytes(); }
  constexpr int barriers_at() const { return taps_at() + 2 * 4 * taps_held; }
  constexpr int shared_bytes() const { return barriers_at() + 2 * 8 * stages(); }
  // Floats for the taps of a pass, of which the first stands behind zeros.
  static constexpr int taps_before = 32, taps_held = 128;
  // Words of bands that a lane holds, in two parts each.
  constexpr int column_words() const { return 2 * halves; }
  constexpr int row_words() const { return bytes == 1 ? 4 * tiles : tiles; }
  constexpr int band_words() const { return column_words() + row_words(); }
};

// The first column of a tile's windows lies `off` columns behind that of the first tile which they see.
constexpr int tiles_before(int tile, int pad_x) { return (pad_x + tile - 1) / tile; }

constexpr BandShape band_shape(int bytes, int kh, int kw, int pad_x, bool stores) {
  const int tile = bytes == 1 ? 16 : 8, before = tiles_before(tile, pad_x), off = tile * before - pad_x;
  const int tiles = (off + tile - 1 + kw + tile - 1) / tile;
  BandShape s{.bytes = bytes,
              .halves = (15 + kh + 7) / 8,
              .tiles = bytes == 1 ? tiles : tiles | 1,
              .early = before % 2,
              .stores = stores,
              .first_sees_last = true,
              .last_sees_first = true};
  if (bytes == 1) s.first_sees_last = off + 7 + kw > 16 * (tiles - 1), s.last_sees_first = off + 8 < 16;
  return s;
}

struct BandArgs {
  PlaneGeometry planes;
  TileOrder order;  // of segments
  int segment;      // chunks of outputs
  int pad_y, pad_x;
  int lead;  // columns that the first chunk starts before the first output
  int kh, kw;
  Border border;
  float value;
  PassTaps taps;
  Neighbours beside;
};

static_assert(sizeof(BandArgs) + 2 * sizeof(TensorMap) <= 4096, "kernel parameters beyond 4 KiB");

}  // namespace torch_conv::separable2d
