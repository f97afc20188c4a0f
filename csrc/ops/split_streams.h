// The CUDA devices of one call on shards: whose streams wait for whom. On the CPU nothing waits, and copies are done
// when they return.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/rooms.h"

namespace torch_conv {

class SplitStreams {
 public:
  // Marks what the current streams of the shards' devices have queued: what the shards are made of.
  explicit SplitStreams(const std::vector<Tensor>& shards);

  // Kernels that are launched on the device of `reader` from now on read the other shard.
  void read(const Tensor& reader, const Tensor& other);
  // Rows [first, first + rows) of `from` along `dim` into `to`, from row `at` on, beside what the devices' current
  // streams do. `to` was allocated before this object was made, unless `fresh`.
  void copy(const Tensor& to, int64_t at, const Tensor& from, int64_t first, int64_t rows, int64_t dim, bool fresh);
  // The current stream of the device goes on after its copies.
  void join_copies(const Tensor& on);
  // No device's current stream goes on before the others have read its shards.
  void finish();

 private:
  struct Device {
    int index;
    void* stream;                            // torch's current one
    void* ready;                             // event: the shards are made
    void* side = nullptr;                    // the stream of its copies
    bool copying = false;                    // copies were queued since the last join
    std::vector<int> lenders, side_lenders;  // devices whose memory its streams read
  };
  Device& device_of(const Tensor& t);
  static bool has(const std::vector<int>& lenders, const Device& d) {
    return std::find(lenders.begin(), lenders.end(), d.index) != lenders.end();
  }
  void wait_once(Device& reader, void* stream, std::vector<int>& lenders, const Device& lender);

  std::vector<Device> devices_;
};

// May kernels on the device of `reader` read the memory of `other`?
bool can_read(const Tensor& reader, const Tensor& other);

}  // namespace torch_conv
