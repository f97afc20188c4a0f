// The part of an image that one call of an operator computes, and the shard that it belongs to.
#pragma once

#include "graph/signature.h"

namespace torch_conv {

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

// A call with the purpose of `call`, on a part of the image.
inline Call call_on(const Call& call, Part* part) {
  return {.op = call.op,
          .purpose = call.purpose,
          .part = part,
          .is_shard = true,
          .whole_footprint = call.whole_footprint,
          .lines = call.lines};
}
inline Call call_on(const Call& call, const Slice* slice) {
  return {.op = call.op,
          .purpose = call.purpose,
          .slice = slice,
          .is_shard = true,
          .whole_footprint = call.whole_footprint,
          .lines = call.lines};
}

// The signature of a call on a whole image or on a part of one.
inline Signature signature_of(const char* op, Signature::Form form, const Call& call) {
  Signature s(op, form, call);
  s.add(call.slice != nullptr), s.add(call.part != nullptr);
  if (const Slice* slice = call.slice) s.add(slice->dim_from_end), s.add(slice->begin), s.add(slice->size);
  if (const Part* p = call.part)
    s.add(int64_t(p->axis)), s.add(p->pad), s.add(p->out), s.add(p->first), s.add(p->whole_rows), s.add(p->result);
  return s;
}

}  // namespace torch_conv
