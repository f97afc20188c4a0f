// What kernels that march through volumes share: how far a block goes, where a window's taps stand, elements as
// float32, single stores.
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/border.h"
#include "core/device.cuh"

namespace torch_conv {

constexpr int kTapPitch = 16;     // floats of one window in shared memory
constexpr int kMostPlanes = 512;  // that a block reads: where they lie stands in shared memory

// Are the zeros that bulk copies bring from outside the volume not what the border asks for?
inline bool patches_border(Border border, double value) {
  return border != Border::zero_output && !(border == Border::constant && value == 0);
}

// Output planes of a block out of `d`, which reads `extra` planes more; cost(chunk) is what so many take.
template <class Cost>
int march_chunk(int64_t d, int64_t extra, const Cost& cost) {
  int64_t best = 1, least = INT64_MAX;
  const int64_t fewest = ceil_div(d, kMostPlanes - extra);
  for (int64_t chunks = fewest; chunks <= std::min(d, fewest + 256); ++chunks) {
    const int64_t chunk = ceil_div(d, chunks), now = cost(chunk);
    if (now < least) least = now, best = chunk;
  }
  return int(best);
}

// The taps of one axis in a kernel's parameters.
struct MarchTaps {
  const void* device;  // null: the taps stand in the parameters, from `start` on
  int start;
  int64_t stride_n, stride_c;
};

// Windows of k float32 taps for n x c volumes. Those on the host are copied to `bytes`, where the next one starts on a
// whole multiple of kTapPitch floats.
inline void take_taps(const Taps* const (&axes)[3], int64_t n, int64_t c, int64_t k, MarchTaps (&windows)[3],
                      unsigned char (&bytes)[3 * kInlineTapBytes]) {
  int64_t used = 0;
  for (int i = 0; i < 3; ++i) {
    const Taps& taps = *axes[i];
    windows[i] = {taps.on_host ? nullptr : taps.data, int(used), taps.stride_n, taps.stride_c};
    if (!taps.on_host) continue;
    const int64_t size = ((n - 1) * taps.stride_n + (c - 1) * taps.stride_c + k) * 4;
    if (size > kInlineTapBytes) throw std::logic_error("torch_conv: host taps are too large for a kernel's parameters");
    std::memcpy(bytes + used, taps.data, size);
    used = round_up(used + size, kTapPitch * 4);
  }
}

// The taps of one axis from shared memory.
template <int K>
__device__ __forceinline__ void read_taps(float (&tap)[K], const float* shared, int axis) {
#pragma unroll
  for (int i = 0; i < K; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(shared + axis * kTapPitch + i);
    tap[i] = four.x;
    if (i + 1 < K) tap[i + 1] = four.y;
    if (i + 2 < K) tap[i + 2] = four.z;
    if (i + 3 < K) tap[i + 3] = four.w;
  }
}

// Where a block's boxes lie: element (0, 0) is element (y, x) of a plane.
struct BoxOrigin {
  int y, x;
};

// What an element of a box that lies outside the volume repeats, besides an element of the box by its number:
constexpr unsigned kValue = 0xffff;  // the border's value,
constexpr unsigned kFar = 0xfffe;    // or an element of the plane that is not in the box

// A predicated store: branches around stores would stand between the arithmetic.
template <typename T>
__device__ __forceinline__ void store_if(bool condition, T* to, T value) {
  if constexpr (sizeof(T) == 4) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.b32 [%1], %2; }" ::"r"(int(condition)), "l"(to),
                 "f"(value)
                 : "memory");
  } else {
    unsigned short word = 0;
    memcpy(&word, &value, sizeof(T));
    if constexpr (sizeof(T) == 2)
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.b16 [%1], %2; }" ::"r"(int(condition)), "l"(to),
                   "h"(word)
                   : "memory");
    else
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.b8 [%1], %2; }" ::"r"(int(condition)), "l"(to),
                   "h"(word)
                   : "memory");
  }
}

// N elements as float32. Bytes become the low mantissa bits of 2^23: three cycles where a conversion takes eight.
template <int N, typename T>
__device__ __forceinline__ void read_pack(const T* from, float* to) {
  const auto pack = load_pack<N>(from);
  if constexpr (sizeof(T) == 1) {
    unsigned words[N / 4];
    memcpy(words, &pack, N);
#pragma unroll
    for (int e = 0; e < N; ++e)
      to[e] = __uint_as_float(__byte_perm(words[e / 4], 0x4b000000, 0x7440 | e % 4)) - 8388608.f;
  } else {
#pragma unroll
    for (int e = 0; e < N; ++e) to[e] = to_acc<float>(pack.v[e]);
  }
}

}  // namespace torch_conv
