// Operators on images in shards: X_split(Tensor[] shards, ..., int dim, int[]? wanted) -> Tensor[] for every X.
//
//   rows of the image      shard 0       |        shard 1          |       shard 2
//                    --------------------+-------------------------+--------------------
//   outputs of shard 1                   [ strip | interior | strip ]      strip: boundary strip
//   rows that they read           [ halo |        own rows         | halo ]
//
// The interior is filtered in place. Outputs of a boundary strip read rows of neighbour shards. With large windows they
// also read further shards, with a circular border the other end of the image. There are two algorithms:
//   - Kernels that can read neighbour shards do so in place, also in the memory of another GPU, or read copies of their
//     planes (split_copies.h).
//   - For other kernels, the rows of a boundary strip are copied into one tensor while the interior is filtered.
// Every output is a sum of the same pixels in the same order as on one device, so the bits are the same.
#pragma once

#include <functional>

#include "sharding/part.h"

namespace torch_conv {

// An operator's function on a tensor, which is the part of an image that the call names.
using ShardCall = std::function<Tensor(Call& call, const Tensor& input)>;

// The last `axes` dimensions of the tensors are spatial. `wanted`: the shards whose results are computed, by default
// all; the rows of other shards are only read.
std::vector<Tensor> run_split(const Call& call, int axes, const std::vector<Tensor>& shards, int64_t dim,
                              const std::optional<Sizes>& wanted, const ShardCall& function);

// An argument of a call on a part. Windows have `window_axes` dimensions, and before them none, B, or B and C. They
// are cut with the image along batch or channels.
Tensor argument_of(const Call& call, int axes, int window_axes, const Tensor& window);
std::vector<Tensor> argument_of(const Call& call, int axes, int window_axes, const std::vector<Tensor>& windows);
// Lets kernels on the input's device read a window on another GPU in place: the device waits until the window is ready.
// False: they cannot or should not do so. A part with its own launch graph also gets false, since that graph does not
// know the other shards' streams.
bool read_from_peer(const Call& call, const Tensor& input, const Tensor& window);
// The window on the input's GPU: a copy if the window is on another GPU.
Tensor on_device_of(const Call& call, const Tensor& input, const Tensor& window);
template <typename T>
const T& argument_of(const Call&, int, int, const T& argument) {
  return argument;
}

}  // namespace torch_conv
