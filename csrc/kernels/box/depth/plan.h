// BoxDepth + Arch -> Plan: how the depth pass of a 3-D box is cut into blocks on a GPU. Pure.
#pragma once

#include <algorithm>
#include <climits>
#include <cmath>

#include "kernels/box/depth/ring.h"
#include "kernels/box/plan.h"

namespace torch_conv::box {

// Elements that lie side by side in the sums and in the output: rows, planes or interleaved channels of them.
struct DepthRuns {
  int64_t length;    // elements of a run
  int64_t rows;      // runs of a plane
  int64_t channels;  // planes of a sample
  int64_t interleaved;
  int pixels;  // neighbours of one thread
};

inline DepthRuns depth_runs(const BoxDepth& p) {
  const Image &in = p.sums, &out = p.out;
  DepthRuns r{.length = in.w, .rows = in.h, .channels = in.c, .interleaved = 1, .pixels = 1};
  int64_t in_step = in.stride_w, out_step = out.stride_w;
  if (interleaved_channels(in, out) > 1)
    r.length = in.w * in.c, r.channels = 1, r.interleaved = in.c, in_step = out_step = 1;
  if (in.h > 1 && in.stride_h == r.length * in_step && out.stride_h == r.length * out_step)
    r.length *= in.h, r.rows = 1;
  const int64_t n = 16 / size_of(in.dtype);
  auto aligned = [&](const Image& x) {
    auto whole = [&](int64_t stride, int64_t count) { return count == 1 || stride % n == 0; };
    return reinterpret_cast<uintptr_t>(x.data) % (n * size_of(x.dtype)) == 0 && whole(x.stride_h, r.rows) &&
           whole(x.stride_d, x.d) && whole(x.stride_c, r.channels) && whole(x.stride_n, x.n);
  };
  if (in_step == 1 && out_step == 1 && r.length % n == 0 && aligned(in) && aligned(out)) r.pixels = int(n);
  return r;
}

inline int64_t depth_column_blocks(const DepthRuns& r) { return ceil_div(r.length / r.pixels * r.rows, kDepthThreads); }

// Long chunks of z start few sums afresh (a plane read for each of the window), short ones leave no multiprocessor
// idle: the least of rounds of resident blocks times planes read. 256^3 float32 on one NVIDIA H200, chunks of 64, 128,
// 256: 9 planes 43, 40, 49 us, 101 planes 112, 85, 82 us.
inline int64_t depth_chunk(const BoxDepth& p, const DepthRuns& r, const Arch& arch) {
  const int64_t columns = p.out.n * r.channels * depth_column_blocks(r);
  const bool integer = is_integer(p.out.dtype);
  const int64_t resident = int64_t(arch.multiprocessors) * depth_blocks(integer), start = std::min(p.kd, 2 * p.sums.d);
  const int batch = depth_batch(integer);
  int64_t best = p.out.d, least = INT64_MAX;
  for (int64_t chunks = 1; chunks <= std::min<int64_t>(ceil_div(p.out.d, batch), 256); ++chunks) {
    const int64_t length = round_up(ceil_div(p.out.d, chunks), batch);
    const int64_t cost = ceil_div(columns * ceil_div(p.out.d, length), resident) * (2 * length + start + batch);
    if (cost < least) least = cost, best = length;
  }
  return best;
}

// How totals become outputs.
struct DepthEnding {
  Finish finish;
  double area;        // what totals of whole numbers are divided by
  bool whole, exact;  // as in DepthArgs
};

inline DepthEnding depth_ending(const BoxDepth& p) {
  const bool integer = is_integer(p.source), extends = p.place.border == Border::constant;
  const double voxels = double(p.kd) * double(p.kh) * double(p.kw), value = p.outside / double(p.kh * p.kw);
  DepthEnding e{.finish = p.place.border == Border::skip && p.place.normalized ? Finish::mean
                          : p.place.border == Border::zero_output              ? Finish::interior
                                                                               : Finish::scale,
                .area = p.scale == 1 ? 1 : voxels,
                .whole = integer && is_integer(p.out.dtype),
                .exact = false};
  // Means of 16-bit pixels and of a border value like them: |quotient| fits an int.
  e.exact = e.whole && voxels <= double(int64_t(1) << 36) &&
            (!extends || (value == std::rint(value) && std::abs(value) <= 65535));
  return e;
}

// What the launch needs besides the plan.
struct DepthConfig {
  DepthRuns runs;
  DepthEnding ending;
};

inline const char* depth_size_refusal(const BoxDepth& p, const Arch&) {
  constexpr int64_t limit = INT_MAX / 4;
  const int64_t largest = std::max({p.sums.d, p.out.d, p.kd, p.kh, p.kw, p.sums.h, p.sums.w, p.plane_h, p.plane_w});
  return largest < limit ? nullptr : "the window or the volume is too deep";
}

inline const char* depth_refusal(const BoxDepth& p, const Arch& arch) {
  return is_integer(p.source) ? depth_size_refusal(p, arch) : "floats, which are added up in groups of planes";
}

inline void configure_depth(const BoxDepth& p, const Arch& arch, Plan& plan) {
  const DepthConfig config{.runs = depth_runs(p), .ending = depth_ending(p)};
  const auto& [runs, ending] = config;
  const bool empty = p.out.n * p.out.c * p.out.d * p.out.h * p.out.w == 0;
  plan.why = "running sums along z: the cost does not grow with the window";
  plan.tile_w = kDepthThreads * runs.pixels;
  plan.tile_h = 1;
  plan.threads = kDepthThreads;
  plan.tile_d = empty ? 1 : int(depth_chunk(p, runs, arch));
  plan.blocks = p.out.n * runs.channels * depth_column_blocks(runs) * ceil_div(p.out.d, plan.tile_d);
  const auto kernel = [&](const char* out, bool plain) {
    return kernel_of("kernels/box/depth/kernel.cuh", "box::box_depth", {p.sums.dtype, runs.pixels, out, plain});
  };
  // Vectors whose totals take no more than one product, or a whole mean.
  const bool plain = runs.pixels > 1 && ending.finish != Finish::mean && (ending.area <= 1 || ending.exact);
  const Kernel every = kernel("void", false);
  plan.kernels = {plain ? first_offered(arch, kernel(type_name(p.out.dtype), true), every) : every};
  plan.config = config;
}

// ---- DEPTH_GROUPS: floats, in the order of kernels/box/order.h
// ------------------------------------------------------------

inline const char* depth_groups_refusal(const BoxDepth& p, const Arch& arch) {
  return is_integer(p.source) ? "integers" : depth_size_refusal(p, arch);
}

// Planes of a window that threads keep in registers, 0 of deeper ones.
inline int planes_kept(const BoxDepth& p) { return p.kd <= 2 * kGroup ? int(p.kd) : 0; }

// Of the rests and blocks between a window's first 8 planes and its last.
inline int64_t depth_ring_bytes(const BoxDepth& p, const DepthRuns& runs) {
  if (planes_kept(p) > 0) return 0;
  const int64_t slots = 2 * blocks_of(p.kd) + 1;
  return slots * kDepthThreads * runs.pixels * size_of(p.sums.dtype);
}

// Blocks whose shared memory a multiprocessor has at a time: it has 1024 bytes more than a block may ask for, and takes
// as many for each.
inline int64_t depth_blocks_fitting(const Arch& arch, int64_t shared_bytes) {
  return (arch.shared_bytes + 1024) / (shared_bytes + 1024);
}

// As depth_chunk, in groups of 8 planes, by blocks of which `blocks` are resident on a multiprocessor, or as many as
// their rings leave room for.
inline int64_t depth_group_chunk(const BoxDepth& p, const DepthRuns& r, const Arch& arch, int64_t ring, int blocks) {
  const int64_t columns = p.out.n * r.channels * depth_column_blocks(r);
  const int64_t planes = place_in_group(p.first_plane) + p.out.d, start = std::min(p.kd, 2 * p.sums.d);
  const int64_t fitting = std::max<int64_t>(1, depth_blocks_fitting(arch, ring));
  const int64_t resident = arch.multiprocessors * std::min<int64_t>(blocks, fitting);
  int64_t best = round_up(planes, kGroup), least = INT64_MAX;
  for (int64_t chunks = 1; chunks <= std::min<int64_t>(ceil_div(planes, kGroup), 256); ++chunks) {
    const int64_t length = round_up(ceil_div(planes, chunks), kGroup);
    const int64_t cost = ceil_div(columns * ceil_div(planes, length), resident) * (2 * length + start + kGroup);
    if (cost < least) least = cost, best = length;
  }
  return best;
}

inline void cut_depth_groups(const BoxDepth& p, const Arch& arch, const DepthRuns& runs, int64_t ring, int blocks,
                             Plan& plan) {
  const bool empty = p.out.n * p.out.c * p.out.d * p.out.h * p.out.w == 0;
  plan.tile_w = kDepthThreads * runs.pixels;
  plan.tile_h = 1;
  plan.threads = kDepthThreads;
  plan.tile_d = empty ? kGroup : int(depth_group_chunk(p, runs, arch, ring, blocks));
  plan.blocks = p.out.n * runs.channels * depth_column_blocks(runs) *
                ceil_div(place_in_group(p.first_plane) + p.out.d, plan.tile_d);
}

inline void configure_depth_groups(const BoxDepth& p, const Arch& arch, Plan& plan) {
  const DepthConfig config{.runs = depth_runs(p), .ending = depth_ending(p)};
  const DepthRuns& runs = config.runs;
  const int64_t ring = depth_ring_bytes(p, runs);
  const bool fits = ring <= arch.shared_bytes;
  plan.why = "sums along z that groups of planes share";
  cut_depth_groups(p, arch, runs, ring, kDepthGroupBlocks, plan);
  constexpr const char* file = "kernels/box/depth/kernel_groups.cuh";
  const int kept = planes_kept(p), rest = kept > 0 ? 0 : int(rest_of(p.kd));
  const Kernel any = kernel_of(file, "box::box_depth_any", {p.sums.dtype, runs.pixels});
  const Kernel own =
      kernel_of(file, "box::box_depth_groups",
                {p.sums.dtype, runs.pixels, runs.pixels > 1 ? type_name(p.out.dtype) : "void", kept, rest});
  plan.kernels = {fits ? first_offered(arch, own, any) : any};
  plan.shared_bytes = plan.kernels[0].name == own.name ? int(ring) : 0;
  plan.config = config;
}

// ---- DEPTH_RING: windows of more than 16 planes, each read once ---------------------------------------------------
// float32 boxes of k^3 on one NVIDIA H100, by the ring and by depth_groups, both passes, us (from 34 planes on a
// multiprocessor has room for one block alone):
//            31            41           63            73
//   256^3   127, 153     142, 166     153, 173      197, 220
//   512^3   887, 1057    960, 1118    964, 1119    1068, 1216

inline int64_t planes_ring_bytes(const BoxDepth& p, const DepthRuns& runs) {
  return int64_t(depth_ring_groups(p.kd)) * kGroup * kDepthThreads * 16 + depth_ring_bytes(p, runs);
}

inline const char* depth_ring_refusal(const BoxDepth& p, const Arch& arch) {
  if (const char* no = depth_groups_refusal(p, arch)) return no;
  if (planes_kept(p) > 0) return "registers hold windows of up to 16 planes";
  if (arch.major < 8) return "it needs asynchronous copies";
  const DepthRuns runs = depth_runs(p);
  if (runs.pixels == 1) return "no whole vectors of sums lie side by side";
  return planes_ring_bytes(p, runs) > arch.shared_bytes ? "windows this deep leave no shared memory" : nullptr;
}

inline void configure_depth_ring(const BoxDepth& p, const Arch& arch, Plan& plan) {
  const DepthConfig config{.runs = depth_runs(p), .ending = depth_ending(p)};
  const int64_t ring = planes_ring_bytes(p, config.runs);
  plan.why = "sums along z that groups of planes share, planes in a ring";
  cut_depth_groups(p, arch, config.runs, ring, kDepthRingBlocks, plan);
  plan.kernels = {kernel_of("kernels/box/depth/kernel_ring.cuh", "box::box_depth_ring",
                            {p.sums.dtype, config.runs.pixels, type_name(p.out.dtype), int(rest_of(p.kd))})};
  plan.shared_bytes = int(ring);
  plan.config = config;
}

constexpr Candidate<BoxDepth> kDepthCandidates[] = {
    {"depth_ring", depth_ring_refusal, nullptr, configure_depth_ring},
    {"depth_groups", depth_groups_refusal, nullptr, configure_depth_groups},
    {"depth", depth_refusal, nullptr, configure_depth},
};

inline Plan depth_plan(const BoxDepth& p, const Arch& arch, const char* pinned) {
  const double outputs = double(p.out.n * p.out.c * p.out.d * p.out.h * p.out.w);
  return choose(kDepthCandidates, p, arch, pinned,
                {.algorithm = "box",
                 .bytes = double(p.sums.n * p.sums.c * p.sums.d * p.sums.h * p.sums.w) * size_of(p.sums.dtype) +
                          outputs * size_of(p.out.dtype),
                 .flops = 2.0 * outputs});
}

inline DepthArgs depth_args(const BoxDepth& p, const Plan& plan, const DepthConfig& config) {
  const auto& [runs, ending] = config;
  const double voxels = double(p.kd) * double(p.kh) * double(p.kw);
  const int phase = is_integer(p.source) ? 0 : place_in_group(p.first_plane);
  return {.sums = p.sums.data,
          .out = p.out,
          .in_n = p.sums.stride_n,
          .in_c = p.sums.stride_c,
          .in_d = p.sums.stride_d,
          .in_h = p.sums.stride_h,
          .in_w = runs.interleaved > 1 ? 1 : p.sums.stride_w,
          .out_w = runs.interleaved > 1 ? 1 : p.out.stride_w,
          .length = runs.length,
          .interleaved = runs.interleaved,
          .columns = runs.length / runs.pixels * runs.rows,
          .column_blocks = unsigned(depth_column_blocks(runs)),
          .chunks = unsigned(ceil_div(phase + p.out.d, plan.tile_d)),
          .channels = unsigned(runs.channels),
          .d = int(p.sums.d),
          .w = int(p.sums.w),
          .plane_h = int(p.plane_h),
          .plane_w = int(p.plane_w),
          .kd = int(p.kd),
          .kh = int(p.kh),
          .kw = int(p.kw),
          .pad_z = int(p.place.pad_z),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .chunk = plan.tile_d,
          .outside = p.place.border == Border::constant ? p.outside : 0,
          .scale = p.scale,
          .area = ending.area,
          .border = p.place.border,
          .finish = ending.finish,
          .whole = ending.whole,
          .exact = ending.exact,
          .phase = phase,
          .reciprocal = reciprocal_of(p.sums.dtype == Dtype::f64, voxels),
          .mean = p.scale != 1};
}

}  // namespace torch_conv::box
