// What launches of this room need besides the plan, and what the rules of its variants share.
#pragma once

#include "core/refusals.h"
#include "kernels/direct3d/params.h"
#include "kernels/families.h"

namespace torch_conv::direct3d {

enum class Variant : int8_t { channels, planes, streaming, window, general };

struct StreamingConfig {
  StreamingShape shape;
  int stages;     // of the ring
  int lead;       // columns that the grid of tiles starts left of the output
  bool bulk;      // planes by bulk copies
  bool constant;  // the taps are kernel parameters by themselves (ConstantTaps)
};

struct PlanesShape {
  PlanesTile tile;
  int channels;        // of a block
  int units_x, units;  // threads along x, threads of a plane
  int lanes;           // threads set aside for a plane: whole warps, or `units`
  bool in_place;       // planes start on 16 bytes: outputs leave shared memory by bulk copies, else from the registers
  int slot_bytes, stage_bytes, stages;
  int threads() const { return 32 * (tile.warps + kPlanesMovers); }
  int shared_bytes() const { return stages * stage_bytes; }
};

struct WindowShape {
  int width, height;                     // of the tile
  int64_t part, pitch, rows, tap_pitch;  // of a part of a row, a row, a plane of the input, and a row of taps
  int64_t bytes;                         // of shared memory
  int64_t blocks, padded;                // of the grid; pixels of a plane of tiles
};

// The shape that belongs to the variant is filled.
struct Config {
  Variant variant;
  StreamingConfig streaming{};
  PlanesShape planes{};
  WindowShape window{};
};

inline bool sides_below(int64_t most, const Direct& p) {
  const Peers& peers = p.peers;
  return below(most, {p.in.d, p.in.h, p.in.w, p.out.d, p.out.h, p.out.w, peers.above.d, peers.below.d});
}

// Does the border put elements outside the volume, or zeros?
inline const char* border_refusal(const Direct& p) {
  const Placement& s = p.place;
  if (s.border == Border::skip) return "border 'skip'";
  if (s.border == Border::constant && !holds(p.in.dtype, s.value)) return "no voxel holds the border's value";
  return nullptr;
}

// 3^3 depthwise windows of float32, float16 and bfloat16, which several variants serve.
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
