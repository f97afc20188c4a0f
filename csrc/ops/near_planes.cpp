#include "ops/near_planes.h"

#include "ops/images.h"
#include "ops/split_streams.h"
#include "ops/steps.h"

namespace torch_conv {

namespace {

// A single plane is read where it lies. 1024^3 on four NVIDIA H100, us read there | copied: 3x3x3, one plane on either
// side, 802 | 810; separable 9, four planes, 1006 | 966.
constexpr int64_t kMostReadThere = 1;

}  // namespace

NearPlanes::NearPlanes(const Call& call, const Shard& shard, int64_t dim, int64_t before, int64_t behind)
    : far_(shard), near_(shard) {
  const auto bring = [&](const Tensor*& beside, Tensor& copy, bool is_above) {
    const int64_t count = is_above ? before : behind;
    if (!beside || count <= kMostReadThere || same_device(*beside, *shard.own)) return;
    Sizes sizes = sizes_of(*beside);
    const int64_t first = is_above ? sizes[dim] - count : 0;
    sizes[dim] = count;
    copy = allocate(call, *shard.own, sizes, beside->scalar_type());
    copies_.add(copy, 0, *beside, first, count, dim);
    beside = &copy, any_ = true;
  };
  bring(near_.above, above_, true);
  bring(near_.below, below_, false);
}

void NearPlanes::bring(const Call& call, void* reads, bool fresh) const {
  const CurrentStream side(*far_.own, reads);
  if (call.steps) {
    const int own = call.steps->index_of(*far_.own);
    std::vector<int> lenders;
    for (const Tensor* beside : {far_.above, far_.below})
      if (beside) lenders.push_back(call.steps->index_of(*beside));
    call.steps->then([own, lenders, fresh](Replay& r) {
      std::vector<const Tensor*> others;
      for (int i : lenders) others.push_back(&r.tensor(i));
      r.side.emplace(r.tensor(own), r.streams->begin(r.tensor(own), others, true, fresh));
    });
  }
  copies_.run(call);
  if (call.steps) call.steps->then([](Replay& r) { r.side.reset(); });
}

}  // namespace torch_conv
