// Combine + Arch -> Plan: vectors of neighbouring pixels, or single ones. Pure.
#pragma once

#include "core/plan.h"
#include "kernels/fused/combine/combine.h"

namespace torch_conv::fused {

void launch_combine(const Combine& p, const Plan& plan, const Site& site);

// The launch's data besides the plan.
struct CombineConfig {
  int vector;  // pixels of a thread
};

inline int64_t count_pixels(const Image& x) { return x.n * x.c * x.d * x.h * x.w; }

// Whether every pixel of `b` has the offset of the same pixel of `a`.
inline bool same_order(const Image& a, const Image& b) {
  const auto same = [](int64_t count, int64_t stride_a, int64_t stride_b) {
    return count == 1 || stride_a == stride_b;
  };
  return same(a.n, a.stride_n, b.stride_n) && same(a.c, a.stride_c, b.stride_c) && same(a.d, a.stride_d, b.stride_d) &&
         same(a.h, a.stride_h, b.stride_h) && same(a.w, a.stride_w, b.stride_w);
}

// Whether an image's pixels are contiguous. (No two of an output share an element.)
inline bool dense(const Image& x) {
  const int64_t last = (x.n - 1) * x.stride_n + (x.c - 1) * x.stride_c + (x.d - 1) * x.stride_d +
                       (x.h - 1) * x.stride_h + (x.w - 1) * x.stride_w;
  return last + 1 == count_pixels(x);
}

inline Image as_row(const Image& x) {
  return {.data = x.data, .dtype = x.dtype, .n = 1, .c = 1, .d = 1, .h = 1, .w = count_pixels(x), .stride_w = 1};
}

// The problem in fewer rows: dense images in one order are one row, whose pixels are found without a division,
// unless the step depends on a pixel's position.
inline Combine in_rows(const Combine& p) {
  bool alike = p.point != Point::thin && p.margin_y == 0 && p.margin_x == 0 && dense(p.out);
  for (int i = 0; i < p.windows; ++i) alike = alike && same_order(p.sums[i], p.out);
  if (p.point == Point::sharpen) alike = alike && same_order(p.centre, p.out);
  if (!alike) return p;
  Combine row = p;
  for (int i = 0; i < p.windows; ++i) row.sums[i] = as_row(p.sums[i]);
  row.centre = as_row(p.centre);
  row.out = as_row(p.out);
  return row;
}

// Pixels of 16 bytes of sums.
inline int vector_of(const Combine& p) { return 16 / size_of(p.sums[0].dtype); }

inline const char* pixels_refusal(const Combine& p, const Arch&) {
  return combines(p.point, p.windows) ? nullptr : "no pointwise step of so many windows";
}

inline const char* vectors_refusal(const Combine& given, const Arch& arch) {
  if (const char* no = pixels_refusal(given, arch)) return no;
  const Combine p = in_rows(given);
  const int vector = vector_of(p);
  const auto whole = [&](const Image& x) {
    return x.stride_w == 1 && x.w % vector == 0 && rows_start_on(x, vector * size_of(x.dtype));
  };
  bool serves = whole(p.out) && (count_outputs(p.point, p.windows) == 1 || p.stride_output % vector == 0);
  for (int i = 0; i < p.windows; ++i) serves = serves && whole(p.sums[i]);
  if (p.point == Point::sharpen) serves = serves && whole(p.centre);
  if (!serves) return "rows that are no whole vectors";
  return size_of(p.out.dtype) > size_of(p.sums[0].dtype) ? "an output wider than its sums" : nullptr;
}

inline void configure(const Combine& p, int vector, Plan& plan) {
  plan.threads = kCombineThreads;
  plan.blocks = ceil_div(count_pixels(p.out) / vector, kCombineThreads);
  plan.kernels = {kernel_of("kernels/fused/combine/kernel.cuh", "fused::fused_combine", {p.sums[0].dtype, vector})};
  plan.config = CombineConfig{vector};
}

inline void configure_vectors(const Combine& p, const Arch&, Plan& plan) {
  plan.why = "the pointwise end of a stage, 16 bytes of every sum a thread";
  configure(p, vector_of(p), plan);
}

inline void configure_pixels(const Combine& p, const Arch&, Plan& plan) {
  plan.why = "the pointwise end of a stage";
  configure(p, 1, plan);
}

constexpr Candidate<Combine> kCombineCandidates[] = {
    {"vectors", vectors_refusal, nullptr, configure_vectors, launch_combine},
    {"pixels", pixels_refusal, nullptr, configure_pixels, launch_combine},
};

inline Plan plan_cuda(const Combine& p, const Arch& arch, const char* pinned) {
  Plan base;
  base.algorithm = "combine";
  base.bytes = double(count_pixels(p.out)) *
               (p.windows * size_of(p.sums[0].dtype) + count_outputs(p.point, p.windows) * size_of(p.out.dtype) +
                (p.point == Point::sharpen ? size_of(p.centre.dtype) : 0));
  return choose(kCombineCandidates, p, arch, pinned, base);
}

}  // namespace torch_conv::fused
