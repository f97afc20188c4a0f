// Direct + Arch -> Plan: which images `products` serves, with which tile, and its arguments. Pure.
#pragma once

#include "kernels/direct2d/config.h"
#include "kernels/direct2d/products/products.h"

namespace torch_conv::direct2d {

// Channels side by side that are made together: those of photographs, but a bias is one number of a plane.
inline int64_t product_channels(const Direct& p) {
  return p.groups == p.in.c && !p.bias ? photo_channels(p.in, p.out, p.beside) : 1;
}

inline ProductShape product_shape(const Direct& p) {
  const int channels = int(product_channels(p));
  return product_shape(int(p.kh), int(p.kw), channels, p.taps.stride_c == 0 ? 1 : channels);
}

// How a tile comes and goes: by a bulk copy, or, of rows that start anywhere, by those of single threads; straight from
// registers, or by way of shared memory.
inline bool products_bulk(const Direct& p) { return tma::words_possible(as_rows(p.in, product_channels(p))); }
inline bool products_pack(const Direct& p) { return aligned_rows(as_rows(p.out, product_channels(p))); }

inline const char* products_refusal(const Direct& p, const Arch& arch) {
  if (!is_half(p.in.dtype)) return "no float16 or bfloat16";
  if (p.sums == Sums::chain) return "one chain of multiply-adds is asked for";
  if (p.kh > kProductMost || p.kw > kProductMost) return "a window beyond 31x31";
  const int64_t channels = product_channels(p);
  if (const char* no = planar_refusal(p, channels)) return no;
  if (!below(kMostSide, {p.in.w * channels * size_of(p.in.dtype)})) return "rows of 2^30 bytes";
  if (!arch.bulk_copy) return "no bulk copies";
  const bool fits = product_shape(p).shared_bytes(!products_pack(p)) <= arch.shared_bytes;
  return fits ? nullptr : "not enough shared memory";
}

// Do windows start on odd columns of a bulk copy's box, where there is no room for shifted matrices of taps?
inline bool products_odd(const Direct& p) {
  return products_bulk(p) && p.place.pad_x % 2 != 0 && !product_shape(p).shifts();
}

// Tiles side by side, the last of which reaches the image's end.
inline int64_t products_across(const Direct& p) {
  const ProductShape s = product_shape(p);
  const int step = s.step(!products_pack(p));
  return tiles_across(p.out.w, step, s.width() - step);
}

inline void fill_products(const Direct& p, Plan& plan) {
  const ProductShape s = product_shape(p);
  plan.algorithm = "tensor_core";
  plan.why = "half precision, window up to 31x31: products of matrices, sums in another order than 'direct'";
  plan.tile_w = s.step(!products_pack(p));
  plan.tile_h = s.height;
  plan.threads = 32 * s.warps();
  plan.shared_bytes = s.shared_bytes(!products_pack(p));
  plan.blocks = p.out.n * (p.out.c / s.channels) * ceil_div(p.out.h, plan.tile_h) * products_across(p);
  plan.kernels = {kernel_of("kernels/direct2d/products/kernel.cuh", "direct2d::direct2d_products",
                            {p.in.dtype, s.kh, s.kw, s.channels, s.windows, products_bulk(p), products_pack(p),
                             products_odd(p), p.taps.narrow})};
}

inline void configure_products(const Direct& p, const Arch&, Plan& plan) {
  fill_products(p, plan);
  plan.config = Config{.variant = Variant::products};
}

inline ProductArgs product_args(const Direct& p, const Plan& plan) {
  return {.planes = PlaneGeometry::of(p.in, p.out),
          .order = TileOrder::of(products_across(p), ceil_div(p.out.h, plan.tile_h), p.out.c / product_channels(p)),
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
