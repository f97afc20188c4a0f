// Planes of neighbour shards on other GPUs, copied to the GPU of the shard whose windows cover the planes.
//
//   side stream       copy planes | boundary strips, which read the copies
//   current stream    interior ........................ | waits for the side stream
//
// Blocks that read many planes of another GPU in place wait for NVLink and occupy multiprocessors meanwhile. A copy
// occupies few multiprocessors.
#pragma once

#include "sharding/part.h"
#include "sharding/split_copies.h"

namespace torch_conv {

// Whether `other` is on another device than `reader`. In an explanation for GPUs that are not there, each shard has a
// GPU.
inline bool is_far(const Tensor& reader, const Tensor* other) {
  return other && (!reader.is_cuda() || !same_device(reader, *other));
}

class NearPlanes {
 public:
  explicit NearPlanes(const Shard& shard);
  NearPlanes(const NearPlanes&) = delete;
  NearPlanes& operator=(const NearPlanes&) = delete;

  // Whether a copy is worth its time on either side.
  bool any() const { return above_.count + below_.count > 0; }
  // Allocates the copies and queues them on `side_stream`, which has waited for the neighbour shards. Without memory
  // for the copies the shard keeps its neighbours. `after_queued` as in SplitStreams::begin. The copies live as long as
  // this object.
  void copy(const Call& call, void* side_stream, bool after_queued);
  // The shard, with the copies as its neighbours.
  const Shard& shard() const { return near_; }

 private:
  struct Planes {
    int64_t first = 0, count = 0;  // none: no copy
    Tensor copy{};
  };
  void allocate_copy(const Call& call, const Tensor*& peers, Planes& planes, RowCopies& copies) const;

  const Shard& far_;
  Shard near_;
  int64_t dim_;  // of planes
  Planes above_, below_;
};

}  // namespace torch_conv
