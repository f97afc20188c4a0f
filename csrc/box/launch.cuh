// Grids and launches of the box room.
#pragma once

#include "box/kernel_march.cuh"
#include "box/kernel_plain.cuh"
#include "core/device.cuh"

namespace torch_conv::box {

inline Finish finish_of(const Placement& place) {
  switch (place.border) {
    case Border::constant: return place.value == 0 ? Finish::scale : Finish::value;
    case Border::skip: return place.normalized ? Finish::mean : Finish::scale;
    case Border::zero_output: return Finish::interior;
    case Border::replicate:
    case Border::reflect:
    case Border::symmetric:
    case Border::circular: return Finish::scale;
  }
  __builtin_unreachable();
}

// Bytes from row to row if all rows of all planes are dense and start on aligned vectors, else 0.
inline int pack_pitch(const Image& x) {
  const int64_t v = columns_per_thread(size_of(x.dtype)), size = size_of(x.dtype);
  auto whole = [&](int64_t stride, int64_t count) { return count == 1 || stride % v == 0; };
  const bool packs = x.stride_w == 1 && reinterpret_cast<uintptr_t>(x.data) % (v * size) == 0 &&
                     whole(x.stride_h, x.h) && whole(x.stride_c, x.c) && whole(x.stride_n, x.n);
  return packs && x.stride_h > 0 && x.stride_h * size <= INT_MAX ? int(x.stride_h * size) : 0;
}

inline Args make_args(const Box& p, const Plan& plan) {
  Args a{};
  a.in = p.in.data;
  a.out = p.out.data;
  a.in_stride_n = p.in.stride_n, a.in_stride_c = p.in.stride_c;
  a.in_stride_h = p.in.stride_h, a.in_stride_w = p.in.stride_w;
  a.out_stride_n = p.out.stride_n, a.out_stride_c = p.out.stride_c;
  a.out_stride_h = p.out.stride_h, a.out_stride_w = p.out.stride_w;
  a.planes = p.out.n * p.out.c, a.channels = p.out.c, a.work = plan.blocks;
  a.in_h = int(p.in.h), a.in_w = int(p.in.w), a.out_h = int(p.out.h), a.out_w = int(p.out.w);
  a.kh = int(p.kh), a.kw = int(p.kw), a.pad_y = int(p.place.pad_y), a.pad_x = int(p.place.pad_x);
  a.tile_w = plan.tile_w, a.strip_h = plan.tile_h;
  a.tiles = int(ceil_div(p.out.w, plan.tile_w)), a.strips = int(ceil_div(p.out.h, plan.tile_h));
  a.scale = p.scale, a.value = p.place.value;
  a.border = p.place.border, a.finish = finish_of(p.place);
  a.out_dtype = p.out.dtype;
  a.carry = plan.shared_bytes > shared_bytes_without_carry(p, plan.threads);
  a.pack_pitch = pack_pitch(p.in);
  a.out_packs = pack_pitch(p.out) > 0 && (a.tiles == 1 || a.tile_w % columns_per_thread(size_of(p.out.dtype)) == 0);
  return a;
}

// Blocks beyond the grid's limit loop over the rest of the work.
template <typename Kernel>
void launch(Kernel* kernel, const char* name, const Box& p, const Plan& plan, void* stream) {
  allow_shared(kernel, plan.shared_bytes);
  const unsigned grid = unsigned(std::min<int64_t>(plan.blocks, INT_MAX));
  kernel<<<grid, plan.threads, plan.shared_bytes, static_cast<cudaStream_t>(stream)>>>(make_args(p, plan));
  launch_check(name);
}

}  // namespace torch_conv::box
