// Copies rows of shards into other tensors.
#pragma once

#include <optional>
#include <vector>

#include "runtime/context.h"
#include "sharding/part.h"

namespace torch_conv {

// Copies rows [first, first + count) of `from` along `dim` to the rows of `to` from `at` on.
struct RowCopy {
  Tensor to, from;
  int64_t at, first, count, dim;
};

// The copy of rows [first, first + count) of `from` along `dim`, as blocks of bytes. `to` is the address of a dense
// tensor of these rows, where the device of `from` must be able to write. None if the memory layout differs.
std::optional<cuda::BlockCopy> dense_blocks_of(void* to, const Tensor& from, int64_t first, int64_t count, int64_t dim);

class RowCopies {
 public:
  void add(const RowCopy& copy);
  // Makes the copies on torch's current stream of the targets' device, and records them. One launch makes all copies
  // whose sources that device can read. A call that only prepares loads the kernel.
  void run(const Call& call) const;

 private:
  std::vector<RowCopy> copies_;
};

// A copy of a dense tensor on another CUDA device, on torch's current stream of that device.
Tensor copy_of(const Tensor& source, Device device);

// Whether `other` is on another device than `reader`. In an explanation for GPUs that are not there, each shard has a
// GPU.
inline bool is_far(const Tensor& reader, const Tensor* other) {
  return other && (!reader.is_cuda() || !same_device(reader, *other));
}

// Planes of neighbour shards on other GPUs, copied to the GPU of the shard whose windows cover the planes.
//
//   side stream       copy planes | boundary strips, which read the copies
//   current stream    interior ........................ | waits for the side stream
//
// Blocks that read many planes of another GPU in place wait for NVLink and occupy multiprocessors meanwhile. A copy
// occupies few multiprocessors.
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
