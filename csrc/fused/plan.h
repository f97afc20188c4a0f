// Fused + Arch -> Plan: which pipeline serves the chain, and with which tile. Pure.
#pragma once

#include "core/refusals.h"
#include "core/rooms.h"
#include "fused/pipelines.h"

namespace torch_conv::fused {

// What the launch needs besides the plan.
struct Config {
  bool bulk;  // boxes by bulk copies
  TileShape shape;
  Edges edges;
  int first;  // the image's pixel under output (0, 0)
  void (*pack)(const Fused&, PackedTaps&);
};

inline bool shared_host_taps(const Fused& p) {
  for (int s = 0; s < p.count; ++s)
    for (int i = 0; i < p.stages[s].windows; ++i)
      for (const Taps* taps : {&p.stages[s].taps_x[i], &p.stages[s].taps_y[i]})
        if (!taps->on_host || taps->stride_n != 0 || taps->stride_c != 0) return false;
  return true;
}

inline Edges edges_of(const Fused& p, const Chain& chain) {
  const bool elements = p.border != Border::skip && p.border != Border::zero_output &&
                        (p.border != Border::constant || holds(p.in.dtype, p.value));
  if (p.valid) return {0, 0};
  if (!elements) return {0, chain.reach};
  const bool tiny = p.in.h <= chain.reach || p.in.w <= chain.reach;
  if (p.border == Border::circular && !chain.thins) return {chain.reach, 0};
  if (!chain.extends_rows || tiny) return {chain.first_radius, chain.reach - chain.first_radius};
  return {p.border == Border::circular ? chain.reach : chain.first_radius, 0};
}

// Rows of results that start on a word of so many and end on one.
inline bool whole_words(const Fused& p, int outputs) {
  const int64_t bytes = std::min<int64_t>(16, int64_t(outputs) * size_of(p.out.dtype));
  const bool whole = p.stages[p.count - 1].outputs() == 1 || p.stride_output * size_of(p.out.dtype) % bytes == 0;
  return whole && p.out.w % outputs == 0 && rows_start_on(p.out, bytes);
}

inline const char* tile_refusal(const Fused& p, const Arch&) {
  if (const char* no = chain_dtype_refusal(p.in.dtype, p.out.dtype)) return no;
  if (p.in.stride_w != 1 || p.out.stride_w != 1) return "pixels of a row do not lie side by side";
  if (!shared_host_taps(p)) return "windows on the GPU, or several sets of them";
  if (!below(kMostSide, {p.in.h, p.in.w})) return "2^30 rows or columns";
  if (p.valid && p.stride > 1) return "a stride with 'valid'";
  int numbers = 0;
  for (int s = 0; s < p.count; ++s) numbers += p.stages[s].number != 0;
  if (numbers > 1) return "numbers for several stages";
  return find_chain(p) ? nullptr : "no pipeline of these windows";
}

inline const char* tile_tma_refusal(const Fused& p, const Arch& arch) {
  const char* no = tile_refusal(p, arch);
  return no ? no : plane_copy_refusal(p.in, arch);
}

inline int64_t count_tiles(const Fused& p, const TileShape& shape) {
  return p.in.n * p.in.c * ceil_div(p.in.w, shape.width()) * ceil_div(p.in.h, shape.height());
}

// Edges that are computed again take a block three times as long, which few blocks do not hide (structure tensor 5 on
// one NVIDIA H200, one launch against filters one by one: 1024^2 40 and 33 us, 2048^2 49 and 98).
inline const char* tile_loses(const Fused& p, const Arch& arch) {
  const Chain chain = *find_chain(p);
  const bool mends = chain.count > 1 && !chain.extends_rows;
  const bool loses = mends && !p.wanted && count_tiles(p, chain.shape) < 4 * arch.multiprocessors;
  return loses ? "filters one by one are faster on small images" : nullptr;
}

inline void configure_tile(const Fused& p, bool bulk, Plan& plan) {
  const Chain chain = *find_chain(p);
  const TileShape& shape = chain.shape;
  const bool aligned = !p.valid && whole_words(p, shape.columns / chain.stride);
  plan.why = "one box of the image, stages in registers";
  plan.tile_w = shape.width(), plan.tile_h = shape.height();
  plan.threads = 32 * TileShape::warps;
  plan.shared_bytes = chain.shared_bytes;
  plan.blocks = count_tiles(p, shape);
  plan.kernels = {
      kernel_of("fused/kernel_tile.cuh", "fused::fused_tile", {chain.text(), p.in.dtype, p.out.dtype, aligned})};
  plan.config = Config{.bulk = bulk,
                       .shape = shape,
                       .edges = edges_of(p, chain),
                       .first = p.valid ? chain.reach : 0,
                       .pack = chain.pack};
}
inline void configure_tile_tma(const Fused& p, const Arch&, Plan& plan) { configure_tile(p, true, plan); }
inline void configure_tile_plain(const Fused& p, const Arch&, Plan& plan) { configure_tile(p, false, plan); }

// In the order of preference.
constexpr Candidate<Fused> kCandidates[] = {
    {"tile_tma", tile_tma_refusal, tile_loses, configure_tile_tma},
    {"tile", tile_refusal, tile_loses, configure_tile_plain},
};

inline Plan plan(const Fused& p, const Arch& arch, const char* pinned) {
  Plan base;
  base.algorithm = "fused";
  const double pixels = double(p.in.n) * double(p.in.c) * double(p.out.h) * double(p.out.w);
  base.bytes = double(p.in.n * p.in.c * p.in.h * p.in.w) * size_of(p.in.dtype) +
               p.stages[p.count - 1].outputs() * pixels * size_of(p.out.dtype);
  for (int s = 0; s < p.count; ++s) base.flops += 4.0 * p.stages[s].windows * double(p.stages[s].kh) * pixels;
  return choose(kCandidates, p, arch, pinned, base);
}

}  // namespace torch_conv::fused
