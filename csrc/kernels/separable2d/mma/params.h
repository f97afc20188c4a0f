// MMA: both passes as products of banded matrices on tensor cores, in numbers that the plan and the kernel share.
#pragma once

#include "core/geometry.h"
#include "core/peer_rows.h"
#include "core/tile_order.h"
#include "core/tma.h"
#include "kernels/separable2d/shared/taps.h"

namespace torch_conv::separable2d {

// Windows up to so many rows and columns: the bands of larger ones do not fit the registers.
constexpr int kBandMost = 63;

// A warp makes 16 rows of outputs and streams along them, in tiles of 8 columns, of bytes 16. The column pass makes a
// tile of sums from `halves` times 8 rows of pixels. The row pass makes a tile of outputs from the last `tiles` tiles
// of sums.
struct MmaPolicy {
  int bytes;   // of an element
  int halves;  // of 8 rows, that the windows of 16 rows see
  int tiles;   // of columns, that the windows of a tile's outputs see; odd but for bytes
  int early;   // tiles that a chunk starts before the first window's, so that it starts on 32 bytes: 0 or 1
  // Whether, in a tile of bytes, windows of the first eight outputs read the last tile, and windows of the last eight
  // the first.
  bool first_sees_last, last_sees_first;
  bool loads;    // rows of pixels start on 16 bytes
  bool stores;   // rows of outputs are whole vectors of 16 bytes
  int channels;  // interleaved in memory; each has its own warps

  static constexpr int chunk = 128;  // bytes of a row in a bulk copy: the most that swizzling allows
  static constexpr int parts = 2;    // of a tap, and of a sum between the passes

  // Bands of 16 rows of outputs, on top of each other. (HWC images of 3 channels by four bands, one block a
  // multiprocessor, 16x1080x1920 on one NVIDIA H200, us: float16 15x15 202 instead of 156; bytes 161 instead of 136.)
  constexpr int bands() const { return channels == 1 ? 4 : 2; }
  constexpr int rows() const { return 16 * bands(); }
  constexpr int warps() const { return bands() * channels; }
  constexpr int threads() const { return 32 * warps(); }

  constexpr int tile() const { return bytes == 1 ? 16 : 8; }
  constexpr int columns() const { return chunk / bytes; }  // of a chunk
  constexpr int chunk_tiles() const { return columns() / tile(); }
  constexpr int box_h() const { return 16 * (bands() - 1) + 8 * halves; }
  constexpr int box_bytes() const { return box_h() * chunk; }
  // Outputs lag so many tiles behind pixels, which is so many chunks and tiles.
  constexpr int lag() const { return early + tiles - 1; }
  constexpr int lag_chunks() const { return (lag() + chunk_tiles() - 1) / chunk_tiles(); }

  // Bulk copies bring the chunks of aligned planes. Threads convert `raw` chunks of interleaved channels and of
  // unaligned rows; they also copy the unaligned rows. Bulk copies store the outputs of planes.
  constexpr bool bulk_loads() const { return loads && channels == 1; }
  constexpr bool bulk_stores() const { return stores && channels == 1; }

  // Bulk copies store boxes of 128 bytes a row, so the outputs of a chunk fall into two boxes, divided at `shift`.
  // Other outputs fill one box. Its rows have 16 bytes in front for the end of the previous box, which is stored with
  // the next vector.
  constexpr int shift() const { return bulk_stores() ? lag() % chunk_tiles() : 0; }
  constexpr int row_bytes() const { return channels * chunk; }
  constexpr int out_pitch() const { return bulk_stores() ? chunk : 16 + row_bytes(); }
  constexpr int out_box_bytes() const { return 16 * out_pitch(); }
  constexpr int out_bytes() const { return bands() * (bulk_stores() ? 2 : 1) * out_box_bytes(); }

  // Resident blocks, which cap the registers: the most without spills. Blocks of HWC images of 3 and 4 channels have
  // six and eight warps. They are two on a multiprocessor; three of six warps for 16-bit elements and windows to 17x17;
  // one where planes have two. One NVIDIA H200, us:
  //     5 blocks of 2 stages, 4 of 3   float16 15x15: 4096^2 24.6, 25.4; 8192^2 89.2, 84.1
  //     3 blocks, 2; 3 channels        16x1080x1920: float16 15x15 156, 169; 31x31 220, 203; bytes 15x15 142, 136
  constexpr int min_blocks() const {
    const bool four = bytes == 1 ? halves + 4 * tiles <= 17 && halves < 9 : halves + tiles <= 11;
    const bool three = bytes == 1 ? halves + 2 * tiles <= 16 : halves + tiles <= 15;
    if (warps() <= 4) return four ? 4 : three ? 3 : 2;
    if (!four && !three) return 1;
    return channels == 3 && bytes == 2 && halves + tiles <= 8 ? 3 : 2;
  }
  // Chunks in shared memory. Bulk copies use three where they fit for all resident blocks, else two. Threads copy one
  // chunk while another is multiplied; HWC images have the channels of one chunk.
  constexpr int stages() const {
    constexpr int kOfMultiprocessor = 228 * 1024, kReserved = 1024 + 1024 + 128;  // by the system; taps; barriers
    if (!bulk_loads()) return channels == 1 ? 2 : 1;
    return min_blocks() * (3 * box_bytes() + out_bytes() + kReserved) <= kOfMultiprocessor ? 3 : 2;
  }

  // Bytes of shared memory: chunks, the next chunk as copied, outputs (before them all bands), taps, barriers.
  constexpr int raw_at() const { return stages() * channels * box_bytes(); }
  constexpr int raw_pitch() const { return row_bytes() + 16; }  // of single threads
  constexpr int raw_bytes() const { return bulk_loads() ? 0 : loads ? channels * box_bytes() : box_h() * raw_pitch(); }
  constexpr int outputs_at() const { return (raw_at() + raw_bytes() + 1023) / 1024 * 1024; }
  constexpr int taps_at() const {
    const int all_bands = parts * band_words() * 32 * 4;
    return outputs_at() + (out_bytes() > all_bands ? out_bytes() : all_bands);
  }
  constexpr int barriers_at() const { return taps_at() + 2 * 4 * taps_held; }
  constexpr int shared_bytes() const { return barriers_at() + 2 * 8 * stages(); }
  // Floats for the taps of a pass, of which the first follows zeros.
  static constexpr int taps_before = 32, taps_held = 128;
  // Words of bands that a lane holds, in two parts each.
  constexpr int column_words() const { return 2 * halves; }
  constexpr int row_words() const { return bytes == 1 ? 4 * tiles : tiles; }
  constexpr int band_words() const { return column_words() + row_words(); }
};

// The first column of a tile's windows is `off` columns behind the first column of the first tile that the windows
// read.
constexpr int tiles_before(int tile, int pad_x) { return (pad_x + tile - 1) / tile; }

constexpr MmaPolicy band_shape(int bytes, int kh, int kw, int pad_x, int channels, bool loads, bool stores) {
  const int tile = bytes == 1 ? 16 : 8, before = tiles_before(tile, pad_x), off = tile * before - pad_x;
  const int tiles = (off + tile - 1 + kw + tile - 1) / tile;
  MmaPolicy s{.bytes = bytes,
              .halves = (15 + kh + 7) / 8,
              .tiles = bytes == 1 ? tiles : tiles | 1,
              .early = before % 2,
              .first_sees_last = true,
              .last_sees_first = true,
              .loads = loads,
              .stores = stores,
              .channels = channels};
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
  PeerRows peers;
};

static_assert(sizeof(BandArgs) + 2 * sizeof(TensorMap) <= 4096, "kernel parameters beyond 4 KiB");

}  // namespace torch_conv::separable2d
