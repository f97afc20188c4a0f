// PLANES: small planes that are contiguous in memory; a block computes several whole planes.
#pragma once

#include <numeric>

#include "kernels/depthwise/config.h"
#include "kernels/depthwise/planes/params.h"

namespace torch_conv::depthwise {

void launch_planes(const Depthwise& p, const Plan& plan, const Site& site);

struct PlanesConfig {
  PlanesPolicy shape;
  int stages;  // of a block
  int shared_bytes;
};

inline PlanesConfig planes_config(const Depthwise& p, const Arch& arch) {
  const Placement& s = p.place;
  const int size = size_of(p.in.dtype), taps = int(p.kh * p.kw), out_w = int(p.out.w), out_h = int(p.out.h);
  PlanesConfig c{};
  PlanesPolicy& w = c.shape;
  w = {.h = int(p.in.h),
       .w = int(p.in.w),
       .out_h = out_h,
       .out_w = out_w,
       .kh = int(p.kh),
       .kw = int(p.kw),
       .stride_y = int(s.stride_y),
       .stride_x = int(s.stride_x),
       .dilation_y = int(s.dilation_y),
       .dilation_x = int(s.dilation_x),
       .pad_y = int(s.pad_y),
       .pad_x = int(s.pad_x),
       .px = 1,
       .ry = 1,
       .group = 1,
       .multiplier = int(p.multiplier())};
  // The width of a strip: a vector of 16 bytes, or the width that leaves the fewest columns of the last strip empty.
  // All measurements here are of one NVIDIA H200. 7x7, half precision, 64x96x56x56, us: strips of 4 columns 57.3, of 8
  // columns 72.6.
  const int vector = 16 / size;
  if (out_w <= 16) w.px = out_w;
  else if (taps > 36 && out_w % 4 == 0 && out_w > 28) w.px = 4;
  else if (out_w % vector == 0) w.px = vector;
  else {
    double best = 0;
    for (int px = 4; px <= 14; ++px) {
      const double used = double(out_w) / double(round_up(out_w, px)) * px / (px + 1);
      if (used > best) best = used, w.px = px;
    }
  }
  // The size of the unrolled loops limits the rows of a thread. Bands have about the same height.
  const int most = std::max(1, std::min(8, 1500 / (taps * w.px)));
  w.ry = int(ceil_div(out_h, ceil_div(out_h, most)));
  const int units = w.strips() * w.bands(), most_units = size == 2 && taps <= 9 ? 64 : 128;
  // Small windows in half precision have 64 threads, all others 128. us of 64 and 128 threads:
  //
  //     float16  3x3  64x768x14x14  11.7, 12.0
  //              7x7  64x768x14x14  33.8, 30.5
  //     float32  3x3  64x384x28x28  44.7, 43.5
  //
  // If threads and channels allow, the planes of a block start on 16 bytes.
  const int limit = std::max(1, most_units / units);
  const auto starts = [&](const Image& x, int64_t group) {
    return group * x.h * x.w * size % 16 == 0 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0 &&
           (x.n == 1 || x.stride_n * size % 16 == 0) && x.c * x.h * x.w * size % 16 == 0;
  };
  while (w.group * 2 <= limit && w.group < p.out.c &&
         w.group * 2 * std::max(p.in.h * p.in.w, p.out.h * p.out.w) * size <= 16 * 1024 &&
         (p.out.n * p.out.c / (w.group * 2) >= 2 * arch.multiprocessors ||
          !(starts(p.in, w.group) && starts(p.out, w.group))))
    w.group *= 2;
  // With few planes, lower bands give every thread of a warp outputs. Many planes hide the latency of a thread. Half
  // precision, us with and without lower bands:
  //
  //     3x3       1x768x14x14   2.2, 2.9
  //     stride 2  64x96x56x56  19.2, 16.1
  //
  const int bands = 32 / (w.strips() * w.group);
  if (bands > w.bands() && p.out.n * p.out.c < 4 * arch.multiprocessors * w.group)
    w.ry = int(ceil_div(out_h, std::min(bands, out_h)));
  w.shifted =
      !(starts(p.in, w.group) && starts(p.out, w.group) && (w.multiplier == 1 || p.in.h * p.in.w * size % 16 == 0));
  c.stages = 2;  // 3: 26.0 instead of 24.4 us (3x3, half precision, 64x96x56x56)
  c.shared_bytes = w.zeros(size) + c.stages * w.stage(size) + 2 * w.result(size);
  const int live = std::min(w.ry, (w.kh - 1) * w.dilation_y / w.stride_y + 1) * w.px + w.columns() + taps;
  const int registers = std::min(168, (live + 32 + 7) / 8 * 8);
  w.resident = std::max(1, std::min({65536 / (registers * w.threads()), arch.shared_bytes / (c.shared_bytes + 1024),
                                     2048 / w.threads()}));
  return c;
}

inline const char* planes_refusal(const Depthwise& p, const Arch& arch) {
  const Placement& s = p.place;
  const auto dense = [](const Image& x) {
    const int64_t alignment = std::gcd(int64_t(16), x.w * size_of(x.dtype));  // of rows, in bytes
    return (x.stride_w == 1 || x.w == 1) && (x.stride_h == x.w || x.h == 1) && (x.stride_c == x.h * x.w || x.c == 1) &&
           reinterpret_cast<uintptr_t>(x.data) % alignment == 0 &&
           (x.n == 1 || x.stride_n * size_of(x.dtype) % alignment == 0);
  };
  const int64_t size = size_of(p.in.dtype);
  if (!arch.bulk_copy) return "no bulk copies";
  if (p.in.dtype == Dtype::f64) return "no float32, float16 or bfloat16";
  if (!dense(p.in) || !dense(p.out)) return "planes are not contiguous or rows not aligned";
  if (p.kh * p.kw > 49) return "a window of more than 49 taps";
  if (s.stride_y > 4 || s.stride_x > 4) return "a stride of more than 4";
  if ((p.kh - 1) * s.dilation_y > 48 || (p.kw - 1) * s.dilation_x > 48) return "a footprint of more than 48 pixels";
  if (s.pad_y > 48 || s.pad_x > 48) return "padding of more than 48";
  if (std::max({p.in.h * p.in.w, p.out.h * p.out.w}) * size > 64 * 1024) return "planes of more than 64 KiB";
  if (p.out.n * p.out.c >= int64_t(1) << 31) return "2^31 planes";
  const PlanesConfig c = planes_config(p, arch);
  if (c.shape.threads() > 512) return "more than 512 threads a plane";
  // The kernel's barriers are static.
  return c.shared_bytes <= arch.shared_bytes - 1024 ? nullptr : "planes larger than shared memory";
}

inline void configure_planes(const Depthwise& p, const Arch& arch, Plan& plan) {
  const PlanesConfig c = planes_config(p, arch);
  const PlanesPolicy& w = c.shape;
  plan.why = "whole planes by bulk copies";
  plan.tile_w = w.out_w, plan.tile_h = w.out_h, plan.tile_d = w.group;
  plan.threads = w.threads();
  plan.shared_bytes = c.shared_bytes;
  plan.blocks = std::min<int64_t>(ceil_div(p.out.c, w.group) * p.out.n, int64_t(arch.multiprocessors) * w.resident);
  const TemplateArgument shape("depthwise::PlanesPolicy", {w.h, w.w, w.out_h, w.out_w, w.kh, w.kw, w.stride_y,
                                                           w.stride_x, w.dilation_y, w.dilation_x, w.pad_y, w.pad_x,
                                                           w.px, w.ry, w.group, w.multiplier, w.shifted, w.resident});
  plan.kernels = {kernel_of("kernels/depthwise/planes/kernel.cuh", "depthwise::depthwise_planes",
                            {p.in.dtype, p.weights, shape, argument_of(p.activation)})};
  plan.config = c;
}

}  // namespace torch_conv::depthwise
