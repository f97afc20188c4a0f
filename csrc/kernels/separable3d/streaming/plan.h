// Separable + Arch -> Plan: which volumes `streaming` and `streaming_unaligned` serve, and with which tile. Pure.
#pragma once

#include "core/refusals.h"
#include "core/streaming_plan.h"
#include "kernels/separable3d/streaming/params.h"

namespace torch_conv::separable3d {

void launch_streaming(const Separable& p, const Plan& plan, const Site& site);

// The launch's data besides the plan.
struct StreamingConfig {
  StreamingTile shape;
  int lead;   // columns that the grid of tiles starts left of the output
  bool bulk;  // boxes by bulk copies, else element by element
};

inline StreamingTile streaming_tile(const Separable& p, bool bulk) {
  return streaming_tile(size_of(p.in.dtype), int(p.kw), bulk);
}

// One window for all that comes with the launch may be in the code's constants instead of shared memory: 15x15x15
// float32, 512^3, 553 -> 489 us; 7x7x7 286 -> 325 us (one NVIDIA H200).
constexpr bool fixed_taps_help(int64_t k) { return k > 9; }

inline bool fixed_taps(const Separable& p) {
  auto one = [](const Taps& t) { return t.on_host && t.stride_n == 0 && t.stride_c == 0; };
  return fixed_taps_help(p.kw) && one(p.taps_x) && one(p.taps_y) && one(p.taps_z);
}

inline int lead_columns(const Separable& p, bool bulk) {
  return tma::lead_columns(p.kw / 2, p.place.pad_x, streaming_tile(p, bulk).step());
}

inline const char* streaming_refusal(const Separable& p, const Arch& arch, bool bulk) {
  const Placement& at = p.place;
  auto near = [](int64_t in, int64_t out, int64_t k, int64_t pad) { return pad >= 0 && pad < k && out <= in; };
  if (p.in.dtype != p.out.dtype) return "another output dtype";
  if (p.in.dtype == Dtype::f64) return "float64";
  if (p.kd != p.kh || p.kh != p.kw || p.kw < 3 || p.kw > kStreamingMost || p.kw % 2 == 0)
    return "no k x k x k window, k odd, 3 to 15";
  if (!at.unit_steps()) return "stride or dilation";
  if (at.border == Border::skip) return "border 'skip'";
  if (at.border == Border::constant && !holds(p.in.dtype, at.value)) return "no voxel holds the border's value";
  if (p.in.stride_w != 1 || p.out.stride_w != 1) return "voxels of a row are not contiguous";
  if (!near(p.in.d, p.out.d, p.kd, at.pad_z) || !near(p.in.h, p.out.h, p.kh, at.pad_y) ||
      !near(p.in.w, p.out.w, p.kw, at.pad_x))
    return "padding beyond the window, or a result larger than the volume";
  if (!below(kMostSide, {p.in.d, p.in.h, p.in.w, p.peers.above.d, p.peers.below.d}))
    return "2^30 planes, rows or columns";
  if (p.in.h * p.in.stride_h >= (int64_t(1) << 31)) return "planes of 2^31 elements";
  if (!p.peers.same_planes(p.in)) return "shards of another layout";
  if (bulk && !tma::volume_vectors_possible(p.in)) return "rows not 16-byte aligned";
  if (bulk && !p.peers.all(tma::volume_vectors_possible)) return "other shards' rows not 16-byte aligned";
  return streaming_tile(p, bulk).shared_bytes() <= arch.shared_bytes ? nullptr : "a tile beyond shared memory";
}

inline const char* streaming_bulk_refusal(const Separable& p, const Arch& arch) {
  return arch.bulk_copy ? streaming_refusal(p, arch, true) : "no bulk copies";
}

// An asynchronous copy is of 4 bytes at least, and starts on as many. (GPUs without bulk copies have those, but not the
// barriers of core/cuda/tma.cuh.)
inline const char* streaming_unaligned_refusal(const Separable& p, const Arch& arch) {
  if (!arch.bulk_copy) return "no bulk copies";
  return p.in.dtype == Dtype::f32 ? streaming_refusal(p, arch, false) : "no float32";
}

// The costs of chunks of `z` output planes, in planes of a tile. A chunk filters k - 1 planes more than
// it has, and takes a few planes' time to start; rounds of resident blocks times that.
struct StreamingCost {
  int64_t tiles, resident, d, k;

  static StreamingCost of(const Separable& p, const Arch& arch, bool bulk) {
    const StreamingTile s = streaming_tile(p, bulk);
    const int64_t columns = p.out.w + lead_columns(p, bulk);
    return {.tiles = p.out.n * p.out.c * ceil_div(p.out.h, s.tile_h()) * ceil_div(columns, s.tile_w),
            .resident = int64_t(arch.multiprocessors) * s.min_blocks,
            .d = p.out.d,
            .k = p.kd};
  }
  int64_t blocks(int64_t chunk) const { return tiles * ceil_div(d, chunk); }
  int64_t operator()(int64_t chunk) const { return ceil_div(blocks(chunk), resident) * (chunk + k + 2); }
  // Output planes of a block, by whole rounds.
  int best_chunk() const { return tiles * d > 0 ? streaming_chunk(d, k - 1, *this) : 1; }
};

// 0 where memory does not bind.
inline int64_t short_walk_of(const Separable& p, const StreamingCost& cost, bool bulk) {
  // Arithmetic may bind 11 planes with taps that the kernel has to read; this case was not measured.
  const bool memory_binds = bulk && p.in.dtype == Dtype::f32 && (p.kd <= 9 || (p.kd <= 11 && fixed_taps(p)));
  return memory_binds ? short_walk(p.out.d, p.kd, cost.tiles, cost.resident, 4) : 0;
}

inline void configure_streaming(const Separable& p, const Arch& arch, bool bulk, Plan& plan) {
  const StreamingCost cost = StreamingCost::of(p, arch, bulk);
  const StreamingTile shape = streaming_tile(p, bulk);
  plan.why = bulk ? "odd size up to 15: all passes of a tile while streaming along z"
                  : "odd size up to 15: all passes of a tile while streaming along z, rows of any alignment";
  if (p.peers.any()) plan.why = "odd size up to 15: all passes of a tile while streaming along z, through all shards";
  plan.tile_w = shape.tile_w;
  plan.tile_h = shape.tile_h();
  const int64_t walk = short_walk_of(p, cost, bulk);
  plan.tile_d = walk ? int(walk) : cost.best_chunk();
  plan.boundary_d = boundary_of(walk, p.kd, p.out.d);
  plan.threads = shape.threads();
  plan.shared_bytes = shape.shared_bytes();
  plan.blocks = cost.blocks(plan.tile_d);
  const char *const file = "kernels/separable3d/streaming/kernel.cuh", *const name =
                                                                           "separable3d::separable3d_streaming";
  const int k = int(p.kw);
  const bool fixed = fixed_taps(p);
  plan.kernels = {with_peers(kernel_of(file, name, {p.in.dtype, k, fixed, bulk}), p.peers.any())};
  plan.config = StreamingConfig{.shape = shape, .lead = lead_columns(p, bulk), .bulk = bulk};
}
inline void configure_streaming_bulk(const Separable& p, const Arch& arch, Plan& plan) {
  configure_streaming(p, arch, true, plan);
}
inline void configure_streaming_unaligned(const Separable& p, const Arch& arch, Plan& plan) {
  configure_streaming(p, arch, false, plan);
}

inline StreamingParams streaming_params(const Separable& p, const Plan& plan, const StreamingConfig& config) {
  StreamingParams params{.volumes = VolumeGeometry::of(p.in, p.out),
                         .pad_z = int(p.place.pad_z),
                         .pad_y = int(p.place.pad_y),
                         .pad_x = int(p.place.pad_x),
                         .lead = config.lead,
                         .chunk = plan.tile_d,
                         .grid = StreamingGrid::of(p.out, config.lead, plan.tile_w, plan.tile_h, plan.tile_d),
                         .value = float(p.place.value),
                         .border = p.place.border,
                         .patch = patches_border(p.place.border, p.place.value),
                         .windows = {},
                         .taps = {}};
  take_taps({&p.taps_x, &p.taps_y, &p.taps_z}, p.out.n, p.out.c, p.kw, params.windows, params.taps);
  return params;
}

}  // namespace torch_conv::separable3d
