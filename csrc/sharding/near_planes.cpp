#include "sharding/near_planes.h"

#include "graph/allocate.h"
#include "graph/launch_graph.h"
#include "sharding/split_streams.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

// Up to this number of planes are read in place, which takes no memory. 1024^3 on four NVIDIA H100, us:
//
//     planes on either side     1     2     3      4      5
//     read in place           802   900   953   1009   1167
//     copied                  806   906   959    976   1111
//
constexpr int64_t kMostReadInPlace = 3;

}  // namespace

NearPlanes::NearPlanes(const Shard& shard) : far_(shard), near_(shard), dim_(shard.input->dim() - kAxes) {
  if (is_far(*shard.input, shard.above) && shard.before > kMostReadInPlace)
    above_ = {shard.above->size(dim_) - shard.before, shard.before};
  if (is_far(*shard.input, shard.below) && shard.behind > kMostReadInPlace) below_ = {0, shard.behind};
}

void NearPlanes::allocate_copy(const Call& call, const Tensor*& peers, Planes& planes, RowCopies& copies) const {
  if (planes.count == 0) return;
  Sizes sizes = sizes_of(*peers);
  sizes[dim_] = planes.count;
  planes.copy = allocate(call, *far_.input, sizes, peers->scalar_type());
  copies.add({planes.copy, *peers, 0, planes.first, planes.count, dim_});
  peers = &planes.copy;
}

void NearPlanes::copy(const Call& call, void* side_stream, bool after_queued) {
  // The copies are memory of the side stream, because the current stream may still read memory that it has freed.
  const CurrentStream side(*far_.input, side_stream);
  if (LaunchGraph* graph = call.graph)
    record_side_stream(*graph, graph->index_of(*far_.input), graph->indices_of({far_.above, far_.below}), after_queued);
  RowCopies copies;
  try {
    allocate_copy(call, near_.above, above_, copies);
    allocate_copy(call, near_.below, below_, copies);
  } catch (const OutOfMemory&) {  // kernels read the planes in place
    near_.above = far_.above, near_.below = far_.below;
    if (call.graph) call.graph->invalidate();
    return;
  }
  copies.run(call);
  if (call.graph) call.graph->record([](Replay& r) { r.side.reset(); });
}

}  // namespace torch_conv
