// SHARED_MEMORY: which problems it serves, and with which tile. Pure.
#pragma once

#include "kernels/separable2d/shared/general_tile.h"

namespace torch_conv::separable2d {

void launch_shared_memory(const Separable& p, const Plan& plan, const Site& site);

inline int fewer_rows(int rows) { return int(round_up(rows / 2, kReuse)); }

// The tallest tile that leaves room for two blocks per multiprocessor, or the lowest if it leaves room for one; without
// rows if none does.
inline GeneralTile tallest_tile(const Separable& p, const Arch& arch) {
  for (int rows = int(std::min<int64_t>(64, round_up(p.out.h, kReuse))); rows >= kReuse; rows = fewer_rows(rows)) {
    const GeneralTile t = general_tile(p, rows);
    const int64_t bytes = shared_bytes(t, t.ext_rows, p.in.dtype);
    if (bytes <= arch.shared_bytes / 2 || (rows == kReuse && bytes <= arch.shared_bytes)) return t;
    if (rows == kReuse) break;
  }
  return {};
}

// ... made lower while blocks are few.
inline GeneralTile shared_memory_tile(const Separable& p, const Arch& arch) {
  GeneralTile t = tallest_tile(p, arch);
  while (t.rows > kReuse && general_blocks(p, t, p.out.h, t.rows) < 2 * arch.multiprocessors)
    t = general_tile(p, fewer_rows(t.rows));
  return t;
}

inline const char* shared_memory_refusal(const Separable& p, const Arch& arch) {
  if (const char* no = general_refusal(p)) return no;
  return tallest_tile(p, arch).rows > 0 ? nullptr : "row results beyond shared memory";
}

inline void configure_shared_memory(const Separable& p, const Arch& arch, Plan& plan) {
  const GeneralTile tile = shared_memory_tile(p, arch);
  plan.why = "any window whose row results fit shared memory";
  plan.tile_w = tile.pixels;
  plan.tile_h = tile.rows;
  plan.threads = 32 * kWarps;
  plan.shared_bytes = int(shared_bytes(tile, tile.ext_rows, p.in.dtype));
  plan.blocks = general_blocks(p, tile, p.out.h, tile.rows);
  plan.kernels = {
      kernel_of("kernels/separable2d/shared_memory/kernel.cuh", "separable2d::separable_shared_memory", {p.in.dtype})};
  plan.config = tile;
}

}  // namespace torch_conv::separable2d
