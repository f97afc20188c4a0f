// Memory and tensors of a call, recorded by its launch graph.
#pragma once

#include "graph/launch_graph.h"

namespace torch_conv {

// Fresh memory for a call's result or its scratch. A query gets a tensor that nobody may read or write.
Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype);
Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, ScalarType dtype);  // contiguous
Tensor pretend(const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype);
// A tensor that torch or the host makes from another one, with these sizes on the device of `on`. `make` holds numbers
// of this call only. A query does not run it.
Tensor make_of(const Call& call, const Tensor& from, const Tensor& on, const Sizes& sizes, ScalarType dtype,
               std::function<Tensor(const Tensor& from)> make);
// A tensor for kernels that take no strides: itself, or a contiguous copy.
Tensor dense(const Call& call, const Tensor& t);

}  // namespace torch_conv
