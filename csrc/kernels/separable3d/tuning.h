// Comparisons of variants and algorithms, each rule with its measurement.
#pragma once

#include "kernels/separable3d/streaming/plan.h"

namespace torch_conv::separable3d {

// Whether the planes' filter and a depth pass are faster than one launch: for small float32 volumes, whose chunks are
// mostly halo along z. With other shards' planes two launches would serve the interior only: every boundary strip needs
// a copy and two more. One NVIDIA H200, float32, us:
//
//     a plane of a tile   1.15 (64x64, up to 9x9x9), 0.8 (11), 0.96 (15); more for patched borders or taps in memory
//     two launches        6, and 3.8 (k = 3) to 4.6 (15) a million voxels
//     256^3, one, two     k = 3 44, 74; 7 47, 75; 9 53, 78; 11 61, 77; 15 78, 83
//       reflect           k = 3 47, 74; 7 53, 76; 9 61, 79; 11 76, 80; 15 92, 94
//     128^3, reflect      k = 3 12, 13; 7 18, 15; 15 30, 21
//
// Unaligned rows, one NVIDIA H100: a plane takes as long, beyond 9 a fifth more; two launches 2.4 to 3.1 times as long.
//
//     197x233x189         k = 7 45, 90; 15 75, 131
//     512x512x511         k = 7 502, 928; 15 711, 1296 (one launch of 512^3, aligned: 512, 594)
inline const char* one_launch_is_slower(const Separable& p, const Arch& arch, bool bulk) {
  if (p.in.dtype != Dtype::f32 || p.peers.any()) return nullptr;
  const StreamingCost cost = StreamingCost::of(p, arch, bulk);
  const double voxels = double(p.out.n) * p.out.c * p.out.d * p.out.h * p.out.w, k = double(p.kd);
  const double border = patches_border(p.place.border, p.place.value) ? 1.05 + 0.012 * k : 1;
  const double taps = fixed_taps_help(p.kd) && !fixed_taps(p) ? 1.15 : 1;
  const double plane = (p.kd <= 9 ? 1.15 : 0.32 + 0.042 * k) * border * taps * (bulk || p.kd <= 9 ? 1 : 1.2);
  const double voxel = (3.6 + 0.065 * k) * 1e-6 * (tma::volume_vectors_possible(p.in) ? 1 : 2.4);
  const bool wins = plane * double(cost(cost.best_chunk())) < 1.15 * (6 + voxel * voxels);
  return wins ? nullptr : "small: a pass over the planes and a depth pass are faster";
}
inline const char* streaming_is_slower(const Separable& p, const Arch& arch) {
  return one_launch_is_slower(p, arch, true);
}
inline const char* streaming_unaligned_is_slower(const Separable& p, const Arch& arch) {
  return one_launch_is_slower(p, arch, false);
}

}  // namespace torch_conv::separable3d
