#include "tensors/images.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace torch_conv {

namespace {

// Whether each dimension is outside all later ones in `order`, and the last one is contiguous. Strides of dimensions
// of size 1 do not count. Gaps are allowed, as in a crop.
bool is_in_order(const Sizes& sizes, const Sizes& strides, const std::vector<int>& order) {
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const int64_t size = sizes[order[i]], stride = strides[order[i]];
    if (size == 0) return true;
    if (size == 1) continue;
    if (step == 1 ? stride != 1 : stride < step) return false;
    step = stride * size;
  }
  return true;
}

// The order of dimensions (..., [d,] h, w, c).
std::vector<int> channels_inner_order(int dims, int axes) {
  std::vector<int> order;
  for (int i = 0; i < dims; ++i)
    if (i != dims - axes - 1) order.push_back(i);
  order.push_back(dims - axes - 1);
  return order;
}

// Whether the channels are innermost: channels_last, or a permuted (H, W, C) image. Results keep this order.
// torch_conv/dispatch/formats.py has the same rule.
bool channels_inner(const Tensor& t, int axes) {
  const int dims = int(t.dim());
  if (dims <= axes || t.is_contiguous() || t.size(dims - axes - 1) < 2) return false;
  return is_in_order(sizes_of(t), strides_of(t), channels_inner_order(dims, axes));
}

}  // namespace

bool overlaps_itself(const Tensor& t) {
  const Sizes size = sizes_of(t), stride = strides_of(t);
  std::vector<std::pair<int64_t, int64_t>> steps;  // |stride|, size
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] == 0) return false;
    if (size[i] > 1) steps.push_back({std::abs(stride[i]), size[i]});
  }
  std::sort(steps.begin(), steps.end());
  int64_t footprint = 0;
  for (const auto& [step, count] : steps) {
    if (step <= footprint) return true;
    footprint += step * (count - 1);
  }
  return false;
}

std::optional<Image> merge_leading(const Tensor& t, Dtype dtype, int axes) {
  const Sizes size = sizes_of(t), stride = strides_of(t);
  const int dims = int(size.size()), channel = dims - axes - 1;
  Image x{.data = t.data_ptr(),
          .dtype = dtype,
          .n = 1,
          .c = 1,
          .d = axes == 3 ? size[dims - 3] : 1,
          .h = size[dims - 2],
          .w = size[dims - 1],
          .stride_n = 0,
          .stride_c = 0,
          .stride_d = axes == 3 ? stride[dims - 3] : 0,
          .stride_h = stride[dims - 2],
          .stride_w = stride[dims - 1]};
  if (channel >= 0) {
    x.c = size[channel];
    x.stride_c = stride[channel];
  }
  const bool empty = t.numel() == 0;  // strides do not matter
  for (int i = channel - 1; i >= 0; --i) {
    if (size[i] == 1) continue;
    if (x.n == 1) x.stride_n = stride[i];
    else if (!empty && stride[i] != x.stride_n * x.n) return std::nullopt;
    x.n *= size[i];
  }
  return x;
}

Sizes resized(const Tensor& input, const Extent& extent, int axes) {
  Sizes sizes = sizes_of(input);
  const size_t dims = sizes.size();
  if (axes == 3) sizes[dims - 3] = extent.d;
  sizes[dims - 2] = extent.h;
  sizes[dims - 1] = extent.w;
  return sizes;
}

Sizes strides_in_format_of(const Tensor& input, const Sizes& sizes, int axes) {
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (channels_inner(input, axes)) order = channels_inner_order(int(sizes.size()), axes);
  Sizes strides(sizes.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return strides;
}

Tensor in_format_of(const Tensor& input, const Tensor& result, int axes) {
  if (result.numel() == 0) return result;
  const Sizes sizes = sizes_of(result), strides = strides_of(result);
  const Sizes wanted = strides_in_format_of(input, sizes, axes);
  bool same = true;
  for (size_t d = 0; d < sizes.size(); ++d) same = same && (strides[d] == wanted[d] || sizes[d] == 1);
  if (same) return result;
  Tensor copy = empty_strided(device_of(result), sizes, wanted, result.scalar_type());
  torch::stable::copy_(copy, result);
  return copy;
}

std::pair<uintptr_t, uintptr_t> memory_of(const Tensor& t) {
  int64_t low = 0, high = 0;
  const auto size = t.sizes(), stride = t.strides();
  for (size_t i = 0; i < size.size(); ++i) (stride[i] < 0 ? low : high) += (size[i] - 1) * stride[i];
  const int64_t bytes = t.element_size();
  const auto base = reinterpret_cast<uintptr_t>(t.data_ptr());
  return {base + low * bytes, base + (high + 1) * bytes - 1};
}

void check_out(const char* op, const Tensor& input, const Tensor& out, const Sizes& expected) {
  const Sizes sizes = sizes_of(out);
  // The texts of shapes take a microsecond, so only refusals make texts.
  if (sizes != expected) refuse(op, "out must have shape ", shape_text(expected), ", got ", shape_text(sizes));
  if (!same_device(out, input)) refuse(op, "out must be on ", device_text(input), ", got ", device_text(out));
  if (overlaps_itself(out)) refuse(op, "out must not overlap itself, got strides ", shape_text(strides_of(out)));
  check_no_overlap(op, out, "input", input);
}

bool overlap(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto [first, last] = memory_of(a);
  const auto [other_first, other_last] = memory_of(b);
  return first <= other_last && other_first <= last;
}

void check_no_overlap(const char* op, const Tensor& out, const char* argument, const Tensor& other) {
  check(!overlap(out, other), op, "out must not overlap ", argument);
}

}  // namespace torch_conv
