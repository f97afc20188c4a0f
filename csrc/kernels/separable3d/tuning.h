// Where another variant or algorithm is faster, each rule with the measurement that decided it.
#pragma once

#include "kernels/separable3d/streaming/plan.h"

namespace torch_conv::separable3d {

// Is one launch faster than the planes' filter and a depth pass? Not for small float32 volumes, whose chunks are mostly
// halo along z. us on one NVIDIA H200, float32: a plane of a tile takes 1.15 (64x64, up to 9x9x9), 0.8 (11) or 0.96
// (15), more where borders are patched or taps are read from shared memory; two launches take 6 and 3.8 (3) .. 4.6 (15)
// a million voxels. 256^3, one launch and two: k = 3 44, 74; 7 47, 75; 9 53, 78; 11 61, 77; 15 78, 83; reflect 47, 74;
// 53, 76; 61, 79; 76, 80; 92, 94. 128^3, reflect: k = 3 12, 13; 7 18, 15; 15 30, 21. Rows that do not start on 16
// bytes, one NVIDIA H100, one launch and two: 197x233x189 k = 7 45, 90; 15 75, 131; 512x512x511 502, 928; 711, 1296
// (512^3, rows that do: 512, 594 in one): a plane takes as long, beyond 9 a fifth more, and two launches 2.4 to 3.1
// times as long as with rows that do.
// With other shards' planes at hand the choice is another: two launches for the interior, and a copy and two more for
// every boundary strip.
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
