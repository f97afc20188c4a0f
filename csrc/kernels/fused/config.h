// Shared by the variants of this kernel family: the launches' data besides the plan, the chains that a pipeline serves,
// and the kernels' arguments. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/fused/pipelines.h"

namespace torch_conv::fused {

// The data of a variant's launch besides the plan.
struct ChainConfig {
  Chain chain;
  bool bulk;      // boxes by bulk copies
  int boxes = 0;  // of a strip that streams along rows
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
  if (!elements) return {0, chain.halo};
  const bool tiny = (p.in.h <= chain.halo && !p.peers.any()) || p.in.w <= chain.halo;
  if (p.border == Border::circular && !chain.thins) return {chain.halo, 0};
  if (!chain.extends_rows || tiny) return {chain.first_radius, chain.halo - chain.first_radius};
  return {p.border == Border::circular ? chain.halo : chain.first_radius, 0};
}

// Rows of results that start on a word of so many and end on one.
inline bool whole_words(const Fused& p, int outputs) {
  const int64_t bytes = std::min<int64_t>(16, int64_t(outputs) * size_of(p.out.dtype));
  const bool whole = p.stages[p.count - 1].outputs() == 1 || p.stride_output * size_of(p.out.dtype) % bytes == 0;
  return whole && p.out.w % outputs == 0 && rows_start_on(p.out, bytes);
}

// Shards of an image, each with the rows of its neighbours. `thin` reads 0 beyond the end of a circular image,
// though rows exist there.
inline const char* shards_refusal(const Fused& p, const Chain& chain) {
  if (p.valid || p.stride > 1) return "'valid' or a stride reads no other shards";
  if (chain.thins && p.border == Border::circular) return "thinning at the ends of a circular image reads no shards";
  return p.peers.same_columns(p.in) ? nullptr : "shards of another layout";
}

inline const char* pipeline_refusal(const Fused& p) {
  if (const char* no = chain_dtype_refusal(p.in.dtype, p.out.dtype)) return no;
  if (p.in.stride_w != 1 || p.out.stride_w != 1) return "pixels of a row are not contiguous";
  if (!shared_host_taps(p)) return "windows on the GPU, or several sets of them";
  if (!below(kMostSide, {p.in.h, p.in.w})) return "2^30 rows or columns";
  if (p.valid && p.stride > 1) return "a stride with 'valid'";
  int numbers = 0;
  for (int s = 0; s < p.count; ++s) numbers += p.stages[s].number != 0;
  if (numbers > 1) return "numbers for several stages";
  const auto chain = find_chain(p);
  if (!chain) return "no pipeline of these windows";
  return p.peers.any() ? shards_refusal(p, *chain) : nullptr;
}

// The refusal of pipelines whose boxes of the image come by bulk copies.
inline const char* bulk_pipeline_refusal(const Fused& p, const Arch& arch) {
  const char* no = pipeline_refusal(p);
  return no ? no : plane_copy_refusal(p.in, arch);
}

inline Args args_of(const Fused& p, const Plan& plan, const ChainConfig& config) {
  const Edges edges = edges_of(p, config.chain);
  double number = 0;
  for (int s = 0; s < p.count; ++s) number += p.stages[s].number;  // at most one has one (pipeline_refusal)
  return {.planes = PlaneGeometry::of(p.in, p.out),
          .stride_output = p.stride_output,
          .first = p.valid ? config.chain.halo : 0,  // the image's pixel under output (0, 0)
          .order = TileOrder::of(ceil_div(p.in.w, plan.tile_w), ceil_div(p.in.h, plan.tile_h), p.in.c),
          .extend = edges.extend,
          .margin = edges.margin,
          .border = p.border,
          .value = float(p.value),
          .number = float(number),
          .bulk = config.bulk,
          .boxes = config.boxes};
}

}  // namespace torch_conv::fused
