// What a room decided to do, before it does it; `explain` prints it.
#pragma once

#include <cstdint>
#include <ostream>

namespace torch_conv {

struct Plan {
  const char* algorithm;       // what algorithm= names: "direct", "separable", "box", ...
  const char* variant;         // the room's kernel or loop: "reg", "tile_tma", "general", ...
  const char* why;             // one clause
  int tile_w = 0, tile_h = 0;  // output tile of one block (CUDA) or of one task (CPU)
  int threads = 0;             // per block (CUDA)
  int shared_bytes = 0;        // per block (CUDA)
  int64_t blocks = 0;          // blocks of the grid (CUDA) or tasks (CPU)
  int launches = 1;
  int64_t scratch_bytes = 0;  // the hall allocates this on the images' device and hands it to run()
  double bytes = 0;           // one read of the input, one write of the output
  double flops = 0;           // two a tap
};

inline std::ostream& operator<<(std::ostream& os, const Plan& p) {
  return os << p.algorithm << '/' << p.variant << " (" << p.why << "); tile " << p.tile_w << 'x' << p.tile_h
            << ", blocks " << p.blocks << ", threads " << p.threads << ", shared " << p.shared_bytes << " B; launches "
            << p.launches << ", scratch " << p.scratch_bytes << " B; bytes " << int64_t(p.bytes) << ", flops "
            << int64_t(p.flops);
}

}  // namespace torch_conv
