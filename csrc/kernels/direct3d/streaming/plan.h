// The volumes that `streaming` and `streaming_tma` serve, their plans, and their kernels' arguments.
#pragma once

#include "core/streaming_plan.h"
#include "kernels/direct3d/config.h"
#include "kernels/direct3d/streaming/params.h"

namespace torch_conv::direct3d {

struct VolumeStreamingConfig {
  VolumeTile shape;
  int stages;     // of the ring
  int lead;       // columns that the grid of tiles starts left of the output
  bool bulk;      // see StreamingPolicy
  bool constant;  // see StreamingPolicy
};

void launch_streaming(const Direct& p, const Plan& plan, const Site& site);

// Serves 3^3, 5^3 and 7^3 windows at stride 1 on planar volumes.
inline const char* streaming_refusal(const Direct& p, const Arch&) {
  const Placement& s = p.place;
  const bool compiled = p.kd == p.kh && p.kh == p.kw && (p.kh == 3 || p.kh == 5 || p.kh == 7);
  if (!compiled) return "no 3x3x3, 5x5x5 or 7x7x7";
  if (!s.unit_steps()) return "stride or dilation";
  if (!near(p.in.d, p.out.d, p.kd, s.pad_z) || !near(p.in.h, p.out.h, p.kh, s.pad_y) ||
      !near(p.in.w, p.out.w, p.kw, s.pad_x))
    return "windows that lie outside the volume altogether";
  if (p.in.dtype != p.out.dtype) return "another output dtype";
  if (p.in.dtype == Dtype::f64) return "float64";
  if (p.in.stride_w != 1 || p.out.stride_w != 1) return "voxels of a row are not contiguous";
  if (p.in.c != p.groups) return "sums over channels";
  if (const char* no = border_refusal(p)) return no;
  if (!p.peers.same_planes(p.in)) return "shards of another layout";
  return sides_below(kMostSide, p) ? nullptr : "2^30 planes, rows or columns";
}

inline const char* streaming_tma_refusal(const Direct& p, const Arch& arch) {
  if (!arch.bulk_copy) return "no bulk copies";
  if (const char* no = streaming_refusal(p, arch)) return no;
  if (!tma::volume_possible(p.in)) return "rows not 16-byte aligned";
  return p.peers.all(tma::volume_possible) ? nullptr : "other shards' rows not 16-byte aligned";
}

// Plain loads do not serve shards of 16-bit voxels: 5^3 would spill registers.
inline const char* plain_shards_refusal(const Direct& p, const Arch& arch) {
  return size_of(p.in.dtype) == 2 ? "plain loads of 16-bit voxels" : streaming_refusal(p, arch);
}

// Output planes of one block. A block reads k - 1 planes more than it writes, and takes as long as `start` planes to
// fill its ring: large chunks, and whole waves of `slots` blocks, cost least.
inline int64_t chunk_of(int64_t depth, int64_t tiles, int64_t slots, int64_t k, int64_t start) {
  int64_t best = depth, best_cost = ceil_div(tiles, slots) * (depth + k - 1 + start);
  for (int64_t waves = 1; waves <= 6; ++waves) {
    const int64_t chunks = std::min(waves * slots / tiles, depth);
    if (chunks < 1) continue;
    const int64_t chunk = ceil_div(depth, chunks);
    const int64_t cost = ceil_div(tiles * ceil_div(depth, chunk), slots) * (chunk + k - 1 + start);
    if (cost < best_cost) best = chunk, best_cost = cost;
  }
  return best;
}

inline void configure_streaming(const Direct& p, const Arch& arch, bool bulk, Plan& plan) {
  const int bytes = size_of(p.in.dtype), k = int(p.kh);
  const Placement& at = p.place;
  // Bulk copies are fast where they start on 128 bytes.
  const int lead = tma::lead_columns(p.kw / 2, at.pad_x, 128 / bytes);
  const int64_t columns = p.out.w + lead;
  const bool wide = k == 3 && bytes > 1 && ceil_div(columns, 256) * 2 == ceil_div(columns, 128);
  const bool patched =
      k == 3 && bytes == 4 && at.border != Border::zero_output && !(at.border == Border::constant && at.value == 0);
  const VolumeTile shape = volume_tile(bytes, k, wide, patched);
  // Taps of larger windows are not on the host, and float32 is bound by memory.
  const bool one_window = (p.taps.stride_c == 0 || p.out.c == 1) && (p.taps.stride_n == 0 || p.out.n == 1);
  const bool constant = bulk && k == 3 && bytes < 4 && p.taps.on_host && one_window;
  const int stages = bulk ? shape.stages : 2;
  const int64_t tiles = p.out.n * p.out.c * ceil_div(p.out.h, shape.height()) * ceil_div(columns, shape.width());
  plan.why = bulk ? "cubic window up to 7^3: planes arrive by bulk copies, blocks stream along z"
                  : "cubic window up to 7^3, plain loads: no bulk copies, or rows not 16-byte aligned";
  plan.tile_w = shape.width();
  plan.tile_h = shape.height();
  const int64_t slots = int64_t(arch.multiprocessors) * shape.resident;
  const int64_t short_chunk = bulk && k == 3 && bytes == 4 ? short_walk(p.out.d, k, tiles, slots, 2) : 0;
  plan.tile_d = int(short_chunk ? short_chunk : chunk_of(p.out.d, tiles, slots, k, 3));
  plan.boundary_d = boundary_of(short_chunk, k, p.out.d);
  plan.threads = shape.threads();
  plan.shared_bytes = stages * shape.stage_bytes(bytes, k) + streaming_tap_bytes(k);
  plan.blocks = tiles * ceil_div(p.out.d, plan.tile_d);
  if (p.peers.any()) plan.why = "cubic window up to 7^3: blocks stream along z through all shards";
  const char *const file = "kernels/direct3d/streaming/kernel.cuh", *const name = "direct3d::direct3d_streaming";
  const Kernel kernel =
      kernel_of(file, name, {p.in.dtype, {"direct3d::StreamingPolicy", {k, wide, patched, bulk, constant}}});
  plan.kernels = {with_peers(kernel, p.peers.any())};
  plan.config = VolumeStreamingConfig{shape, stages, lead, bulk, constant};
}
inline void configure_streaming_tma(const Direct& p, const Arch& arch, Plan& plan) {
  configure_streaming(p, arch, true, plan);
}
inline void configure_streaming_plain(const Direct& p, const Arch& arch, Plan& plan) {
  configure_streaming(p, arch, false, plan);
}

inline VolumeArgs streaming_args(const Direct& p, const Plan& plan, const VolumeStreamingConfig& streaming) {
  const int vector = 16 / size_of(p.in.dtype);
  return {.volumes = VolumeGeometry::of(p.in, p.out),
          .grid = StreamingGrid::of(p.out, streaming.lead, plan.tile_w, plan.tile_h, plan.tile_d),
          .chunk = plan.tile_d,
          .stages = streaming.stages,
          .lead = streaming.lead,
          .multiplier = int(p.out.c / p.groups),
          .shift_z = int(p.kd / 2 - p.place.pad_z),
          .shift_y = int(p.kh / 2 - p.place.pad_y),
          .shift_x = int(p.kw / 2 - p.place.pad_x),
          .border = p.place.border,
          .value = float(p.place.value),
          .taps_n = p.taps.stride_n,
          .taps_c = p.taps.stride_c,
          .bias = static_cast<const float*>(p.bias),
          .vector_in = aligned_rows(p.in) && p.peers.all(aligned_rows),
          .vector_out = aligned_rows(p.out) && streaming.lead % vector == 0};
}

}  // namespace torch_conv::direct3d
