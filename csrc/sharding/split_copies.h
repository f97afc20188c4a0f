// Copies rows of shards into other tensors.
#pragma once

#include <optional>
#include <vector>

#include "runtime/context.h"
#include "tensors/call.h"

namespace torch_conv {

// Copies rows [first, first + count) of `from` along `dim` to the rows of `to` from `at` on.
struct RowCopy {
  Tensor to, from;
  int64_t at, first, count, dim;
};

// The copy of rows [first, first + count) of `from` along `dim` to the address of a dense tensor of these rows, as
// blocks of bytes. The device of `from` must be able to write there. None if the memory layout differs.
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

}  // namespace torch_conv
