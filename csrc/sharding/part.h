// The part of an image that one call of an operator computes, and the shard that it belongs to.
#pragma once

#include "graph/signature.h"

namespace torch_conv {

class SplitStreams;

// A shard, its result, and its neighbour shards, which kernels may read in place.
struct Shard {
  const Tensor* input;
  Tensor result;
  const Tensor *above = nullptr, *below = nullptr;
  int64_t before = 0, behind = 0;  // rows of `above` and of `below` that windows cover
  bool done = false;               // the result is computed, boundary strips included
  int64_t first = 0;               // output 0, among the outputs of the whole image
};

// A part of an image along one of its spatial axes.
struct Part {
  int axis;
  int64_t pad, out;    // of the tensor at hand: output 0 starts `pad` before it
  int64_t first;       // output 0, among the outputs of the whole image
  int64_t whole_rows;  // rows of the whole image
  Tensor result;       // receives `out` outputs
  // The shard at hand, then further shards whose windows have the same placement. A kernel family that reads neighbour
  // shards may compute their results and set `done`. Nothing has run for a shard that is not `done`.
  std::vector<Shard*> shards{};
};

// A part along batch or channels.
struct Slice {
  int64_t dim_from_end, begin, size;  // dim_from_end counts from the last axis, which is 1
};

// The place of a call among the calls on all shards of an image.
struct OnShards {
  Part* part = nullptr;                        // the outputs to compute; null: all
  const Slice* slice = nullptr;                // the input is this part along batch or channels
  const Footprint* whole_footprint = nullptr;  // of the whole image, whose decisions a part takes over
  SplitStreams* streams = nullptr;             // of all these calls
};

// Nothing is set where the input is no shard.
inline const OnShards& shards_of(const Call& call) {
  static constexpr OnShards kNone;
  return call.on_shards ? *call.on_shards : kNone;
}
inline Part* part_of(const Call& call) { return shards_of(call).part; }

// The call on one of the shards of `call`.
inline Call call_on(const Call& call, OnShards& shards) {
  return {.op = call.op,
          .purpose = call.purpose,
          .on_shards = &shards,
          .lines = call.lines,
          .steered = call.steered,
          .graph = call.graph};
}

// The signature of a call on a whole image or on a part of one.
inline Signature signature_of(const char* op, Signature::Form form, const Call& call) {
  Signature s(op, form, call);
  const auto [part, slice, whole, streams] = shards_of(call);
  s.add(slice != nullptr), s.add(part != nullptr), s.add(whole != nullptr);
  if (slice) s.add(slice->dim_from_end), s.add(slice->begin), s.add(slice->size);
  if (const Part* p = part)
    s.add(int64_t(p->axis)), s.add(p->pad), s.add(p->out), s.add(p->first), s.add(p->whole_rows), s.add(p->result);
  if (whole) s.add(whole->by_torch), s.add(int64_t(whole->algorithm)), s.add(int64_t(whole->sums));
  return s;
}

}  // namespace torch_conv
