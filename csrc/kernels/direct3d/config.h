// Helpers of the plans of all variants.
#pragma once

#include "core/refusals.h"

namespace torch_conv::direct3d {

inline bool sides_below(int64_t most, const Direct& p) {
  const Peers& peers = p.peers;
  return below(most, {p.in.d, p.in.h, p.in.w, p.out.d, p.out.h, p.out.w, peers.above.d, peers.below.d});
}

// Refuses borders that no element of the volume's dtype can hold.
inline const char* border_refusal(const Direct& p) {
  const Placement& s = p.place;
  if (s.border == Border::skip) return "border 'skip'";
  if (s.border == Border::constant && !holds(p.in.dtype, s.value)) return "no voxel holds the border's value";
  return nullptr;
}

// Refuses all but depthwise 3^3 windows of float32, float16 and bfloat16.
inline const char* depthwise_refusal(const Direct& p) {
  if (p.kd != 3 || p.kh != 3 || p.kw != 3) return "no 3x3x3";
  if (p.in.c != p.groups) return "sums over channels";
  if (p.in.dtype != p.out.dtype) return "another output dtype";
  if (p.in.dtype != Dtype::f32 && p.in.dtype != Dtype::f16 && p.in.dtype != Dtype::bf16)
    return "no float32, float16 or bfloat16";
  if (!p.place.unit_steps()) return "stride or dilation";
  if (p.place.border == Border::zero_output) return "border 'zero_output'";
  return border_refusal(p);
}

}  // namespace torch_conv::direct3d
