// Problem -> Decision: the kernel family that serves a problem on a device, and its plan. `dispatch` decides once and
// `launch` takes the decision. `run` does both, and refuses the call where no variant serves.
//
// A problem with `peers` runs on all shards that the call's part offers, where a kernel family reads neighbour shards.
// `Shard::done` says which shards have run (sharding/launch_shards.h).
#pragma once

#include <vector>

#include "graph/decision.h"
#include "kernels/causal/problem.h"
#include "kernels/weight_gradient/problem.h"

namespace torch_conv {

// A direct sum becomes the problems that families take. Signals of few rows become images that fill tiles
// (long_rows.h); planes and columns of volumes become images (volumes.h).
std::vector<Decision<Direct>> dispatch(const Target& target, const Direct& problem);
bool all_serve(const std::vector<Decision<Direct>>& parts);
Decision<Depthwise> dispatch(const Target& target, const Depthwise& problem);
Decision<WeightGradient> dispatch(const Target& target, const WeightGradient& problem);
Decision<Separable> dispatch(const Target& target, const Separable& problem);  // of images
// One launch for all passes over volumes, or for a chain; none where the device has no such kernel family.
std::optional<Decision<Separable>> dispatch_volumes(const Target& target, const Separable& problem);
std::optional<Decision<Fused>> dispatch(const Target& target, const Fused& problem);

void run(Call& call, const Target& target, const Direct& problem);
void run(Call& call, const Target& target, const ReadTiles& problem);
void run(Call& call, const Target& target, const WriteTiles& problem);
void run(Call& call, const Target& target, const Separable& problem);
void run(Call& call, const Target& target, const Box& problem);
void run(Call& call, const Target& target, const BoxDepth& problem);
void run(Call& call, const Target& target, const Combine& problem);
void run(Call& call, const Target& target, const CausalConv& problem);
void run(Call& call, const Target& target, const CausalUpdate& problem);

// False, without a launch: the fused kernel family does not serve the chain, or its kernel is not compiled yet. Refuses
// the call if no variant serves a chain that is `wanted`.
bool run_in_one_launch(Call& call, const Target& target, const Fused& problem);

// `in` is the tensor of p.in. Runs separable filters, one pass an axis. The separable kernel family filters images.
// Volumes take one launch, or one for planes and one for depth.
void run_passes(Call& call, const Target& target, const ImageView& in, int axes, const Separable& p);
// The fused kernel family computes a filter in one launch if `halving`: the filter keeps every other pixel of every
// other row. `run_passes` computes the other filters.
void run_separable(Call& call, const Target& target, const ImageView& in, int axes, const Separable& p, Algorithm asked,
                   bool halving);
// A chain in one launch, unless `asked` is Algorithm::separable. Else as separate launches: a filter for each window
// and a `Combine` for each stage, through scratch memory. Both have the same bits.
void run_chain(Call& call, const Target& target, const ImageView& in, int axes, const Fused& p, Algorithm asked);

// The sum or mean under a window, by the box or the separable kernel family.
struct BoxRequest {
  int axes;             // 2 or 3
  Algorithm asked;      // automatic, box or separable
  const ImageView& in;  // the tensor of problem.in
  Dtype element;        // of the image in memory; `problem.in` is float64 where the CPU sums another dtype in float64
  Box problem;          // without its position in the whole image, which `run_box` fills in for a part
};
void run_box(Call& call, const Target& target, BoxRequest request);

// The only algorithm with such sums, or "".
const char* wanted_by(Sums sums);

// Whether a kernel for a shard may read its neighbours. For direct filters of images `run` plans piece by piece.
bool serves_shards(const Target& target, const Direct& problem, int axes);
bool serves_shards(const Target& target, const Fused& problem);                  // of an image
void run_on_shards(Call& call, const Target& target, const Separable& problem);  // of volumes
void run_on_shards(Call& call, const Target& target, const Fused& problem);

// The neighbour shards of a problem's image, if the call's part offers any.
Peers peers_of(const Call& call, const Image& in, int axes);

}  // namespace torch_conv
