// MMA_GENERAL: the order of a sum, and the parameters of its kernel.
#pragma once

#include "core/problem.h"
#include "core/tile_order.h"

namespace torch_conv::depthwise {

constexpr int kMmaGeneralWarps = 4;   // of a block
constexpr int kMmaGeneralGroups = 8;  // of tiles, that a warp computes
constexpr int kMmaGeneralSteps = 10;  // at most

// A sum is one mma a step, in order of steps. kernel.cuh draws a tile and a step.
struct MmaOrder {
  int tile_rows;  // 2: a step is an input row. 1: a step is 16 pixels of the only row.
  int steps;      // of a tile
  bool fours;  // K slots 2q, 2q + 1, 2q + 8, 2q + 9 are the pixels 4q .. 4q + 3 of a step; else the pixels as numbered
  int lead;    // columns from a step's first pixel to the tile's first output, if tile_rows is 2
  int strip_rows;  // of outputs; a tile has rows of one strip, and the last strip overlaps the one above it
  constexpr int tile_columns() const { return 16 / tile_rows; }
};

struct MmaGeneralArgs {
  Depthwise p;
  MmaOrder order;
  unsigned tiles;                        // of a channel
  unsigned blocks;                       // of a channel
  FastDivisor across, of_strip, strips;  // tiles of a row of tiles, rows of tiles of a strip, strips of a plane
};

}  // namespace torch_conv::depthwise
