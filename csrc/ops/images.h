// Tensors with any leading dimensions and strides -> Image, and the tensors that hold results.
#pragma once

#include "ops/checks.h"

namespace torch_conv {

// (..., H, W) as (N, C, H, W); none if the dimensions before C do not merge into one stride (those of fresh results
// do).
std::optional<Image> merge_leading(const Tensor& t, Dtype dtype);

// An (N, C, H, W) view of a tensor (..., H, W); `tensor` keeps the memory alive (it is a contiguous copy where the
// leading dimensions do not merge into two strides).
struct ImageView {
  Tensor tensor;
  Image image;
};
ImageView view_input(const char* op, const Tensor& input);

// A fresh (..., h, w) result in the memory format of `input`.
Tensor empty_result(const Tensor& input, int64_t h, int64_t w, ScalarType dtype);
// The same for a convolution, which also sets the number of channels.
Tensor empty_conv_result(const Tensor& input, int64_t channels, int64_t h, int64_t w);

// Checks a caller's `out` (shape, device, no overlap with `input` or itself).
void check_out(const char* op, const Tensor& input, const Tensor& out, const Sizes& expected);
// By the ranges of memory that they span: interleaved views count as overlapping.
void check_no_overlap(const char* op, const Tensor& out, const char* argument, const Tensor& other);

}  // namespace torch_conv
