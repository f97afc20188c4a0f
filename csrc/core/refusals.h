// Refusals that several tiled kernels share, in the words that `explain` prints; null where a kernel serves the
// problem.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "core/plan.h"
#include "core/problem.h"
#include "core/tma.h"

namespace torch_conv {

constexpr int64_t kMostSide = 1 << 30;  // coordinates are 32-bit

inline bool below(int64_t most, std::initializer_list<int64_t> sizes) { return std::max(sizes) < most; }

// Whether every window of `k` taps covers an element of the axis. A convolution's padding may be larger than its
// window.
inline bool near(int64_t in, int64_t out, int64_t k, int64_t pad) { return pad >= 0 && pad < k && out - pad <= in; }

inline bool tiled_type(Dtype d) { return d == Dtype::f32 || d == Dtype::f16 || d == Dtype::bf16 || d == Dtype::u8; }

// Fused chains compute in float32.
inline const char* chain_dtype_refusal(Dtype in, Dtype out) {
  return in == Dtype::f64 || out == Dtype::f64 ? "float64" : nullptr;
}

// For kernels that need dense rows, and a border whose values elements can hold.
inline const char* rows_refusal(const Image& in, const Image& out, const Placement& at, const Peers& peers) {
  if (in.stride_w != 1 || out.stride_w != 1) return "pixels of a row are not contiguous";
  if (at.border == Border::skip) return "border 'skip'";
  if (at.border == Border::constant && !holds(in.dtype, at.value)) return "no pixel holds the border's value";
  if (!below(kMostSide, {in.h + at.pad_y, in.w + at.pad_x, out.h, out.w})) return "2^30 rows or columns";
  return !peers.any() || peers.same_columns(in) ? nullptr : "shards of another layout";
}

// For kernels that need dense rows, stride and dilation 1, and equal dtypes.
inline const char* planar_refusal(const Image& in, const Image& out, const Placement& at, const Peers& peers) {
  if (!at.unit_steps_of_images()) return "stride or dilation";
  if (in.dtype != out.dtype) return "another output dtype";
  if (!tiled_type(in.dtype)) return "no float32, float16, bfloat16 or uint8";
  return rows_refusal(in, out, at, peers);
}

inline const char* planar_refusal(const Separable& p) { return planar_refusal(p.in, p.out, p.place, p.peers); }

// Every window of the filter must also cover a part of the image. `channels` interleaved channels count as columns.
inline const char* planar_refusal(const Direct& p, int64_t channels = 1) {
  const auto rows = [&](const Image& x) { return as_rows(x, channels); };
  Placement at = p.place;
  at.pad_x *= channels;
  if (const char* no = planar_refusal(rows(p.in), rows(p.out), at, {rows(p.peers.above), rows(p.peers.below)}))
    return no;
  if (p.in.c != p.groups) return "sums over channels";
  const bool touches = near(p.in.h, p.out.h, p.kh, p.place.pad_y) && near(p.in.w, p.out.w, p.kw, p.place.pad_x);
  return touches ? nullptr : "windows that lie outside the image altogether";
}

// The refusal of bulk copies of planes, in words of 4 bytes where pixels are narrower.
inline const char* plane_copy_refusal(const Image& in, const Arch& arch) {
  if (!arch.bulk_copy) return "no bulk copies";
  return tma::vectors_possible(in) ? nullptr : "rows not 16-byte aligned";
}

}  // namespace torch_conv
