// Rows of shards into other tensors.
#pragma once

#include <optional>
#include <vector>

#include "runtime/context.h"
#include "tensors/call.h"

namespace torch_conv {

// Rows [first, first + count) of `from` along `dim` and the places of `to` from row `at` on, as blocks of bytes; none
// where the two do not lie alike, or `to` on the CPU.
std::optional<cuda::BlockCopy> blocks_of(const Tensor& to, int64_t at, const Tensor& from, int64_t first, int64_t count,
                                         int64_t dim);
// ... to the address of a dense tensor of these rows, memory that the device of `from` reaches.
std::optional<cuda::BlockCopy> dense_blocks_of(void* to, const Tensor& from, int64_t first, int64_t count, int64_t dim);

class RowCopies {
 public:
  // Rows [first, first + rows) of `from` along `dim` into `to`, from row `at` on.
  void add(const Tensor& to, int64_t at, const Tensor& from, int64_t first, int64_t rows, int64_t dim);
  // In torch's current stream of the targets, which are on one device; by one launch where that can read all sources.
  // The call's graph records it, too; a call that only prepares loads the kernel.
  void run(const Call& call) const;

 private:
  struct Rows {
    Tensor to, from;
    int64_t at, first, count, dim;
  };
  void copy_one_by_one(const Call& call, const Rows& rows) const;

  std::vector<Rows> rows_;
};

// A copy of a dense tensor on another CUDA device, in torch's current stream there.
Tensor copy_of(const Tensor& source, Device device);

}  // namespace torch_conv
