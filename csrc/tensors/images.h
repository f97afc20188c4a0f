// Tensors with any leading dimensions and strides -> Image; sizes, strides and memory of results.
#pragma once

#include "tensors/checks.h"

namespace torch_conv {

// (..., H, W) as (N, C, H, W), or with three axes (..., D, H, W) as (N, C, D, H, W). None if the dimensions before C do
// not merge into one stride; the dimensions of new results do.
std::optional<Image> merge_leading(const Tensor& t, Dtype dtype, int axes);

// The sizes of `input` with other spatial sizes.
Sizes resized(const Tensor& input, const Extent& extent, int axes);
// Strides of a dense tensor of `sizes` in the memory format of `input`. The last `axes` dimensions are spatial.
Sizes strides_in_format_of(const Tensor& input, const Sizes& sizes, int axes);
// `result` in the memory format of `input`: itself, or a copy.
Tensor in_format_of(const Tensor& input, const Tensor& result, int axes);

// Whether the ranges of memory overlap that two tensors span. Interleaved views do.
bool overlap(const Tensor& a, const Tensor& b);
// Whether two elements may share memory: a stride is not larger than the span of the dimensions inside it.
bool overlaps_itself(const Tensor& t);
// The addresses of the first and the last byte of a tensor that is not empty.
std::pair<uintptr_t, uintptr_t> memory_of(const Tensor& t);

// Checks a caller's `out` (shape, device, no overlap with `input` or itself).
void check_out(const char* op, const Tensor& input, const Tensor& out, const Sizes& expected);
void check_no_overlap(const char* op, const Tensor& out, const char* argument, const Tensor& other);

}  // namespace torch_conv
