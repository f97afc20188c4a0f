// Copies rows of shards into other tensors.
#pragma once

#include <optional>
#include <vector>

#include "runtime/context.h"
#include "tensors/call.h"

namespace torch_conv {

// The copy of rows [first, first + count) of `from` along `dim` to the rows of `to` from `at` on, as blocks of bytes.
// None if the memory layouts differ, or if `to` is on the CPU.
std::optional<cuda::BlockCopy> blocks_of(const Tensor& to, int64_t at, const Tensor& from, int64_t first, int64_t count,
                                         int64_t dim);
// The same copy to the address of a dense tensor of these rows, which the device of `from` can write.
std::optional<cuda::BlockCopy> dense_blocks_of(void* to, const Tensor& from, int64_t first, int64_t count, int64_t dim);

class RowCopies {
 public:
  // Adds the copy of rows [first, first + rows) of `from` along `dim` to the rows of `to` from `at` on.
  void add(const Tensor& to, int64_t at, const Tensor& from, int64_t first, int64_t rows, int64_t dim);
  // Makes the copies on torch's current stream of the targets' device, and records them. One launch makes all copies
  // whose sources that device can read. A call that only prepares loads the kernel.
  void run(const Call& call) const;

 private:
  struct Rows {
    Tensor to, from;
    int64_t at, first, count, dim;
  };
  void copy_one_by_one(const Call& call, const Rows& rows) const;

  std::vector<Rows> rows_;
};

// A copy of a dense tensor on another CUDA device, on torch's current stream of that device.
Tensor copy_of(const Tensor& source, Device device);

}  // namespace torch_conv
