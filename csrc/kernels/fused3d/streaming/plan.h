// Fused + Arch -> Plan: which chains of volumes `streaming` serves, and with which tile. Pure.
#pragma once

#include <cmath>

#include "core/refusals.h"
#include "core/streaming_plan.h"
#include "kernels/fused3d/streaming/params.h"

namespace torch_conv::fused3d {

void launch_streaming(const Fused& p, const Plan& plan, const Site& site);

// The launch's data besides the plan.
struct StreamingConfig {
  StreamingShape shape;
  bool difference, pairs;  // see StreamingParams
};

inline bool shared_by_all(const Taps& t) { return t.on_host && t.stride_n == 0 && t.stride_c == 0; }
inline float tap(const Taps& t, int i) { return static_cast<const float*>(t.data)[i]; }

// Three windows of 3x3x3 that come with the launch, the second and the third with the same row of taps along x:
// every gradient is of this form (derivative and smoothing along x, smoothing and derivative along y).
inline bool is_gradient(const Stage& s) {
  if (s.windows != 3 || s.kd != 3 || s.kh != 3 || s.kw != 3 || s.point != Point::l2) return false;
  for (int i = 0; i < 3; ++i)
    if (!shared_by_all(s.taps_x[i]) || !shared_by_all(s.taps_y[i]) || !shared_by_all(s.taps_z[i])) return false;
  for (int j = 0; j < 3; ++j)
    if (tap(s.taps_x[1], j) != tap(s.taps_x[2], j)) return false;
  return true;
}

// Windows of two taps each: (a, 0, b) along one axis, (0, 1, 0) along the others, a <= 0 <= b, b - a <= 1. Of finite
// voxels the taps of 0 add nothing (and nothing overflows on the way), so that three multiply-adds become two or none.
inline bool is_difference(const Stage& s) {
  for (int i = 0; i < 3; ++i) {
    const Taps* axes[] = {&s.taps_x[i], &s.taps_y[i], &s.taps_z[i]};
    for (int a = 0; a < 3; ++a) {
      const float before = tap(*axes[a], 0), middle = tap(*axes[a], 1), after = tap(*axes[a], 2);
      const bool serves = a == i ? before <= 0 && middle == 0 && after >= 0 && after - before <= 1
                                 : before == 0 && middle == 1 && after == 0;
      if (!serves) return false;
    }
  }
  return true;
}

inline bool is_blur(const Stage& s) {
  return s.windows == 1 && s.point == Point::each && s.kd == s.kh && s.kh == s.kw &&
         (s.kw == 3 || s.kw == 5 || s.kw == 7);
}

inline StreamingShape shape_of(const Fused& p) { return streaming_shape(size_of(p.in.dtype), int(p.stages[0].kw)); }

inline const char* streaming_refusal(const Fused& p, const Arch& arch) {
  if (!arch.bulk_copy) return "no bulk copies";
  if (p.count != 2 || !is_blur(p.stages[0]) || !is_gradient(p.stages[1]))
    return "not the magnitude of the gradient of a volume blurred by 3^3, 5^3 or 7^3";
  if (p.valid) return "'valid'";
  if (p.stride != 1) return "a stride";
  if (p.border == Border::skip) return "border 'skip'";
  if (const char* no = chain_dtype_refusal(p.in.dtype, p.out.dtype)) return no;
  if (!tiled_type(p.in.dtype)) return "16-bit integers";
  if (p.border == Border::constant && !holds(p.in.dtype, p.value)) return "no voxel holds the border's value";
  if (p.in.stride_w != 1 || p.out.stride_w != 1) return "voxels of a row are not contiguous";
  if (!below(kMostSide, {p.in.d, p.in.h, p.in.w})) return "2^30 planes, rows or columns";
  if (p.out.d != p.in.d || p.out.h != p.in.h || p.out.w != p.in.w) return "an output of another size";
  if (p.in.h * p.in.stride_h >= (int64_t(1) << 31)) return "planes of 2^31 elements";
  if (!tma::volume_vectors_possible(p.in)) return "rows not 16-byte aligned";
  return shape_of(p).shared_bytes() + kStaticBytes > arch.shared_bytes ? "too little shared memory" : nullptr;
}

inline int64_t streaming_tiles(const Fused& p, const StreamingShape& s) {
  return p.out.n * p.out.c * ceil_div(p.out.h, s.tile_h()) * ceil_div(p.out.w, s.tile_w);
}

// Output planes of a block. A chunk of z reads k + 1 more planes and takes a few planes' time to start. The cost is
// that times the rounds of resident blocks.
inline int streaming_chunk(const Fused& p, const StreamingShape& s, const Arch& arch) {
  const int64_t extra = s.k + 1;
  return torch_conv::streaming_chunk(p.out.d, extra, [&](int64_t chunk) {
    const int64_t blocks = streaming_tiles(p, s) * ceil_div(p.out.d, chunk);
    return ceil_div(blocks, int64_t(arch.multiprocessors) * s.min_blocks) * (chunk + extra + 3);
  });
}

// Whether outputs 2 i and 2 i + 1 of a row may be stored as one word.
inline bool stores_pairs(const Image& out) { return out.w % 2 == 0 && rows_start_on(out, 2 * size_of(out.dtype)); }

inline void configure_streaming(const Fused& p, const Arch& arch, Plan& plan) {
  const StreamingShape shape = shape_of(p);
  const bool empty = p.out.n * p.out.c * p.out.d * p.out.h * p.out.w == 0;
  plan.why = "both stages of a tile while streaming along z";
  plan.tile_w = shape.tile_w;
  plan.tile_h = shape.tile_h();
  plan.tile_d = empty ? 1 : streaming_chunk(p, shape, arch);
  plan.threads = shape.threads();
  plan.shared_bytes = shape.shared_bytes();
  plan.blocks = streaming_tiles(p, shape) * ceil_div(p.out.d, plan.tile_d);
  plan.kernels = {kernel_of("kernels/fused3d/streaming/kernel.cuh", "fused3d::fused3d_streaming",
                            {p.in.dtype, p.out.dtype, shape.k})};
  const bool finite = p.border != Border::constant || std::isfinite(float(p.value));
  plan.config =
      StreamingConfig{.shape = shape, .difference = is_difference(p.stages[1]) && finite, .pairs = stores_pairs(p.out)};
}

}  // namespace torch_conv::fused3d
