// Comparisons of variants, each rule with its measurement.
#pragma once

#include "kernels/direct3d/channels/plan.h"
#include "kernels/direct3d/planes/plan.h"
#include "kernels/direct3d/streaming/plan.h"

namespace torch_conv::direct3d {

// Few or odd channels leave most threads idle: a tile of the plane is then faster.
inline const char* planes_is_slower(const Direct& p, const Arch& arch) {
  const double voxels = double(p.out.n * p.out.c * p.out.d) * double(p.out.h * p.out.w);
  const bool suits =
      voxels * 27 / (128.0 * arch.multiprocessors) > 0.25 * planes_choice(p, arch.multiprocessors).clocks;
  return suits ? nullptr : "most threads would be idle";
}

// Only `streaming` reads planes of other shards. `streaming` is faster if it is also the choice for the shard without
// peers.
inline const char* streaming_tma_of_shards_is_slower(const Direct& p, const Arch& arch) {
  Direct without_peers = p;
  without_peers.peers = {};
  const bool channels = !channels_refusal(without_peers, arch);
  const bool planes = !planes_refusal(without_peers, arch) && !planes_is_slower(without_peers, arch);
  return channels || planes ? "the variants that read no other shards are faster" : nullptr;
}
inline const char* streaming_of_shards_is_slower(const Direct& p, const Arch& arch) {
  const bool bulk = arch.bulk_copy && tma::volume_possible(p.in);
  return bulk ? "bulk copies of the shard itself are faster" : streaming_tma_of_shards_is_slower(p, arch);
}

}  // namespace torch_conv::direct3d
