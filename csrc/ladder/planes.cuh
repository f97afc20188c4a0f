// What all rungs share: the images of one launch, and a window in constant memory.
#pragma once

#include "core/device.cuh"
#include "core/rooms.h"

namespace torch_conv::ladder {

// h x w pixels a plane; blockIdx.z chooses the plane, the other two axes of the grid cover it.
struct Planes {
  const float* in;
  float* out;
  int h, w;

  __device__ int64_t plane() const { return int64_t(blockIdx.z) * h * w; }
  __device__ bool inside(int y, int x) const { return unsigned(y) < unsigned(h) && unsigned(x) < unsigned(w); }

  // Zero padding: outside stands 0.
  __device__ float read(int y, int x) const { return inside(y, x) ? in[plane() + int64_t(y) * w + x] : 0.0f; }

  // The last blocks of a row or column hang over the image; their outer threads store nothing.
  __device__ void write(int y, int x, float value) const {
    if (inside(y, x)) out[plane() + int64_t(y) * w + x] = value;
  }
};

// A window in constant memory. The textbook declares a __constant__ array and copies the taps there before each
// launch. That array is one per module: two streams that filter with different windows race for it, the copy costs a
// node of its own, and its host memory has to outlive a captured graph. A kernel's parameters lie in constant memory
// too, but each launch has its own: the same cache, the same broadcast, no copy and no race.
template <int N>
struct Window {
  float tap[N];

  static Window from(const float* taps, int count) {
    Window window{};
    for (int i = 0; i < count; ++i) window.tap[i] = taps[i];
    return window;
  }

  // The taps as an array anywhere in memory, for the naive rungs: a generic pointer of which the compiler knows
  // nothing. If it sees what the pointer points at, it reads constant memory after all, and rung 1 becomes rung 2.
  __device__ const float* pointer() const {
    const float* taps = tap;
    asm("" : "+l"(taps));
    return taps;
  }
};

constexpr int kMaxTaps = kLadderTapBytes / sizeof(float);

inline Planes planes_of(const Ladder2d& p) { return {.in = p.in, .out = p.out, .h = int(p.h), .w = int(p.w)}; }
inline dim3 block_of(const Ladder2d& p) { return dim3(p.block_x, p.block_y); }
inline dim3 grid_of(const Ladder2d& p) {
  return dim3(ceil_div(p.w, p.block_x), ceil_div(p.h, p.block_y), unsigned(p.planes));
}

}  // namespace torch_conv::ladder
