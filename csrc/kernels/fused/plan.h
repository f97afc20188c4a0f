// Fused + Arch -> Plan: which pipeline serves the chain, and with which tile. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/families.h"
#include "kernels/fused/pipelines.h"

namespace torch_conv::fused {

// What the launch needs besides the plan.
struct Config {
  bool bulk;  // boxes by bulk copies
  TileShape shape;
  MarchShape march;
  int boxes;  // of MARCH
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
  const bool tiny = (p.in.h <= chain.reach && !p.beside.any()) || p.in.w <= chain.reach;
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

// Shards of an image, each with the rows of those beside it. What `thin` reads beyond the end of a circular image is 0,
// though rows stand there.
inline const char* shards_refusal(const Fused& p, const Chain& chain) {
  if (p.valid || p.stride > 1) return "'valid' or a stride reads no other shards";
  if (chain.thins && p.border == Border::circular) return "thinning at the ends of a circular image reads no shards";
  return p.beside.same_columns(p.in) ? nullptr : "shards of another layout";
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
  const auto chain = find_chain(p);
  if (!chain) return "no pipeline of these windows";
  return p.beside.any() ? shards_refusal(p, *chain) : nullptr;
}

inline const char* tile_tma_refusal(const Fused& p, const Arch& arch) {
  const char* no = tile_refusal(p, arch);
  return no ? no : plane_copy_refusal(p.in, arch);
}

inline int64_t count_tiles(const Fused& p, const TileShape& shape) {
  return p.in.n * p.in.c * ceil_div(p.in.w, shape.width()) * ceil_div(p.in.h, shape.height());
}

// Edges that are computed again take a block three times as long, which few blocks do not hide (structure tensor 5 on
// one NVIDIA H200, one launch against filters one by one: 1024^2 40 and 33 us, 2048^2 49 and 98). Of shards those have
// copies of rows and of outputs as well.
inline const char* tile_loses(const Fused& p, const Arch& arch) {
  const Chain chain = *find_chain(p);
  const bool mends = chain.count > 1 && !chain.extends_rows;
  const bool loses = mends && !p.wanted && !p.beside.any() && count_tiles(p, chain.shape) < 4 * arch.multiprocessors;
  return loses ? "filters one by one are faster on small images" : nullptr;
}

inline void configure_tile(const Fused& p, bool bulk, Plan& plan) {
  const Chain chain = *find_chain(p);
  const TileShape& shape = chain.shape;
  const bool aligned = !p.valid && whole_words(p, shape.columns / chain.stride);
  plan.why = p.beside.any() ? "one box of the image, stages in registers, through all shards"
                            : "one box of the image, stages in registers";
  plan.tile_w = shape.width(), plan.tile_h = shape.height();
  plan.threads = 32 * TileShape::warps;
  plan.shared_bytes = chain.shared_bytes;
  plan.blocks = count_tiles(p, shape);
  const Kernel kernel =
      kernel_of("kernels/fused/tile/kernel.cuh", "fused::fused_tile", {chain.text(), p.in.dtype, p.out.dtype, aligned});
  plan.kernels = {of_shards(kernel, p.beside.any())};
  plan.config = Config{.bulk = bulk,
                       .shape = shape,
                       .march = {},
                       .boxes = 0,
                       .edges = edges_of(p, chain),
                       .first = p.valid ? chain.reach : 0,
                       .pack = chain.pack};
}
inline void configure_tile_tma(const Fused& p, const Arch&, Plan& plan) { configure_tile(p, true, plan); }
inline void configure_tile_plain(const Fused& p, const Arch&, Plan& plan) { configure_tile(p, false, plan); }

inline const char* march_refusal(const Fused& p, const Arch& arch) {
  if (const char* no = tile_tma_refusal(p, arch)) return no;
  const Chain chain = *find_chain(p);
  if (!chain.marches) return "no sum of windows of 9 taps and more";
  if (!p.beside.all(tma::words_possible)) return "other shards' rows not 16-byte aligned";
  return edges_of(p, chain).margin > 0 ? "a border that is not made of pixels" : nullptr;
}

inline int64_t march_blocks(const Fused& p, const MarchShape& shape, int boxes) {
  return p.in.n * p.in.c * ceil_div(p.in.w, shape.width()) * ceil_div(p.in.h, shape.height(boxes));
}

// Long strips sum few rows twice, but the grid's last ones run alone: the least of rounds of resident blocks and a part
// of a round more, times boxes. That part decides 9 taps at 8192^2 on one NVIDIA H200: one to four rounds take 184,
// 164, 159 and 157 us; at 4096^2 50, 45, 46 and 49. With 13 taps 176, 169, 174 and 178; 50, 57, 60 and 65.
inline int march_boxes(const Fused& p, const MarchShape& shape, const Arch& arch) {
  const int64_t fitting = arch.shared_bytes / (shape.shared_bytes(size_of(p.in.dtype)) + 1024);
  const int64_t resident = arch.multiprocessors * std::max<int64_t>(1, std::min<int64_t>(shape.blocks, fitting));
  const int fewest = 2 * shape.radius / shape.rows + 1, most = int(ceil_div(p.in.h + 2 * shape.radius, shape.rows));
  const double tail = shape.radius > 4 ? 0.15 : 0.7;
  int best = fewest;
  double least = 1e300;
  for (int boxes = fewest; boxes <= std::min(most, fewest + 256); ++boxes) {
    const double cost = (double(ceil_div(march_blocks(p, shape, boxes), resident)) + tail) * boxes;
    if (cost <= least) least = cost, best = boxes;
  }
  return best;
}

// 4096^2 in strips of 16 rows, as small images would have them, takes 49 us with 9 taps, in tiles 49; in strips of 24
// rows with 13 taps 65 us, in tiles 74.
inline const char* march_loses(const Fused& p, const Arch& arch) {
  const MarchShape shape = find_chain(p)->march;
  const bool loses = shape.height(march_boxes(p, shape, arch)) < 4 * shape.radius;
  return loses ? "tiles are faster on small images" : nullptr;
}

inline void configure_march(const Fused& p, const Arch& arch, Plan& plan) {
  const Chain chain = *find_chain(p);
  const MarchShape& shape = chain.march;
  const int boxes = march_boxes(p, shape, arch);
  const bool aligned = !p.valid && whole_words(p, shape.columns);
  plan.why = p.beside.any() ? "a warp a strip, every row summed once, through all shards"
                            : "a warp a strip, every row summed once";
  plan.tile_w = shape.width(), plan.tile_h = shape.height(boxes);
  plan.threads = 32;
  plan.shared_bytes = shape.shared_bytes(size_of(p.in.dtype));
  plan.blocks = march_blocks(p, shape, boxes);
  const Kernel kernel = kernel_of("kernels/fused/march/kernel.cuh", "fused::fused_march",
                                  {chain.text(), p.in.dtype, p.out.dtype, aligned});
  plan.kernels = {of_shards(kernel, p.beside.any())};
  plan.config = Config{.bulk = true,
                       .shape = chain.shape,
                       .march = shape,
                       .boxes = boxes,
                       .edges = edges_of(p, chain),
                       .first = p.valid ? chain.reach : 0,
                       .pack = chain.pack};
}

// In the order of preference.
constexpr Candidate<Fused> kCandidates[] = {
    {"march", march_refusal, march_loses, configure_march},
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

inline Args args_of(const Fused& p, const Plan& plan, const Config& config) {
  double number = 0;
  for (int s = 0; s < p.count; ++s) number += p.stages[s].number;  // at most one has one (tile_refusal)
  return {.planes = PlaneGeometry::of(p.in, p.out),
          .stride_output = p.stride_output,
          .first = config.first,
          .order = TileOrder::of(ceil_div(p.in.w, plan.tile_w), ceil_div(p.in.h, plan.tile_h), p.in.c),
          .extend = config.edges.extend,
          .margin = config.edges.margin,
          .border = p.border,
          .value = float(p.value),
          .number = float(number),
          .bulk = config.bulk,
          .boxes = config.boxes};
}

}  // namespace torch_conv::fused
