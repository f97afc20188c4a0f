// Problem -> Decision: which kernel family serves a problem on a device, and by which plan. A decision is made once and
// handed to `launch`. `run` does both, and refuses the call where no variant serves.
//
// A problem that may read other shards (`peers`) runs on all shards
// that the call's part offers, and the part says whether it did (sharding/launch_shards.h).
#pragma once

#include <vector>

#include "graph/record_launch.h"

namespace torch_conv {

// Direct sums, as the problems that families take: signals of few rows become images that tiles fill (long_rows.h),
// planes and columns of volumes become images (volumes.h).
std::vector<Decision<Direct>> dispatch(const Target& target, const Direct& problem);
bool all_serve(const std::vector<Decision<Direct>>& parts);
Decision<Depthwise> dispatch(const Target& target, const Depthwise& problem);
Decision<Separable> dispatch(const Target& target, const Separable& problem);  // of images
// A separable problem on volumes as one launch, a chain as one launch; none on devices without such a family.
std::optional<Decision<Separable>> dispatch_volumes(const Target& target, const Separable& problem);
std::optional<Decision<Fused>> dispatch(const Target& target, const Fused& problem);

void run(Call& call, const Target& target, const Direct& problem);
void run(Call& call, const Target& target, const ReadTiles& problem);
void run(Call& call, const Target& target, const WriteTiles& problem);
void run(Call& call, const Target& target, const Separable& problem);
void run(Call& call, const Target& target, const Box& problem);
void run(Call& call, const Target& target, const BoxDepth& problem);
void run(Call& call, const Target& target, const Combine& problem);

// Launches what a family serves. False: it does not, nothing ran, and the next plan that is explained says why.
template <typename Problem>
bool launch_if_served(Call& call, const Target& target, const Decision<Problem>& d) {
  if (d.serves()) launch(call, target, d);
  else note_refusals(call, *d.plan);
  return d.serves();
}
// Both refuse the call where the problem says that only this family will do: sums that are `mma`, a chain that is
// `wanted`.
bool run_depthwise(Call& call, const Target& target, const Depthwise& problem);
bool run_in_one_launch(Call& call, const Target& target, const Fused& problem);

// The algorithm that alone makes such sums, or "".
const char* wanted_by(Sums sums);

// Is there a kernel for a shard that reads its neighbours?
bool serves_shards(const Target& target, const Direct& problem);                 // of a volume
bool serves_shards(const Target& target, const Fused& problem);                  // of an image
void run_on_shards(Call& call, const Target& target, const Separable& problem);  // of volumes
void run_on_shards(Call& call, const Target& target, const Fused& problem);

// The neighbour shards of a problem's image, if the call's part offers any.
Peers peers_of(const Call& call, const Image& in, int axes);

}  // namespace torch_conv
