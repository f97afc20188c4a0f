// PLANES_MMA: 16-bit images with small planes, on tensor cores.
#pragma once

#include "kernels/depthwise/config.h"
#include "kernels/depthwise/planes_mma/params.h"

namespace torch_conv::depthwise {

void launch_planes_mma(const Depthwise& p, const Plan& plan, const Site& site);

// params.h explains the fields.
struct PlanesMmaConfig {
  PlanesMmaPolicy shape;
  int lead, tiles, strips, images, units, passes, stages;
  int image_bytes, image_bytes_out;
};

inline int64_t plane_bytes(const Image& x) { return x.h * x.w * size_of(x.dtype); }

// True if a unit's 16 columns hold the footprint of its 8 outputs, with loads of `load` pixels. Sets `lead`.
inline bool mma_lead(const Depthwise& p, int load, int& lead) {
  if (p.in.w % load) return false;
  lead = int(round_up(p.place.pad_x, load == 1 ? 1 : load));
  return p.kw - 1 - p.place.pad_x <= 8 - lead;
}

inline MmaRows mma_rows(const Depthwise& p, int strips) {
  if (p.place.pad_y != (p.kh - 1) / 2 || p.in.h < p.out.h) return MmaRows::any;
  return strips == 1 && p.in.h == p.out.h ? MmaRows::whole : MmaRows::inner;
}

constexpr int kMmaStaticShared = 1024;  // bytes: the barriers

inline int64_t planes_mma_shared(const Depthwise& p, const PlanesMmaConfig& c) {
  return 2 * kMmaGuard + int64_t(c.images) * (c.stages * int64_t(c.image_bytes) + 2 * int64_t(c.image_bytes_out)) +
         c.shape.group * mma_table_bytes(int(p.kh));
}

// Tunings: one NVIDIA H200, float16, microseconds in CUDA graphs.
inline PlanesMmaConfig planes_mma_config(const Depthwise& p, const Arch& arch) {
  PlanesMmaConfig c{};
  PlanesMmaPolicy& s = c.shape;
  s.kh = int(p.kh), s.pairs = p.out.w % 2 == 0;
  for (int load : {4, 2, 1})
    if (mma_lead(p, load, c.lead)) {
      s.load = load;
      break;
    }
  c.tiles = int(ceil_div(p.out.w, 8));
  // A strip has up to 16 rows, or is a whole plane of up to 28 rows if tiles and images make eight units.
  //
  //     7x7 64x384x28x28   whole planes 23.5 us (88 % of copy)   two strips of 14 rows 24.3 us
  //
  const bool whole_planes = p.out.h <= 28 && mma_rows(p, 1) == MmaRows::whole && c.tiles * p.in.n >= 8;
  c.strips = whole_planes ? 1 : int(ceil_div(p.out.h, 16));
  // A warp computes eight units: of several images where a plane has fewer, else of lower strips.
  c.images = 1;
  while (c.images * c.strips * c.tiles < 8 && 2 * c.images <= p.in.n) c.images *= 2;
  while (c.images * c.strips * c.tiles < 8 && 2 * c.strips <= p.out.h) c.strips *= 2;
  s.rows = int(ceil_div(p.out.h, c.strips));
  c.strips = int(ceil_div(p.out.h, s.rows));
  c.units = c.images * c.strips * c.tiles;
  c.passes = (c.units + 7) / 8;
  s.warps = int(ceil_div(c.passes, ceil_div(c.passes, 8)));
  // us of blocks of four warps and of eight:
  //
  //     7x7  64x768x14x14  13.1, 13.3
  //     5x5  64x384x32x32  31.2, 31.5
  //
  s.group = s.warps > 3 ? 1 : 4 / s.warps;
  if (s.group >= p.in.c) s.group = int(p.in.c);
  // Steps start on 16 bytes, and there are enough of them for all multiprocessors.
  const auto starts = [&](int group) {
    return group * plane_bytes(p.in) % 16 == 0 && group * plane_bytes(p.out) % 16 == 0;
  };
  while (s.group < p.in.c && !starts(s.group)) ++s.group;
  while (s.group % 2 == 0 && starts(s.group / 2) &&
         ceil_div(p.in.c, s.group) * ceil_div(p.in.n, c.images) < arch.multiprocessors)
    s.group /= 2;
  const auto pitch = [&](const Image& x) {
    int64_t bytes = round_up(s.group * plane_bytes(x), 16);
    // Four images of 14 columns are 32 bytes apart modulo 128, so that lanes read different banks.
    if (c.images > 1)
      while (bytes % 128 != 32) bytes += 16;
    return int(bytes);
  };
  c.image_bytes = pitch(p.in), c.image_bytes_out = pitch(p.out);
  const auto fit = [&] { return (arch.shared_bytes + 1024) / (planes_mma_shared(p, c) + 1024); };
  // Stages, and blocks of a multiprocessor (3x3):
  //
  //     16x96x112x112   two stages, two blocks 24.6 us   three stages, one block 25.8
  //     28x28           two stages 25.8                  three stages 24.7
  //
  c.stages = 3;
  if (fit() < 2) c.stages = 2;
  // More than 16 rows take more registers. 64x96x56x56, blocks of four warps, us:
  //
  //                                   7x7    5x5    3x3
  //     five                         25.2   24.6   24.0
  //     six (86, 89, 90 % of copy)   24.3   23.4   23.0
  //     seven (72 registers)         28.5   23.3   27.0
  //
  s.resident = s.group * s.warps > 4 ? 3 : s.rows > 16 ? 4 : 6;
  // With 24 resident warps, a lane has 80 registers.
  s.resident = int(std::max<int64_t>(1, std::min<int64_t>({s.resident, 24 / (s.group * s.warps), fit()})));
  s.inside = mma_rows(p, c.strips);
  s.many_passes = c.passes > s.warps, s.overlap = c.strips * s.rows > p.out.h;
  return c;
}

inline const char* planes_mma_refusal(const Depthwise& p, const Arch& arch) {
  if (p.sums == Sums::chain) return "sums not by one chain";
  if (!is_half(p.in.dtype)) return "no float16 or bfloat16";
  if (p.weights != p.in.dtype) return "weights of another dtype";
  if (!arch.bulk_copy) return "no bulk copies";
  if (!p.place.unit_steps_of_images()) return "stride or dilation";
  if (p.multiplier() != 1) return "several outputs a channel";
  if (p.kh > 9) return "window of more than 9 rows";
  if (p.in.n >= kMostSide || p.in.w > 128 || p.out.w > 128 || p.in.h > 1024 || p.out.h > 1024 ||
      plane_bytes(p.in) > 33000 || plane_bytes(p.out) > 33000)
    return "planes larger than 128 columns or 33000 bytes";
  int lead;
  if (!mma_lead(p, 1, lead) && !mma_lead(p, 2, lead) && !mma_lead(p, 4, lead))
    return "8 outputs with a footprint of more than 16 columns";
  for (const Image* x : {&p.in, &p.out}) {
    const bool dense = (x->stride_w == 1 || x->w == 1) && (x->stride_h == x->w || x->h == 1) &&
                       (x->stride_c == x->h * x->w || x->c == 1);
    if (!dense) return "planes of an image are not contiguous";
    const bool starts = reinterpret_cast<uintptr_t>(x->data) % 16 == 0 && x->c * plane_bytes(*x) % 16 == 0 &&
                        (x->n == 1 || x->stride_n * size_of(x->dtype) % 16 == 0);
    if (!starts) return "images do not start on 16 bytes";
  }
  const PlanesMmaConfig c = planes_mma_config(p, arch);
  if (c.shape.group * c.shape.warps > 16) return "planes that start on 16 bytes in groups of more than 16 only";
  if (c.lead > 64) return "padding of more than 64 columns";
  if (planes_mma_shared(p, c) > arch.shared_bytes - kMmaStaticShared) return "planes too large for shared memory";
  if (ceil_div(p.in.c, c.shape.group) * ceil_div(p.in.n, c.images) >= kMostSide) return "2^30 groups of planes";
  return nullptr;
}

inline void configure_planes_mma(const Depthwise& p, const Arch& arch, Plan& plan) {
  const PlanesMmaConfig c = planes_mma_config(p, arch);
  plan.why = "small planes of 16-bit pixels on tensor cores";
  plan.tile_w = int(p.out.w);
  plan.tile_h = int(p.out.h);
  plan.threads = 32 * c.shape.group * c.shape.warps;
  plan.shared_bytes = int(planes_mma_shared(p, c));
  const int64_t steps = ceil_div(p.in.c, c.shape.group) * ceil_div(p.in.n, c.images);
  // The grid has at most as many blocks as fit at once, and the fewest that keep the longest block as short.
  const int64_t most = int64_t(arch.multiprocessors) * c.shape.resident;
  plan.blocks = ceil_div(steps, ceil_div(steps, most));
  const PlanesMmaPolicy& s = c.shape;
  const TemplateArgument shape("depthwise::PlanesMmaPolicy",
                               {s.kh, s.rows,
                                s.inside == MmaRows::whole   ? "depthwise::MmaRows::whole"
                                : s.inside == MmaRows::inner ? "depthwise::MmaRows::inner"
                                                             : "depthwise::MmaRows::any",
                                s.load, s.pairs, s.many_passes, s.overlap, s.group, s.warps, s.resident});
  plan.kernels = {kernel_of("kernels/depthwise/planes_mma/kernel.cuh", "depthwise::depthwise_planes_mma",
                            {p.in.dtype, shape, argument_of(p.activation)})};
  plan.config = c;
}

}  // namespace torch_conv::depthwise
