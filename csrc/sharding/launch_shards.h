// Shards with neighbours, by kernel families that read those where they lie.
#pragma once

#include <functional>

#include "graph/record_launch.h"
#include "sharding/boundaries.h"
#include "sharding/near_planes.h"
#include "sharding/split_streams.h"
#include "tensors/images.h"

namespace torch_conv {

// `axes`: of an image cut along h two, of a volume cut along d three.
inline int axes_of(const Part& part) { return kAxes - part.axis; }

inline Peers peers(const Shard& shard, Dtype dtype, int axes) {
  const auto image = [&](const Tensor* t) {
    const auto view = t ? merge_leading(*t, dtype, axes) : std::nullopt;
    return view ? *view : Image{};
  };
  return {image(shard.above), image(shard.below)};
}

// Does a problem hold no memory of a device but its images?
inline bool on_any_device(const Direct& p) { return p.taps.on_host && !p.bias; }
inline bool on_any_device(const Separable& p) {
  return p.taps_x.on_host && p.taps_y.on_host && (p.kd == 1 || p.taps_z.on_host);
}
inline bool on_any_device(const Box&) { return true; }

inline bool on_any_device(const Fused& p) {
  const auto on_host = [&](const Stage& s) {
    const auto stands = [&](const Taps* taps) {
      return std::all_of(taps, taps + s.windows, std::mem_fn(&Taps::on_host));
    };
    return stands(s.taps_x) && stands(s.taps_y);
  };
  return std::all_of(p.stages, p.stages + p.count, on_host);
}

// One channel expanded to many, each with a window of its own: one input channel with many outputs. It is read less
// often, and bulk copies take no stride of 0.
inline Direct with_channels_read_once(Direct p) {
  const auto expanded = [](const Image& x) { return x.stride_c == 0; };
  if (p.in.c > 1 && expanded(p.in) && p.peers.all(expanded) && p.groups == p.in.c && p.out.c == p.in.c)
    p.in.c = p.groups = p.peers.above.c = p.peers.below.c = 1;
  return p;
}
template <typename Problem>
const Problem& with_channels_read_once(const Problem& p) {
  return p;
}

// The images of a problem become a further shard's. False: they lie as no kernel has them.
template <typename Problem>
bool set_images(Problem& p, const Shard& shard, const std::optional<Image>& out, int axes) {
  const auto in = merge_leading(*shard.own, p.in.dtype, axes);
  if (!in || !out) return false;
  p.in = *in, p.out = *out, p.peers = peers(shard, p.in.dtype, axes);
  return true;
}
template <typename Problem>
bool set_images(Problem& p, const Shard& shard, int axes) {
  return set_images(p, shard, merge_leading(shard.result, p.out.dtype, axes), axes);
}
inline bool set_images(Box& p, const Shard& shard, int axes) {
  p.first_row = shard.first;
  return set_images(p, shard, merge_leading(shard.result, p.out.dtype, axes), axes);
}
// Several outputs stand in a dimension of their own before the spatial axes.
inline bool set_images(Fused& p, const Shard& shard, int axes) {
  const int64_t dim = shard.result.dim() - axes - 1;
  const bool several = shard.result.dim() > shard.own->dim();
  if (several) p.stride_output = shard.result.stride(dim);
  const Tensor first = several ? torch::stable::select(shard.result, dim, 0) : shard.result;
  return set_images(p, shard, merge_leading(first, p.out.dtype, axes), axes);
}

// Can a problem be cut at its boundaries? A chain cannot: a Fused has no pad that says where a piece's windows begin.
template <typename Problem>
constexpr bool kHasBoundaries = true;
template <>
inline constexpr bool kHasBoundaries<Fused> = false;

// What a shard with neighbours is filtered by: the interior, and `aside` the boundary strips, which read other shards;
// or one for all.
template <typename Problem>
struct Piece {
  Decision<Problem> decision;
  bool aside;
  Kernels kernels{};
};

// The pieces' plans, in the way that is fastest; none where the family cannot.
template <typename Problem>
std::vector<Piece<Problem>> pieces_of(const Call& call, const Target& target, const Shard& shard, const Problem& p,
                                      const EntryPoints<Problem>& entry_points, const char* pinned) {
  std::vector<Piece<Problem>> pieces;
  const auto add = [&](const Problem& part, bool aside) {
    pieces.push_back({decide(target, part, entry_points, pinned), aside});
    return pieces.back().decision.serves() && pieces.back().decision.plan->scratch_bytes == 0;
  };
  const bool volumes = axes_of(*call.part) == 3;
  const Problem whole = volumes ? with_channels_read_once(p) : p;
  bool worth = true;
  int64_t least = 0;
  if (volumes) {  // the plan for the whole shard says how deep its boundary strips are to be
    if (!add(whole, false)) return {};
    least = pieces[0].decision.plan->boundary_d;
    worth = least > 0 && (is_far(*shard.own, shard.above) || is_far(*shard.own, shard.below));
  }
  if constexpr (kHasBoundaries<Problem>) {
    if (call.streams->apart(worth)) {
      std::vector<Piece<Problem>> together = std::move(pieces);
      pieces.clear();
      const Boundaries<Problem> boundaries = Boundaries<Problem>::of(whole, volumes, least);
      const auto empty = [](const Problem& part) { return part.out.h == 0 || part.out.d == 0; };
      if ((empty(boundaries.interior) || add(boundaries.interior, false)) &&
          (empty(boundaries.above) || add(boundaries.above, true)) &&
          (empty(boundaries.below) || add(boundaries.below, true)))
        return pieces;
      return together;  // of images none: strips, whose interior waits for nobody
    }
  }
  if (!volumes && !add(whole, false)) return {};
  return pieces;
}

// Boundaries of a volume read copies of the neighbours' planes, if that is worth it. Their plans are those for the
// originals, so copies, which are dense, must lie as those do; one channel that a kernel takes for many is one in all
// shards. `near` owns the copies.
template <typename Problem>
void bring_planes(Call& call, const Shard& shard, const Problem& p, void* reads, bool fresh,
                  std::optional<NearPlanes>& near, std::vector<Piece<Problem>>& pieces) {
  const bool dense = p.in.stride_w == 1 && p.in.stride_h == p.in.w && p.in.h > 1;
  if (!dense || pieces[0].decision.problem.in.c != p.in.c) return;
  near.emplace(shard);
  if (!near->any()) return;
  if (!call.runs()) call.explain("its boundary strips read copies of other GPUs' planes instead, which are made aside");
  near->bring(call, reads, fresh);
  const Peers copies = peers(near->shard(), p.in.dtype, 3);
  for (Piece<Problem>& piece : pieces) {
    Peers& read = piece.decision.problem.peers;
    if (read.above.data) read.above = copies.above;
    if (read.below.data) read.below = copies.below;
  }
}

// Records the same in the graph of the call on all shards. `fresh` as in SplitStreams::begin.
template <typename Problem>
void record(LaunchGraph& graph, const Shard& shard, const std::vector<Piece<Problem>>& pieces, bool apart, bool fresh) {
  const int own = graph.index_of(*shard.own);
  const std::vector<int> owners = graph.indices_of({shard.above, shard.below});
  graph.guard([own, owners](const std::vector<Tensor>& given) {
    const auto reads = [&](int i) { return can_read(given[own], given[i]); };
    return std::all_of(owners.begin(), owners.end(), reads);
  });
  std::vector<std::pair<Launch<Problem>, bool>> launches;
  for (const Piece<Problem>& piece : pieces) launches.push_back({{graph, piece.decision, piece.kernels}, piece.aside});
  graph.record([own, owners, launches, apart, fresh, device = shard.own->get_device_index()](Replay& r) {
    const cuda::OnDevice current(device);
    void* const reads = r.begin(own, owners, apart, fresh);
    void* const stream = apart ? cuda::current_stream(device) : reads;
    for (const auto& [launch, aside] : launches) launch.on_cuda(r, aside ? reads : stream, nullptr);
    r.streams->end(r.tensor(own), apart);
  });
}

template <typename Problem>
bool run_shard(Call& call, const Target& target, const Shard& shard, const Problem& p,
               const EntryPoints<Problem>& entry_points, const char* pinned) {
  std::vector<Piece<Problem>> pieces = pieces_of(call, target, shard, p, entry_points, pinned);
  if (pieces.empty()) return false;
  for (Piece<Problem>& piece : pieces) piece.kernels = load(call, target, *piece.decision.plan);
  SplitStreams& streams = *call.streams;
  const bool apart = pieces.back().aside;
  const bool fresh = !on_any_device(p);  // taps in device memory may just have been put there
  void* const reads = streams.begin(*shard.own, {shard.above, shard.below}, apart, fresh);
  std::optional<NearPlanes> near;
  if constexpr (kHasBoundaries<Problem>)
    if (apart && axes_of(*call.part) == 3) bring_planes(call, shard, p, reads, fresh, near, pieces);
  for (const Piece<Problem>& piece : pieces) {
    const Decision<Problem>& d = piece.decision;
    if (!only_explain(call, target, *d.plan))
      entry_points.run_cuda(d.problem, *d.plan, {piece.aside ? reads : target.stream(), nullptr, piece.kernels.data()});
  }
  streams.end(*shard.own, apart);
  if (call.graph) record(*call.graph, shard, pieces, apart, fresh);
  return true;
}

// The shard at hand, and the further ones if its problem is theirs but for the images: that saves them the call. If the
// kernel family cannot, nothing runs, and the shards are not `done`.
template <typename Problem>
void run_shards(Call& call, const Target& target, const Problem& p, const EntryPoints<Problem>& entry_points,
                const char* pinned) {
  if (!target.cuda()) return;
  const std::vector<Shard*>& shards = call.part->shards;
  const int axes = axes_of(*call.part);
  shards[0]->done = run_shard(call, target, *shards[0], p, entry_points, pinned);
  if (!shards[0]->done || !on_any_device(p)) return;
  for (size_t i = 1; i < shards.size(); ++i) {
    Shard& shard = *shards[i];
    const Target there(call, *shard.own);
    Problem q = p;
    if (set_images(q, shard, axes)) shard.done = run_shard(call, there, shard, q, entry_points, pinned);
  }
}

}  // namespace torch_conv
