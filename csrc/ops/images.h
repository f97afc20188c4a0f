// Tensors with any leading dimensions and strides -> Image, and the tensors that hold results.
#pragma once

#include "ops/checks.h"

namespace torch_conv {

// An (N, C, H, W) view of a tensor (..., H, W); `tensor` keeps the memory alive (it is a contiguous copy where the
// leading dimensions do not merge into two strides).
struct ImageView {
  Tensor tensor;
  Image image;
};
ImageView view_input(const char* op, const Tensor& input);

// True where the last of the leading dimensions lies innermost (channels_last, or a permuted (H, W, C) photo): results
// keep that order. torch_conv/fake.py states the same rule.
bool channels_inner(const Tensor& t);

// A fresh (..., h, w) result in the memory format of `input`.
Tensor empty_result(const Tensor& input, int64_t h, int64_t w, ScalarType dtype);
// The same for a convolution, which also sets the number of channels.
Tensor empty_conv_result(const Tensor& input, int64_t channels, int64_t h, int64_t w);

// Checks a caller's `out` (shape, device, dtype, no overlap with `input` or itself).
void check_out(const char* op, const Tensor& input, const Tensor& out, const Sizes& expected);
// By the ranges of memory that they span: interleaved views count as overlapping.
void check_no_overlap(const char* op, const Tensor& out, const char* argument, const Tensor& other);

// `result` as an Image to write to; its leading dimensions must merge (fresh results always do).
std::optional<Image> writable_image(const Tensor& result, Dtype dtype);

}  // namespace torch_conv
