// Operators on images in shards: X_split(Tensor[] shards, ..., int dim, int[]? wanted) -> Tensor[] for every X.
//
//   rows of the image      shard 0       |        shard 1        |       shard 2
//                    --------------------+-----------------------+--------------------
//   outputs of shard 1       seam ->  [ s | interior          | s ]  <- seam
//                              [ halo     |         own rows      |     halo ]
//
// The interior is filtered where it lies. Outputs at a seam read rows of the shards beside them (further ones, and
// wrapped ones of circular borders, where it takes them): kernels that can do so read them where they lie, in the
// memory of another GPU too; for the others they are copied into a strip, while the interior is filtered, and the
// strip is filtered after it. Either way every output is computed from the same pixels in the same order as on one
// device, so it has the same bits.
#pragma once

#include <functional>

#include "ops/checks.h"

namespace torch_conv {

// A shard that a call along batch or channels is made for: where it lies in the whole.
struct Slice {
  int64_t dim_from_end, begin, size;  // dim_from_end counts from the last axis, which is 1
};

// An operator's own function on a tensor, with the arguments that belong to the slice, if there is one.
using ShardCall = std::function<Tensor(const Tensor& input, const Slice* slice)>;

// `axes`: how many of the tensors' last dimensions are spatial. `wanted`: the shards whose results are made, all by
// default; the others only lend their rows.
std::vector<Tensor> run_split(const char* op, int axes, const std::vector<Tensor>& shards, int64_t dim,
                              const std::optional<Sizes>& wanted, const ShardCall& call);

// An argument of a call on `input`: windows (their last `window_axes` dimensions, before them none, B, or B and C) are
// on its device, cut as the image is along batch or channels.
Tensor argument_of(const Tensor& input, const Slice* slice, int axes, int window_axes, const Tensor& window);
std::vector<Tensor> argument_of(const Tensor& input, const Slice* slice, int axes, int window_axes,
                                const std::vector<Tensor>& windows);
// A window on the input's device; one on the CPU may stay there.
Tensor on_device_of(const Tensor& input, const Tensor& window);
template <typename T>
const T& argument_of(const Tensor&, const Slice*, int, int, const T& argument) {
  return argument;
}

// A name as a template argument.
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&s)[N]) { std::copy(s, s + N, text); }
};

// X_split of an operator's function X.
template <Name op, int axes, int window_axes, auto function>
struct Split;
template <Name op, int axes, int window_axes, typename... Args, Tensor (*function)(Tensor, Args...)>
struct Split<op, axes, window_axes, function> {
  static std::vector<Tensor> run(std::vector<Tensor> shards, Args... args, int64_t dim, std::optional<Sizes> wanted) {
    return run_split(op.text, axes, shards, dim, wanted, [&](const Tensor& input, const Slice* slice) {
      return function(input, argument_of(input, slice, axes, window_axes, args)...);
    });
  }
};

}  // namespace torch_conv
