// PLANES_MMA: 16-bit images with small planes, on tensor cores.
#pragma once

#include "kernels/depthwise/config.h"
#include "kernels/depthwise/planes_mma/params.h"

namespace torch_conv::depthwise {

void launch_planes_mma(const Depthwise& p, const Plan& plan, const Site& site);

struct PlanesMmaConfig {
  int rows, load, lead;  // rows of a strip, pixels a lane reads at once, columns of a window left of its outputs
  int tiles, strips, images, units, passes;
  int group, warps, stages;
  int image_bytes, image_bytes_out;
  int resident;
};

inline int64_t plane_bytes(const Image& x) { return x.h * x.w * size_of(x.dtype); }

// Do a unit's 16 columns hold what its 8 outputs see where lanes read `load` pixels at once? Sets how many columns lie
// left of the outputs.
inline bool mma_lead(const Depthwise& p, int load, int& lead) {
  if (p.in.w % load) return false;
  lead = int(round_up(p.place.pad_x, load == 1 ? 1 : load));
  return p.kw - 1 - p.place.pad_x <= 8 - lead;
}

inline MmaRows mma_rows(const Depthwise& p, int strips) {
  if (p.place.pad_y != (p.kh - 1) / 2 || p.in.h < p.out.h) return MmaRows::any;
  return strips == 1 && p.in.h == p.out.h ? MmaRows::whole : MmaRows::inner;
}

// The kernel's barriers are static.
constexpr int kMmaOwnShared = 1024;

inline int64_t planes_mma_shared(const Depthwise& p, const PlanesMmaConfig& c) {
  return 2 * kMmaGuard + int64_t(c.images) * (c.stages * int64_t(c.image_bytes) + 2 * int64_t(c.image_bytes_out)) +
         c.group * mma_table_bytes(int(p.kh));
}

// Tunings: one NVIDIA H200, float16, microseconds in CUDA graphs.
inline PlanesMmaConfig planes_mma_config(const Depthwise& p, const Arch& arch) {
  PlanesMmaConfig c{};
  for (int load : {4, 2, 1})
    if (mma_lead(p, load, c.lead)) {
      c.load = load;
      break;
    }
  c.tiles = int(ceil_div(p.out.w, 8));
  // Strips of up to 16 rows, or whole planes of up to 28 where tiles and images make eight units. Measured on one
  // NVIDIA H200, 64x384x28x28 float16, 7x7: whole planes 23.5 us (88 % of copy), two strips of 14 rows 24.3 us.
  const bool whole = p.out.h <= 28 && mma_rows(p, 1) == MmaRows::whole && c.tiles * p.in.n >= 8;
  c.strips = whole ? 1 : int(ceil_div(p.out.h, 16));
  // Eight units a warp: of several images where a plane has fewer, else of lower strips.
  c.images = 1;
  while (c.images * c.strips * c.tiles < 8 && 2 * c.images <= p.in.n) c.images *= 2;
  while (c.images * c.strips * c.tiles < 8 && 2 * c.strips <= p.out.h) c.strips *= 2;
  c.rows = int(ceil_div(p.out.h, c.strips));
  c.strips = int(ceil_div(p.out.h, c.rows));
  c.units = c.images * c.strips * c.tiles;
  c.passes = (c.units + 7) / 8;
  c.warps = int(ceil_div(c.passes, ceil_div(c.passes, 8)));
  // Four warps: blocks of eight took 13.3 us where these take 13.1 (64x768x14x14, 7x7), and 31.5 where these take 31.2
  // (64x384x32x32, 5x5).
  c.group = c.warps > 3 ? 1 : 4 / c.warps;
  if (c.group >= p.in.c) c.group = int(p.in.c);
  // Steps start on 16 bytes, and there are enough of them for all multiprocessors.
  const auto starts = [&](int group) {
    return group * plane_bytes(p.in) % 16 == 0 && group * plane_bytes(p.out) % 16 == 0;
  };
  while (c.group < p.in.c && !starts(c.group)) ++c.group;
  while (c.group % 2 == 0 && starts(c.group / 2) &&
         ceil_div(p.in.c, c.group) * ceil_div(p.in.n, c.images) < arch.multiprocessors)
    c.group /= 2;
  const auto pitch = [&](const Image& x) {
    int64_t bytes = round_up(c.group * plane_bytes(x), 16);
    // Four images of 14 columns lie 32 bytes apart modulo 128: no two lanes meet in a bank.
    if (c.images > 1)
      while (bytes % 128 != 32) bytes += 16;
    return int(bytes);
  };
  c.image_bytes = pitch(p.in), c.image_bytes_out = pitch(p.out);
  const auto fit = [&] { return (arch.shared_bytes + 1024) / (planes_mma_shared(p, c) + 1024); };
  // 112x112 (16x96 planes, 3x3): two stages and two blocks a multiprocessor 24.6 us, three and one 25.8 us. Two stages
  // of 28x28 25.8 us where three took 24.7.
  c.stages = 3;
  if (fit() < 2) c.stages = 2;
  // 64x96x56x56: six blocks of four warps 24.3, 23.4, 23.0 us (7x7, 5x5, 3x3: 86, 89, 90 % of copy), five 25.2, 24.6,
  // 24.0 us, seven (72 registers) 28.5, 23.3, 27.0 us. More than 16 rows take more registers.
  c.resident = c.group * c.warps > 4 ? 3 : c.rows > 16 ? 4 : 6;
  // Of 24 warps each has 80 registers.
  c.resident = int(std::max<int64_t>(1, std::min<int64_t>({c.resident, 24 / (c.group * c.warps), fit()})));
  return c;
}

inline const char* planes_mma_refusal(const Depthwise& p, const Arch& arch) {
  if (p.sums == Sums::chain) return "sums not by one chain";
  if (!half_precision(p.in.dtype)) return "no float16 or bfloat16";
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
    return "outputs that see more than 16 columns from 8";
  for (const Image* x : {&p.in, &p.out}) {
    const bool dense = (x->stride_w == 1 || x->w == 1) && (x->stride_h == x->w || x->h == 1) &&
                       (x->stride_c == x->h * x->w || x->c == 1);
    if (!dense) return "planes of an image do not lie side by side";
    const bool starts = reinterpret_cast<uintptr_t>(x->data) % 16 == 0 && x->c * plane_bytes(*x) % 16 == 0 &&
                        (x->n == 1 || x->stride_n * size_of(x->dtype) % 16 == 0);
    if (!starts) return "images do not start on 16 bytes";
  }
  const PlanesMmaConfig c = planes_mma_config(p, arch);
  if (c.group * c.warps > 16) return "planes that start on 16 bytes in groups of more than 16 only";
  if (c.lead > 64) return "padding of more than 64 columns";
  if (planes_mma_shared(p, c) > arch.shared_bytes - kMmaOwnShared) return "planes too large for shared memory";
  if (ceil_div(p.in.c, c.group) * ceil_div(p.in.n, c.images) >= kMostSide) return "2^30 groups of planes";
  return nullptr;
}

inline void configure_planes_mma(const Depthwise& p, const Arch& arch, Plan& plan) {
  const PlanesMmaConfig c = planes_mma_config(p, arch);
  plan.why = "small planes of 16-bit pixels on tensor cores";
  plan.tile_w = int(p.out.w);
  plan.tile_h = int(p.out.h);
  plan.threads = 32 * c.group * c.warps;
  plan.shared_bytes = int(planes_mma_shared(p, c));
  const int64_t steps = ceil_div(p.in.c, c.group) * ceil_div(p.in.n, c.images);
  // As many blocks as fit, none of which is to take a step more than the others need.
  const int64_t most = int64_t(arch.multiprocessors) * c.resident;
  plan.blocks = ceil_div(steps, ceil_div(steps, most));
  const bool pairs = p.out.w % 2 == 0;
  const MmaRows rows = mma_rows(p, c.strips);
  plan.kernels = {kernel_of("kernels/depthwise/planes_mma/kernel.cuh", "depthwise::depthwise_planes_mma",
                            {p.in.dtype, int(p.kh), c.rows,
                             rows == MmaRows::whole   ? "depthwise::MmaRows::whole"
                             : rows == MmaRows::inner ? "depthwise::MmaRows::inner"
                                                      : "depthwise::MmaRows::any",
                             c.load, pairs, c.passes > c.warps, c.strips * c.rows > p.out.h, argument_of(p.activation),
                             c.group, c.warps, c.resident})};
  plan.config = Config{launch_planes_mma, c};
}

}  // namespace torch_conv::depthwise
