// Memory and tensors of a call, recorded by its launch graph.
#pragma once

#include "graph/launch_graph.h"
#include "tensors/images.h"

namespace torch_conv {

// Fresh memory for a call's result or its scratch. A query gets a placeholder.
Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype);
Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, ScalarType dtype);  // contiguous
// A tensor on the device of `like` without memory: nothing may read or write the tensor.
Tensor placeholder(const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype);
// The tensor make(from), with these sizes, on the device of `on`. Replays of the call's graph call `make` again, so
// that it may capture numbers but no tensors. A query does not run `make`.
Tensor derive(const Call& call, const Tensor& from, const Tensor& on, const Sizes& sizes, ScalarType dtype,
              std::function<Tensor(const Tensor& from)> make);
// A new result of `sizes` (the input's dimensions, the last `axes` of them spatial) in the memory format of `input`.
Tensor empty_result(const Call& call, const Tensor& input, const Sizes& sizes, int axes, ScalarType dtype);
// `count` such results, along a new first dimension.
Tensor empty_results(const Call& call, int64_t count, const Tensor& input, Sizes sizes, int axes, ScalarType dtype);
// A tensor with any strides as an image.
struct ImageView {
  Tensor tensor;  // keeps the memory; a contiguous copy where the leading dimensions do not merge into two strides
  Image image;
};
ImageView view_input(const Call& call, const Tensor& input, int axes);
// A tensor for kernels that take no strides: itself, or a contiguous copy.
Tensor dense(const Call& call, const Tensor& t);

}  // namespace torch_conv
