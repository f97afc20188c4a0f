#include "sharding/near_planes.h"

#include "graph/allocate.h"
#include "graph/launch_graph.h"
#include "sharding/split_streams.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

// So many planes are read where they lie, which takes no memory. 1024^3 on four NVIDIA H100, us read there | copied:
// one plane on either side (3x3x3) 802 | 806, two (separable 5) 900 | 906, three 953 | 959, four 1009 | 976, five 1167
// | 1111.
constexpr int64_t kMostReadThere = 3;

}  // namespace

NearPlanes::NearPlanes(const Shard& shard) : far_(shard), near_(shard), dim_(shard.own->dim() - kAxes) {
  if (is_far(*shard.own, shard.above) && shard.before > kMostReadThere)
    above_ = {shard.above->size(dim_) - shard.before, shard.before};
  if (is_far(*shard.own, shard.below) && shard.behind > kMostReadThere) below_ = {0, shard.behind};
}

void NearPlanes::allocate_copy(const Call& call, const Tensor*& peers, Planes& planes, RowCopies& copies) const {
  if (planes.count == 0) return;
  Sizes sizes = sizes_of(*peers);
  sizes[dim_] = planes.count;
  planes.copy = allocate(call, *far_.own, sizes, peers->scalar_type());
  copies.add(planes.copy, 0, *peers, planes.first, planes.count, dim_);
  peers = &planes.copy;
}

void NearPlanes::bring(const Call& call, void* reads, bool fresh) {
  // Memory of the current stream may still be read by what that has queued since the one aside waited for it.
  const CurrentStream side(*far_.own, reads);
  if (call.graph)
    call.graph->record([own = call.graph->index_of(*far_.own),
                        owners = call.graph->indices_of({far_.above, far_.below}),
                        fresh](Replay& r) { r.side.emplace(r.tensor(own), r.begin(own, owners, true, fresh)); });
  RowCopies copies;
  try {
    allocate_copy(call, near_.above, above_, copies);
    allocate_copy(call, near_.below, below_, copies);
  } catch (const OutOfMemory&) {  // they are read where they lie
    near_.above = far_.above, near_.below = far_.below;
    if (call.graph) call.graph->invalidate();
    return;
  }
  copies.run(call);
  if (call.graph) call.graph->record([](Replay& r) { r.side.reset(); });
}

}  // namespace torch_conv
