// Launches for shards, by kernel families that read the neighbour shards in place.
#pragma once

#include <algorithm>

#include "graph/decision.h"
#include "sharding/split_copies.h"
#include "sharding/split_streams.h"
#include "tensors/images.h"

namespace torch_conv {

// The spatial axes: 2 of an image that is cut along h, 3 of a volume that is cut along d.
inline int axes_of(const Part& part) { return kAxes - part.axis; }

inline Peers peers(const Shard& shard, Dtype dtype, int axes) {
  const auto image = [&](const Tensor* t) {
    const auto view = t ? merge_leading(*t, dtype, axes) : std::nullopt;
    return view ? *view : Image{};
  };
  return {image(shard.above), image(shard.below)};
}

// The members of one axis in Image and in Placement.
struct AxisMembers {
  int64_t Image::*size, Image::*step;
  int64_t Placement::*pad, Placement::*stride, Placement::*dilation;
};
constexpr AxisMembers kRows{&Image::h, &Image::stride_h, &Placement::pad_y, &Placement::stride_y,
                            &Placement::dilation_y};
constexpr AxisMembers kPlanes{&Image::d, &Image::stride_d, &Placement::pad_z, &Placement::stride_z,
                              &Placement::dilation_z};

// The problem for the outputs [begin, end) along an axis. Its input begins at row `first`: no window of these
// outputs covers an earlier row.
template <typename Problem>
Problem rows_of_problem(const Problem& p, const AxisMembers& axis, int64_t begin, int64_t end, int64_t first) {
  const auto below = [&](const Image& x, int64_t rows) {
    return static_cast<char*>(x.data) + rows * x.*axis.step * size_of(x.dtype);
  };
  Problem q = p;
  q.out.data = below(p.out, begin), q.out.*axis.size = end - begin;
  q.in.data = below(p.in, first), q.in.*axis.size = p.in.*axis.size - first;
  q.place.*axis.pad = p.place.*axis.pad + first - begin * p.place.*axis.stride;
  if constexpr (kCountsRows<Problem>) q.first_row += &axis == &kRows ? begin : 0;
  return q;
}

// A problem on a shard, cut into the interior, which reads no other shard, and the boundary strips, which do.
template <typename Problem>
struct Boundaries {
  Problem interior, above, below;  // some may be without outputs

  // `volumes`: the image is cut along d, else along h. A boundary strip has at least `least` outputs, if the shard has
  // enough of them.
  static Boundaries of(const Problem& p, bool volumes, int64_t least) {
    const AxisMembers& axis = volumes ? kPlanes : kRows;
    const int64_t pad = p.place.*axis.pad, stride = p.place.*axis.stride, in = p.in.*axis.size, out = p.out.*axis.size;
    const int64_t length = ((volumes ? p.kd : p.kh) - 1) * p.place.*axis.dilation + 1;
    // Outputs before `top` may read the shard above; outputs from `bottom` on may read the shard below.
    const int64_t top = p.peers.above.data ? std::min(out, std::max(least, ceil_div(pad, stride))) : 0;
    const int64_t fitting = in + pad - length, last = std::max<int64_t>(0, out - least);
    const int64_t bottom = !p.peers.below.data ? out : fitting < 0 ? 0 : std::min(last, fitting / stride + 1);
    const int64_t middle = std::max(top, bottom);  // a shard thinner than its window has no interior
    // The input of each problem begins at the first row of its windows, so that no tile is outside the image.
    const auto first = [&](int64_t begin) { return std::max<int64_t>(0, begin * stride - pad); };
    Boundaries s{rows_of_problem(p, axis, top, middle, first(top)), rows_of_problem(p, axis, 0, top, 0),
                 rows_of_problem(p, axis, middle, out, first(middle))};
    s.interior.peers = {};
    s.below.peers.above = {};
    return s;
  }
};

// Sets the images of a problem to another shard's. False: their memory layout serves no kernel.
template <typename Problem>
bool set_images(Problem& p, const Shard& shard, int axes) {
  Tensor result = shard.result;
  if constexpr (kCountsRows<Problem>) p.first_row = shard.first;
  if constexpr (kHasSeveralOutputs<Problem>) {
    if (result.dim() > shard.input->dim()) {  // several outputs, in a dimension before the spatial axes
      const int64_t dim = result.dim() - axes - 1;
      p.stride_output = result.stride(dim), result = torch::stable::select(result, dim, 0);
    }
  }
  const auto in = merge_leading(*shard.input, p.in.dtype, axes), out = merge_leading(result, p.out.dtype, axes);
  if (!in || !out) return false;
  p.in = *in, p.out = *out, p.peers = peers(shard, p.in.dtype, axes);
  return true;
}

// One launch for a shard: for the whole shard, for its interior, or for a boundary strip, which reads other shards.
template <typename Problem>
struct ShardLaunch {
  Decision<Problem> decision;
  bool on_side;  // on the side stream: a boundary strip
  Kernels kernels{};
};

// The fastest launches for a shard; none if the family does not serve the shard.
template <typename Problem>
std::vector<ShardLaunch<Problem>> launches_for(const Call& call, const Target& target, const Shard& shard,
                                               const Problem& p, const EntryPoints<Problem>& entry_points,
                                               const char* pinned) {
  std::vector<ShardLaunch<Problem>> launches;
  const auto add = [&](const Problem& part, bool on_side) {
    launches.push_back({decide(target, part, entry_points, pinned), on_side});
    return launches.back().decision.serves() && launches.back().decision.plan->scratch_bytes == 0;
  };
  const bool volumes = axes_of(*part_of(call)) == 3;
  Problem whole_shard = p;
  if constexpr (std::is_same_v<Problem, Direct>)
    if (volumes) whole_shard = p.with_channels_read_once();
  bool two_are_faster = true;
  int64_t least = 0;
  if (volumes) {  // the plan for the whole shard says how deep its boundary strips should be
    if (!add(whole_shard, false)) return {};
    least = launches[0].decision.plan->boundary_d;
    two_are_faster = least > 0 && (is_far(*shard.input, shard.above) || is_far(*shard.input, shard.below));
  }
  if constexpr (kHasBoundaries<Problem>) {
    if (shards_of(call).streams->two_launches(two_are_faster)) {
      std::vector<ShardLaunch<Problem>> one_launch = std::move(launches);
      launches.clear();
      const Boundaries<Problem> boundaries = Boundaries<Problem>::of(whole_shard, volumes, least);
      const auto empty = [](const Problem& part) { return part.out.h == 0 || part.out.d == 0; };
      if ((empty(boundaries.interior) || add(boundaries.interior, false)) &&
          (empty(boundaries.above) || add(boundaries.above, true)) &&
          (empty(boundaries.below) || add(boundaries.below, true)))
        return launches;
      return one_launch;  // none for images: their boundary strips read copies, and the interior waits for no device
    }
  }
  if (!volumes && !add(whole_shard, false)) return {};
  return launches;
}

// Lets boundary strips of a volume read copies of the neighbours' planes, where that is faster. The plans are the plans
// for the originals. Copies are dense, so the originals must be dense, too, with the same number of channels. `near`
// owns the copies.
template <typename Problem>
void copy_near_planes(Call& call, const Shard& shard, const Problem& p, void* side_stream, bool after_queued,
                      std::optional<NearPlanes>& near, std::vector<ShardLaunch<Problem>>& launches) {
  const bool dense = p.in.stride_w == 1 && p.in.stride_h == p.in.w && p.in.h > 1;
  if (!dense || launches[0].decision.problem.in.c != p.in.c) return;
  near.emplace(shard);
  if (!near->any()) return;
  if (!call.runs())
    call.explain("its boundary strips read copies of other GPUs' planes instead, which are made on the side stream");
  near->copy(call, side_stream, after_queued);
  const Peers copies = peers(near->shard(), p.in.dtype, 3);
  for (ShardLaunch<Problem>& launch : launches) {
    Peers& read = launch.decision.problem.peers;
    if (read.above.data) read.above = copies.above;
    if (read.below.data) read.below = copies.below;
  }
}

// Records the launches in the graph of the call on all shards. `after_queued` as in SplitStreams::begin.
template <typename Problem>
void record(LaunchGraph& graph, const Shard& shard, const std::vector<ShardLaunch<Problem>>& launches, bool on_side,
            bool after_queued) {
  const int input = graph.index_of(*shard.input);
  const std::vector<int> owners = graph.indices_of({shard.above, shard.below});
  graph.guard([input, owners](const std::vector<Tensor>& given) {
    const auto reads = [&](int i) { return can_read(given[input], given[i]); };
    return std::all_of(owners.begin(), owners.end(), reads);
  });
  std::vector<std::pair<Launch<Problem>, bool>> nodes;
  for (const ShardLaunch<Problem>& l : launches) nodes.push_back({{graph, l.decision, l.kernels}, l.on_side});
  graph.record([input, owners, nodes, on_side, after_queued, device = shard.input->get_device_index()](Replay& r) {
    const cuda::OnDevice current(device);
    void* const reader = SplitStreams::begin(r, input, owners, on_side, after_queued);
    void* const stream = on_side ? cuda::current_stream(device) : reader;
    for (const auto& [node, is_strip] : nodes) node.run(r, is_strip ? reader : stream, nullptr);
    r.on_shards->streams.end(r.tensor(input), on_side);
  });
}

template <typename Problem>
bool run_shard(Call& call, const Target& target, const Shard& shard, const Problem& p,
               const EntryPoints<Problem>& entry_points, const char* pinned) {
  std::vector<ShardLaunch<Problem>> launches = launches_for(call, target, shard, p, entry_points, pinned);
  if (launches.empty()) return false;
  for (ShardLaunch<Problem>& launch : launches) launch.kernels = load(call, target, *launch.decision.plan);
  SplitStreams& streams = *shards_of(call).streams;
  const bool on_side = launches.back().on_side;
  const bool after_queued = !p.on_any_device();  // the current stream may just have queued the copy of taps
  void* const reader = streams.begin(*shard.input, {shard.above, shard.below}, on_side, after_queued);
  std::optional<NearPlanes> near;
  if constexpr (kHasBoundaries<Problem>)
    if (on_side && axes_of(*part_of(call)) == 3) copy_near_planes(call, shard, p, reader, after_queued, near, launches);
  for (const ShardLaunch<Problem>& launch : launches) {
    const Decision<Problem>& d = launch.decision;
    void* const stream = launch.on_side ? reader : target.stream();
    if (!only_explain(call, target, *d.plan)) run_plan(d.problem, *d.plan, {stream, nullptr, launch.kernels.data()});
  }
  streams.end(*shard.input, on_side);
  if (call.graph) record(*call.graph, shard, launches, on_side, after_queued);
  return true;
}

// Runs the shard at hand, and the further shards if their problems differ by the images alone. Such shards need no
// further calls. If the kernel family does not serve a shard, nothing runs, and the shard is not `done`.
template <typename Problem>
void run_shards(Call& call, const Target& target, const Problem& p, const EntryPoints<Problem>& entry_points,
                const char* pinned) {
  if (!target.cuda()) return;
  const std::vector<Shard*>& shards = part_of(call)->shards;
  const int axes = axes_of(*part_of(call));
  shards[0]->done = run_shard(call, target, *shards[0], p, entry_points, pinned);
  if (!shards[0]->done || !p.on_any_device()) return;
  for (size_t i = 1; i < shards.size(); ++i) {
    Shard& shard = *shards[i];
    const Target there(call, *shard.input);
    Problem q = p;
    if (set_images(q, shard, axes)) shard.done = run_shard(call, there, shard, q, entry_points, pinned);
  }
}

}  // namespace torch_conv
