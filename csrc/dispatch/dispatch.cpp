#include "dispatch/dispatch.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "dispatch/long_rows.h"
#include "dispatch/volumes.h"
#include "kernels/box/depth/plan.h"
#include "kernels/causal/plan.h"
#include "kernels/depthwise/plan.h"
#include "kernels/direct2d/plan.h"
#include "kernels/direct3d/plan.h"
#include "kernels/fused/combine/plan.h"
#include "kernels/fused/plan.h"
#include "kernels/fused3d/plan.h"
#include "kernels/overlap_save/plan.h"
#include "kernels/plan_cpu.h"
#include "kernels/separable2d/plan.h"
#include "kernels/separable3d/plan.h"
#include "kernels/weight_gradient/plan.h"
#include "sharding/launch_shards.h"

namespace torch_conv {

namespace {

// direct2d, separable2d, fused and box serve images (in.d == 1, kd == 1), direct3d, separable3d and fused3d volumes;
// direct and Combine on the CPU serve both.
constexpr EntryPoints<Direct> kDirect2d{direct::plan_cpu, direct2d::plan_cuda};
constexpr EntryPoints<Direct> kDirect3d{direct::plan_cpu, direct3d::plan_cuda};
constexpr EntryPoints<ReadTiles> kReadTiles{overlap_save::plan_cpu, overlap_save::plan_cuda};
constexpr EntryPoints<WriteTiles> kWriteTiles{overlap_save::plan_cpu, overlap_save::plan_cuda};
constexpr EntryPoints<Depthwise> kDepthwise{depthwise::plan_cpu, depthwise::plan_cuda};
constexpr EntryPoints<Separable> kSeparable2d{separable2d::plan_cpu, separable2d::plan_cuda};
constexpr EntryPoints<Separable> kSeparable3d{nullptr, separable3d::plan_cuda};
constexpr EntryPoints<Box> kBox{box::plan_cpu, box::plan_cuda};
constexpr EntryPoints<BoxDepth> kBoxDepth{box::plan_cpu, box::plan_cuda};
constexpr EntryPoints<Fused> kFused{fused::plan_cpu, fused::plan_cuda};
constexpr EntryPoints<Fused> kFused3d{nullptr, fused3d::plan_cuda};
constexpr EntryPoints<Combine> kCombine{fused::plan_cpu, fused::plan_cuda};
constexpr EntryPoints<CausalConv> kCausal{causal::plan_cpu, causal::plan_cuda};
constexpr EntryPoints<CausalUpdate> kCausalUpdate{causal::plan_cpu, causal::plan_cuda};
constexpr EntryPoints<WeightGradient> kWeightGradient{nullptr, weight_gradient::plan_cuda};

// The box of a volume takes one kernel for the planes and one for the depth pass. A pin is for one of them.
bool depth_pass_pinned() {
  return std::any_of(std::begin(box::kDepthCandidates), std::end(box::kDepthCandidates),
                     [](const auto& candidate) { return std::strcmp(pinned_variant(), candidate.variant) == 0; });
}

bool is_image(const Direct& p) { return p.in.d == 1 && p.out.d == 1 && p.kd == 1 && p.place.pad_z == 0; }

bool is_volume(const Fused& p) {
  const auto deep = [](const Stage& stage) { return stage.kd > 1; };
  return p.in.d > 1 || std::any_of(p.stages, p.stages + p.count, deep);
}

// The kernel family that reads neighbour shards, or null. direct2d filters volumes by windows along z as images,
// and reads no planes of other shards.
const EntryPoints<Direct>* entry_points_of_shards(const Direct& p, int axes) {
  if (axes == 2) return &kDirect2d;
  return *pinned_variant() || !as_images(p) ? &kDirect3d : nullptr;
}

template <typename Problem>
void run_checked(Call& call, const Target& target, const Decision<Problem>& d, const char* wanted = "") {
  check_serves(call, d, wanted);
  launch(call, target, d);
}

}  // namespace

Peers peers_of(const Call& call, const Image& in, int axes) {
  const Part* part = part_of(call);
  return part && !part->shards.empty() ? peers(*part->shards[0], in.dtype, axes) : Peers{};
}

const char* wanted_by(Sums sums) { return sums == Sums::mma ? "tensor_core" : ""; }

std::vector<Decision<Direct>> dispatch(const Target& target, const Direct& problem) {
  const Direct p = problem.with_channels_read_once();
  const char* pinned = pinned_variant();
  std::vector<Decision<Direct>> parts;
  if (!is_image(p)) {
    // Planes and columns are faster as images. A pinned variant is one of direct3d.
    const auto images = *pinned ? std::nullopt : as_images(p);
    parts.push_back(images ? decide(target, *images, kDirect2d, "") : decide(target, p, kDirect3d, pinned));
    return parts;
  }
  if (target.cuda() && p.kh == 1 && !*pinned)
    for (const Direct& rows : long_rows(p)) parts.push_back(decide(target, rows, kDirect2d, ""));
  if (parts.empty()) parts.push_back(decide(target, p, kDirect2d, pinned));
  return parts;
}

bool all_serve(const std::vector<Decision<Direct>>& parts) {
  return std::all_of(parts.begin(), parts.end(), [](const auto& d) { return d.serves(); });
}

Decision<Depthwise> dispatch(const Target& target, const Depthwise& p) {
  return decide(target, p, kDepthwise, pinned_variant());
}

Decision<WeightGradient> dispatch(const Target& target, const WeightGradient& p) {
  return decide(target, p, kWeightGradient, pinned_variant());
}

Decision<Separable> dispatch(const Target& target, const Separable& p) {
  return decide(target, p, kSeparable2d, pinned_variant());
}

std::optional<Decision<Separable>> dispatch_volumes(const Target& target, const Separable& p) {
  if (!target.cuda()) return std::nullopt;
  return decide(target, p, kSeparable3d, pinned_variant());
}

std::optional<Decision<Fused>> dispatch(const Target& target, const Fused& p) {
  const bool volume = is_volume(p);
  if (volume && !target.cuda()) return std::nullopt;
  return decide(target, p, volume ? kFused3d : kFused, pinned_variant());
}

void run(Call& call, const Target& target, const Direct& p) {
  if (p.peers.any()) {
    const auto* entry_points = entry_points_of_shards(p, axes_of(*part_of(call)));
    if (entry_points) run_shards(call, target, p, *entry_points, pinned_variant());
    return;
  }
  for (const Decision<Direct>& part : dispatch(target, p)) run_checked(call, target, part, wanted_by(p.sums));
}

void run(Call& call, const Target& target, const ReadTiles& p) {
  run_checked(call, target, decide(target, p, kReadTiles, ""));
}

void run(Call& call, const Target& target, const WriteTiles& p) {
  run_checked(call, target, decide(target, p, kWriteTiles, ""));
}

void run(Call& call, const Target& target, const Separable& p) {
  if (p.peers.any()) run_shards(call, target, p, kSeparable2d, pinned_variant());
  else run_checked(call, target, dispatch(target, p), wanted_by(p.sums));
}

void run(Call& call, const Target& target, const Box& p) {
  const char* pinned = depth_pass_pinned() ? "" : pinned_variant();
  if (p.peers.any()) run_shards(call, target, p, kBox, pinned);
  else run_checked(call, target, decide(target, p, kBox, pinned));
}

void run(Call& call, const Target& target, const BoxDepth& p) {
  run_checked(call, target, decide(target, p, kBoxDepth, depth_pass_pinned() ? pinned_variant() : ""));
}

void run(Call& call, const Target& target, const Combine& p) {
  run_checked(call, target, decide(target, p, kCombine, ""));
}

void run(Call& call, const Target& target, const CausalConv& p) {
  run_checked(call, target, decide(target, p, kCausal, pinned_variant()));
}

void run(Call& call, const Target& target, const CausalUpdate& p) {
  run_checked(call, target, decide(target, p, kCausalUpdate, pinned_variant()));
}

bool run_in_one_launch(Call& call, const Target& target, const Fused& p) {
  const auto d = dispatch(target, p);
  if (d && p.wanted) return run_checked(call, target, *d, "fused"), true;
  return d && launch_if_served(call, target, *d);
}

bool serves_shards(const Target& target, const Direct& p, int axes) {
  const auto* entry_points = entry_points_of_shards(p, axes);
  if (!target.cuda() || !entry_points) return false;
  return axes == 2 || decide(target, p.with_channels_read_once(), *entry_points, pinned_variant()).serves();
}

bool serves_shards(const Target& target, const Fused& p) {
  return target.cuda() && !is_volume(p) && decide(target, p, kFused, pinned_variant()).serves();
}

void run_on_shards(Call& call, const Target& target, const Separable& p) {
  run_shards(call, target, p, kSeparable3d, pinned_variant());
}

void run_on_shards(Call& call, const Target& target, const Fused& p) {
  run_shards(call, target, p, kFused, pinned_variant());
}

}  // namespace torch_conv
