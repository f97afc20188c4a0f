// What a room decided to do, before it does it; `explain` prints it.
#pragma once

#include <cstdint>
#include <ostream>

namespace torch_conv {

struct Plan {
  const char* algorithm;                   // what algorithm= names: "direct", "separable", "box", ...
  const char* variant;                     // the room's kernel or loop: "reg", "tile_tma", "general", ...
  const char* why;                         // one clause
  int tile_w = 0, tile_h = 0, tile_d = 0;  // output tile of one block (CUDA) or of one task (CPU); tile_d of volumes
  int threads = 0;                         // per block (CUDA)
  int shared_bytes = 0;                    // per block (CUDA)
  int64_t blocks = 0;                      // blocks of the grid (CUDA) or tasks (CPU)
  int launches = 1;
  int64_t scratch_bytes = 0;  // the hall allocates this on the images' device and hands it to run()
  double bytes = 0;           // one read of the input, one write of the output
  double flops = 0;           // two a tap
};

// What a plan leaves at 0 does not apply (blocks and threads of a CPU loop, scratch of most kernels).
inline std::ostream& operator<<(std::ostream& os, const Plan& p) {
  os << p.algorithm << '/' << p.variant << " (" << p.why << ")";
  if (p.tile_w) os << "; tile " << p.tile_w << 'x' << p.tile_h;
  if (p.tile_w && p.tile_d) os << 'x' << p.tile_d;
  if (p.tile_w) os << ", " << p.blocks << (p.threads ? " blocks" : " tasks");
  if (p.threads) os << " of " << p.threads << " threads, shared memory " << p.shared_bytes << " B";
  os << "; launches " << p.launches;
  if (p.scratch_bytes) os << ", scratch " << p.scratch_bytes << " B";
  if (p.bytes) os << "; bytes " << int64_t(p.bytes) << ", flops " << int64_t(p.flops);
  return os;
}

}  // namespace torch_conv
