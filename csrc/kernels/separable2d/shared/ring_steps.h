// The height of strips whose row results are a ring. Pure.
#pragma once

#include <algorithm>

#include "core/plan.h"
#include "kernels/separable2d/shared/ring_shape.h"

namespace torch_conv::separable2d {

inline int64_t ring_blocks(const Separable& rows, int pixel, int steps) {
  const Image& out = rows.out;
  return out.n * out.c * ceil_div(out.w, ring_width(pixel)) * ceil_div(out.h, steps * kRingRows);
}

// Steps of a strip, for blocks of `bytes` of shared memory. Long strips repeat few row passes; short ones leave no
// multiprocessor idle. The function minimises the rounds of resident blocks times the cost of a strip. A row costs its
// taps and about 20 more; the kh - 1 rows that fill the ring have no column pass. Strips longer than 32 fills of the
// ring save nothing and end unevenly. us of RING, one NVIDIA H200, by steps; the function takes 8 for the planes and 17
// for the HWC images:
//
//     planes, 4096^2                    4      8     16     32
//       15x15                        44.9   44.3   46.5   73.9
//       31x31                        60.2   57.3   60.5   81.6
//     HWC images, 16x3x1080x1920   2    4    8   17   34
//       5x5                      217  215  217  219  245
//       15x15                    254  234  231  232  269
//       31x31                    380  336  323  305  316
inline int ring_steps(const Separable& rows, int pixel, int bytes, const Arch& arch) {
  const int kh = int(rows.kh), kw = int(rows.kw);
  const int64_t fitting = arch.shared_bytes / (bytes + 1024);
  const int64_t resident =
      arch.multiprocessors * std::max<int64_t>(1, std::min<int64_t>(ring_residents(pixel), fitting));
  const int most = int(std::min<int64_t>(32 * std::max(ring_fill(kh), 1), ceil_div(rows.out.h, kRingRows)));
  int best = 1;
  int64_t least = INT64_MAX;
  for (int steps = 1; steps <= most; ++steps) {
    const int64_t rounds = ceil_div(ring_blocks(rows, pixel, steps), resident);
    const int64_t halo = round_up(kh - 1, kRingPiece);
    const int64_t cost = rounds * (steps * kRingRows * (kw + kh + 20) + halo * (kw + 10));
    if (cost <= least) least = cost, best = steps;
  }
  return best;
}

}  // namespace torch_conv::separable2d
