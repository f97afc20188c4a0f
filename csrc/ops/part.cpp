#include "ops/part.h"

#include "ops/rooms.h"

namespace torch_conv {

namespace {

thread_local Reach* probe = nullptr;
thread_local Part* part = nullptr;

}  // namespace

Probe::Probe(Reach& reach) : before_(probe) { probe = &reach; }
Probe::~Probe() { probe = before_; }
CurrentPart::CurrentPart(Part& of) : before_(part) { part = &of; }
CurrentPart::~CurrentPart() { part = before_; }
Part* current_part() { return part; }
Reach* current_probe() { return probe; }

void settle(Geometry& g, const AxisReach (&reach)[kAxes]) {
  if (probe) {
    std::copy(std::begin(reach), std::end(reach), probe->axis);
    probe->border = g.place.border;
  }
  if (!part) return;
  int64_t* const pads[kAxes] = {&g.place.pad_z, &g.place.pad_y, &g.place.pad_x};
  int64_t* const outs[kAxes] = {&g.out.d, &g.out.h, &g.out.w};
  *pads[part->axis] = part->pad;
  *outs[part->axis] = part->out;
}

bool probing(const Sizes& sizes, ScalarType dtype, bool contiguous) {
  if (probe) probe->result = sizes, probe->dtype = dtype, probe->contiguous = contiguous;
  return probe != nullptr;
}

Beside settle_neighbours(const Image& in, int axes) {
  return part && axes == 2 && !part->shards.empty() ? beside(*part->shards[0], in.dtype) : Beside{};
}

Beside beside(const Shard& shard, Dtype dtype) {
  const auto image = [&](const Tensor* t) {
    const auto view = t ? merge_leading(*t, dtype, 2) : std::nullopt;
    return view ? *view : Image{};
  };
  return {image(shard.above), image(shard.below)};
}

namespace {

// For torch_conv.distributed, which asks how far a call reaches before it fetches rows of other processes.
thread_local Reach asked;

void reach_begin() {
  asked = {};
  probe = &asked;
}

Sizes reach_end() {
  probe = nullptr;
  Sizes numbers;
  for (const AxisReach& r : asked.axis) numbers.insert(numbers.end(), {r.pad, r.length, r.stride, r.middle, r.out});
  numbers.push_back(int64_t(asked.border));
  return numbers;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CompositeExplicitAutograd, m) {
  m.impl("_reach_begin", TORCH_BOX(&reach_begin));
  m.impl("_reach_end", TORCH_BOX(&reach_end));
}

}  // namespace torch_conv
