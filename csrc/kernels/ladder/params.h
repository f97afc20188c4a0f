// Parameters of the ladder's kernels: signals, images or volumes, and a window in constant memory.
#pragma once

#include "core/problem.h"
#include "kernels/ladder/problem.h"

namespace torch_conv::ladder {

// Rows of w numbers. blockIdx.y is the row; the grid's x covers it.
struct Rows {
  const float* in;
  float* out;
  int w;

#ifdef __CUDACC__
  __device__ int64_t row() const { return int64_t(blockIdx.y) * w; }
  __device__ bool inside(int x) const { return unsigned(x) < unsigned(w); }

  // Ghost cells hold 0.
  __device__ float read(int x) const { return inside(x) ? in[row() + x] : 0.0f; }

  // Threads of the last block beyond the row's end store nothing.
  __device__ void write(int x, float value) const {
    if (inside(x)) out[row() + x] = value;
  }
#endif
};

// Planes of h x w pixels. blockIdx.z is the plane; the grid's other axes cover it.
struct Planes {
  const float* in;
  float* out;
  int h, w;

#ifdef __CUDACC__
  __device__ int64_t plane() const { return int64_t(blockIdx.z) * h * w; }
  __device__ bool inside(int y, int x) const { return unsigned(y) < unsigned(h) && unsigned(x) < unsigned(w); }

  // Zero padding.
  __device__ float read(int y, int x) const { return inside(y, x) ? in[plane() + int64_t(y) * w + x] : 0.0f; }

  // Threads beyond the image store nothing.
  __device__ void write(int y, int x, float value) const {
    if (inside(y, x)) out[plane() + int64_t(y) * w + x] = value;
  }
#endif
};

// Volumes of d x h x w voxels. blockIdx.z counts layers of blocks along z, volume after volume. The grid's other axes
// cover a plane.
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

  // Zero padding.
  __device__ float read(int z, int y, int x) const { return inside(z, y, x) ? in[at(z, y, x)] : 0.0f; }

  // Threads beyond the volume store nothing.
  __device__ void write(int z, int y, int x, float value) const {
    if (inside(z, y, x)) out[at(z, y, x)] = value;
  }
#endif
};

// A window in constant memory, as a kernel parameter: each launch has its own, without a copy. Textbooks copy the taps
// to a __constant__ array before each launch. A module has one such array: streams with different windows race for it.
// The copy is a node of its own in a captured graph, which its host memory must outlive.
template <int N>
struct ConstantWindow {
  float tap[N];

  static ConstantWindow from(const float* taps, int count) {
    ConstantWindow window{};
    for (int i = 0; i < count; ++i) window.tap[i] = taps[i];
    return window;
  }

#ifdef __CUDACC__
  // The naive rungs read the taps through a generic pointer, as any array in memory. The assembly hides the pointer's
  // origin: the compiler would read constant memory, and rung 1 would be rung 2.
  __device__ const float* pointer() const {
    const float* taps = tap;
    asm("" : "+l"(taps));
    return taps;
  }
#endif
};

// Taps of a window in constant memory: of signals and images, of short passes, of whole windows of volumes. A launch
// copies all of its parameters: a separable filter's 45 taps take the short window instead of 32000 bytes.
constexpr int kMaxTaps = kLadderTapBytes / sizeof(float);
constexpr int kFewTaps = 64;
constexpr int kMaxTaps3d = kLadder3dTapBytes / sizeof(float);

}  // namespace torch_conv::ladder
