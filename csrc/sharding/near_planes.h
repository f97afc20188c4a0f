// Planes of a volume's shards on other GPUs, copied to the shard whose windows cover them.
//
//   reads, a stream aside    copy planes | boundary strips, which read the copies
//   current stream           interior ........................ | goes on
//
// Boundaries that read many planes where they lie wait for NVLink, and keep others from computing meanwhile; the few
// blocks of a copy do not.
#pragma once

#include "sharding/split_copies.h"

namespace torch_conv {

// For kernels on the device of `own`, is it another one's memory? Explanations for GPUs that are not there take every
// shard to lie on one of its own.
inline bool is_far(const Tensor& own, const Tensor* other) {
  return other && (!own.is_cuda() || !same_device(own, *other));
}

class NearPlanes {
 public:
  // All planes stay where they are until they are brought.
  explicit NearPlanes(const Shard& shard);
  NearPlanes(const NearPlanes&) = delete;
  NearPlanes& operator=(const NearPlanes&) = delete;

  // Is it worth it for any?
  bool any() const { return above_.count + below_.count > 0; }
  // Allocates the copies and queues them on the stream of the boundary strips, which has waited for those shards;
  // where there is no memory for them, nothing. `fresh` as in SplitStreams::begin. They live as long as this object.
  void bring(const Call& call, void* reads, bool fresh);
  // The shard with the copies beside it, where there are any.
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
