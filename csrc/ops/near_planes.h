// Planes of a volume's shards on other GPUs, copied to the shard whose windows cover them.
//
//   reads, a stream aside    copy planes | seams, which read the copies
//   current stream           interior ........................ | goes on
//
// Seams that read them where they lie wait for NVLink, and keep others from computing meanwhile; a few blocks that copy
// do not. Only the seams know of it: what is beside their shard has fewer planes.
#pragma once

#include "ops/split_copies.h"

namespace torch_conv {

class NearPlanes {
 public:
  // Windows of the outputs at the seams cover the last `before` planes of the shard above along `dim`, and the first
  // `behind` of the one below.
  NearPlanes(const Call& call, const Shard& shard, int64_t dim, int64_t before, int64_t behind);
  NearPlanes(const NearPlanes&) = delete;
  NearPlanes& operator=(const NearPlanes&) = delete;

  // The shard with the copies beside it, where there are any.
  const Shard& shard() const { return near_; }
  bool any() const { return any_; }
  // Queues the copies on the stream of the seams, which has waited for those shards. `fresh` as in SplitStreams::begin.
  void bring(const Call& call, void* reads, bool fresh) const;

 private:
  const Shard& far_;
  Shard near_;
  Tensor above_, below_;
  RowCopies copies_;
  bool any_ = false;
};

}  // namespace torch_conv
