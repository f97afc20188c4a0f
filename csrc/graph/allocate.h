// Memory and tensors of a call, recorded by its launch graph.
#pragma once

#include "graph/launch_graph.h"
#include "tensors/images.h"

namespace torch_conv {

// Fresh memory for a call's result or its scratch. A query gets a tensor that nobody may read or write.
Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype);
Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, ScalarType dtype);  // contiguous
Tensor pretend(const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype);
// A tensor that torch or the host makes from another one, with these sizes on the device of `on`. `make` holds numbers
// of this call only. A query does not run it.
Tensor make_of(const Call& call, const Tensor& from, const Tensor& on, const Sizes& sizes, ScalarType dtype,
               std::function<Tensor(const Tensor& from)> make);
// A fresh result of `sizes` (the input's dimensions, the last `axes` of them spatial) in the memory format of `input`.
Tensor empty_result(const Call& call, const Tensor& input, const Sizes& sizes, int axes, ScalarType dtype);
// `count` such results, one behind the other along a first dimension.
Tensor empty_results(const Call& call, int64_t count, const Tensor& input, Sizes sizes, int axes, ScalarType dtype);
// A tensor with any strides as an image; `tensor` keeps the memory alive (it is a contiguous copy where the leading
// dimensions do not merge into two strides).
struct ImageView {
  Tensor tensor;
  Image image;
};
ImageView view_input(const Call& call, const Tensor& input, int axes);
// A tensor for kernels that take no strides: itself, or a contiguous copy.
Tensor dense(const Call& call, const Tensor& t);

}  // namespace torch_conv
