// What the 3-D rungs share: the volumes of one launch, and the choice of a window's size in constant memory.
#pragma once

#include "ladder/planes.cuh"

namespace torch_conv::ladder {

// d x h x w voxels a volume. blockIdx.z counts the layers of blocks along z, volume after volume; the other two axes of
// the grid cover a plane.
struct Volumes {
  const float* in;
  float* out;
  int d, h, w;
  int layers;  // of one volume

  // The first voxel of this block's tile.
  __device__ int left() const { return blockIdx.x * blockDim.x; }
  __device__ int top() const { return blockIdx.y * blockDim.y; }
  __device__ int front() const { return blockIdx.z % layers * blockDim.z; }

  __device__ int64_t at(int z, int y, int x) const {
    const int64_t volume = blockIdx.z / layers;
    return ((volume * d + z) * h + y) * w + x;
  }
  __device__ bool inside(int z, int y, int x) const {
    return unsigned(z) < unsigned(d) && unsigned(y) < unsigned(h) && unsigned(x) < unsigned(w);
  }

  // Zero padding: outside stands 0.
  __device__ float read(int z, int y, int x) const { return inside(z, y, x) ? in[at(z, y, x)] : 0.0f; }

  // The last blocks along each axis hang over the volume; their outer threads store nothing.
  __device__ void write(int z, int y, int x, float value) const {
    if (inside(z, y, x)) out[at(z, y, x)] = value;
  }
};

inline int layers_of(const Ladder3d& p) { return int(ceil_div(p.d, p.block_z)); }
inline Volumes volumes_of(const Ladder3d& p, const float* in, float* out) {
  return {.in = in, .out = out, .d = int(p.d), .h = int(p.h), .w = int(p.w), .layers = layers_of(p)};
}
inline dim3 block_of(const Ladder3d& p) { return dim3(p.block_x, p.block_y, p.block_z); }
inline dim3 grid_of(const Ladder3d& p) {
  return dim3(ceil_div(p.w, p.block_x), ceil_div(p.h, p.block_y), unsigned(p.volumes * layers_of(p)));
}

// Calls launch(window) with the smallest of three windows that holds the taps: a launch copies all of its parameters,
// and 45 taps of a separable filter need not drag 32000 bytes along.
template <typename Launch>
void with_window(const float* taps, int count, Launch&& launch) {
  if (count <= 64) launch(Window<64>::from(taps, count));
  else if (count <= kMaxTaps) launch(Window<kMaxTaps>::from(taps, count));
  else launch(Window<kLadder3dTapBytes / sizeof(float)>::from(taps, count));
}

}  // namespace torch_conv::ladder
