// Direct + Arch -> Plan: the part of PRODUCTS. Pure.
#pragma once

#include "core/refusals.h"
#include "direct2d/products.h"

namespace torch_conv::direct2d {

inline bool is_half(Dtype d) { return d == Dtype::f16 || d == Dtype::bf16; }

inline const char* products_refusal(const Direct& p, const Arch& arch) {
  if (!is_half(p.in.dtype)) return "no float16 or bfloat16";
  if (p.sums == Sums::chain) return "one chain of multiply-adds is asked for";
  if (p.kh > kProductMost || p.kw > kProductMost) return "a window beyond 31x31";
  if (const char* no = planar_refusal(p)) return no;
  return plane_copy_refusal(p.in, arch);
}

// A product takes 128 to 256 taps and zeros, however small the window: below 16 taps multiply-adds are as fast. One
// NVIDIA H200, float16 4096^2, this and TILE: 5x5 21.1 us, 24.4; 7x7 29.2, 41.6; 9x9 32.6, 64.5; 15x15 57.0, 165.3;
// 4x4 and bfloat16 were not measured.
inline const char* products_lose(const Direct& p, const Arch&) {
  return p.kh * p.kw >= 16 && p.kw > 1 && p.kh > 1 ? nullptr : "multiply-adds are as fast below 4x4";
}

// Does the grid of tiles start one column left of the output? Windows that start on an odd column need it where there
// is no room for shifted matrices.
inline bool products_odd(const Direct& p) {
  return p.place.pad_x % 2 != 0 && !product_shape(int(p.kh), int(p.kw)).shifts();
}

// Where it does, the last column is left to the tiles before it rather than to tiles of its own.
inline int64_t products_tiles_x(const Direct& p) {
  const int64_t w = ProductShape::width();
  return p.out.w % w == 0 ? p.out.w / w : ceil_div(p.out.w + products_odd(p), w);
}

inline void fill_products(const Direct& p, Plan& plan) {
  const ProductShape s = product_shape(int(p.kh), int(p.kw));
  const bool odd = products_odd(p), packs = aligned_rows(p.out) && (!odd || s.tiles() == 2);
  plan.algorithm = "tensor_core";
  plan.why = "half precision, window up to 31x31: products of matrices, sums in another order than 'direct'";
  plan.tile_w = s.width();
  plan.tile_h = s.height();
  plan.threads = 32 * s.warps;
  plan.shared_bytes = s.shared_bytes();
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.h, plan.tile_h) * products_tiles_x(p);
  plan.kernels = {
      kernel_of("direct2d/kernel_products.cuh", "direct2d::direct2d_products", {p.in.dtype, s.kh, s.kw, packs, odd})};
}

inline ProductArgs product_args(const Direct& p, const Plan& plan) {
  return {.planes = PlaneGeometry::of(p.in, p.out),
          .order = TileOrder::of(products_tiles_x(p), ceil_div(p.out.h, plan.tile_h), p.out.c),
          .multiplier = FastDivisor::of(unsigned(p.out.c / p.groups)),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .border = p.place.border,
          .value = float(p.place.value),
          .taps_n = p.taps.stride_n,
          .taps_c = p.taps.stride_c,
          .bias = static_cast<const float*>(p.bias),
          .beside = Neighbours::of(p.beside, p.in)};
}

}  // namespace torch_conv::direct2d
