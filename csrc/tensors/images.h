// Tensors with any leading dimensions and strides -> Image, and the tensors that hold results.
#pragma once

#include "tensors/checks.h"

namespace torch_conv {

// (..., H, W) as (N, C, H, W), with three axes (..., D, H, W) as (N, C, D, H, W); none if the dimensions before C do
// not merge into one stride (those of fresh results do).
std::optional<Image> merge_leading(const Tensor& t, Dtype dtype, int axes);

// The sizes of `input` with other spatial ones.
Sizes resized(const Tensor& input, const Extent& extent, int axes);
// Strides of a dense tensor of `sizes` (the input's dimensions, the last `axes` of them spatial) in the memory format
// of `input`.
Sizes strides_in_format_of(const Tensor& input, const Sizes& sizes, int axes);
// `result` in the memory format of `input`: itself, or a copy.
Tensor in_format_of(const Tensor& input, const Tensor& result, int axes);

// By the ranges of memory that they span: interleaved views count as overlapping.
bool overlap(const Tensor& a, const Tensor& b);
// Could two elements share memory? From the innermost dimension on, a stride must step over all that lies below it.
bool overlaps_itself(const Tensor& t);
// The addresses of the first and the last byte that a tensor (of one element or more) spans.
std::pair<uintptr_t, uintptr_t> memory_of(const Tensor& t);

// Checks a caller's `out` (shape, device, no overlap with `input` or itself).
void check_out(const char* op, const Tensor& input, const Tensor& out, const Sizes& expected);
void check_no_overlap(const char* op, const Tensor& out, const char* argument, const Tensor& other);

}  // namespace torch_conv
