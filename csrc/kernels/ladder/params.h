// What the host and the kernels of this kernel family agree on: the signals, images or volumes of one launch, and a
// window in constant memory.
#pragma once

#include "core/problem.h"
#include "kernels/ladder/problem.h"

namespace torch_conv::ladder {

// w numbers a row; blockIdx.y chooses the row, the grid's x covers it.
struct Rows {
  const float* in;
  float* out;
  int w;

#ifdef __CUDACC__
  __device__ int64_t row() const { return int64_t(blockIdx.y) * w; }
  __device__ bool inside(int x) const { return unsigned(x) < unsigned(w); }

  // Ghost cells: outside stands 0.
  __device__ float read(int x) const { return inside(x) ? in[row() + x] : 0.0f; }

  // The last block of a row hangs over its end; its outer threads store nothing.
  __device__ void write(int x, float value) const {
    if (inside(x)) out[row() + x] = value;
  }
#endif
};

// h x w pixels a plane; blockIdx.z chooses the plane, the other two axes of the grid cover it.
struct Planes {
  const float* in;
  float* out;
  int h, w;

#ifdef __CUDACC__
  __device__ int64_t plane() const { return int64_t(blockIdx.z) * h * w; }
  __device__ bool inside(int y, int x) const { return unsigned(y) < unsigned(h) && unsigned(x) < unsigned(w); }

  // Zero padding: outside stands 0.
  __device__ float read(int y, int x) const { return inside(y, x) ? in[plane() + int64_t(y) * w + x] : 0.0f; }

  // The last blocks of a row or column hang over the image; their outer threads store nothing.
  __device__ void write(int y, int x, float value) const {
    if (inside(y, x)) out[plane() + int64_t(y) * w + x] = value;
  }
#endif
};

// d x h x w voxels a volume. blockIdx.z counts the layers of blocks along z, volume after volume; the other two axes of
// the grid cover a plane.
struct Volumes {
  const float* in;
  float* out;
  int d, h, w;
  int layers;  // of one volume

#ifdef __CUDACC__
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
#endif
};

// A window in constant memory. The textbook declares a __constant__ array and copies the taps there before each
// launch. That array is one per module: two streams that filter with different windows race for it, the copy costs a
// node of its own, and its host memory has to outlive a captured graph. A kernel's parameters lie in constant memory
// too, but each launch has its own: the same cache, the same broadcast, no copy and no race.
template <int N>
struct ConstantWindow {
  float tap[N];

  static ConstantWindow from(const float* taps, int count) {
    ConstantWindow window{};
    for (int i = 0; i < count; ++i) window.tap[i] = taps[i];
    return window;
  }

#ifdef __CUDACC__
  // The taps as an array anywhere in memory, for the naive rungs: a generic pointer of which the compiler knows
  // nothing. If it sees what the pointer points at, it reads constant memory after all, and rung 1 becomes rung 2.
  __device__ const float* pointer() const {
    const float* taps = tap;
    asm("" : "+l"(taps));
    return taps;
  }
#endif
};

// Taps that a window in constant memory holds: of signals and images, of short passes along one axis, of whole windows
// of volumes. A launch copies all of its parameters, and 45 taps of a separable filter need not drag 32000 bytes along.
constexpr int kMaxTaps = kLadderTapBytes / sizeof(float);
constexpr int kFewTaps = 64;
constexpr int kMaxTaps3d = kLadder3dTapBytes / sizeof(float);

}  // namespace torch_conv::ladder
