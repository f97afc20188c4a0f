// Operators on images in shards: X_split(Tensor[] shards, ..., int dim, int[]? wanted) -> Tensor[] for every X.
//
//   rows of the image      shard 0       |        shard 1        |       shard 2
//                    --------------------+-----------------------+--------------------
//   outputs of shard 1       shard boundary ->  [ s | interior          | s ]  <- shard boundary
//                              [ halo     |         own rows      |     halo ]
//
// The interior is filtered where it lies. Outputs at a shard boundary read rows of the neighbour shards (further ones,
// and wrapped ones of circular borders, where it takes them): kernels that can do so read them where they lie, in the
// memory of another GPU too, or copies of the neighbour's alone (near_planes.h); for the others they are copied into a
// strip, while the interior is filtered, and the strip is filtered after it. Either way every output is computed from
// the same pixels in the same order as on one device, so it has the same bits.
#pragma once

#include <functional>

#include "tensors/call.h"

namespace torch_conv {

// An operator's own function on a tensor; the call says which part of the image it is.
using ShardCall = std::function<Tensor(Call& call, const Tensor& input)>;

// `axes`: how many of the tensors' last dimensions are spatial. `wanted`: the shards whose results are made, all by
// default; the others' rows are only read.
std::vector<Tensor> run_split(const Call& whole, int axes, const std::vector<Tensor>& shards, int64_t dim,
                              const std::optional<Sizes>& wanted, const ShardCall& function);

// An argument of a call on `input`: windows (their last `window_axes` dimensions, before them none, B, or B and C) are
// cut as the image is along batch or channels.
Tensor argument_of(const Call& call, const Tensor& input, int axes, int window_axes, const Tensor& window);
std::vector<Tensor> argument_of(const Call& call, const Tensor& input, int axes, int window_axes,
                                const std::vector<Tensor>& windows);
// Has the input's device wait until a window on another GPU is made, so that its kernels read it there. False: they
// cannot, or should not, and nothing has happened. A part with a launch graph of its own, as where windows are
// cut like the image, gets false as well: its graph does not know the other shards' streams.
bool read_from_peer(const Call& call, const Tensor& input, const Tensor& window);
// A window on the input's device; one on the CPU may stay there.
Tensor on_device_of(const Call& call, const Tensor& input, const Tensor& window);
template <typename T>
const T& argument_of(const Call&, const Tensor&, int, int, const T& argument) {
  return argument;
}

}  // namespace torch_conv
