// What the march is made of besides its passes: parameters, taps, elements, and the border of its boxes.
#pragma once

#include "core/device.cuh"
#include "core/tma.h"
#include "separable3d/plan.h"

namespace torch_conv::separable3d {

struct Window {
  const void* device;  // null: the taps stand in the parameters, from `start` on
  int start;
  int64_t stride_n, stride_c;
};

struct MarchParams {
  const void* in;
  void* out;
  int64_t in_stride_n, in_stride_c, in_stride_d, in_stride_h;
  int64_t out_stride_n, out_stride_c, out_stride_d, out_stride_h;
  int in_d, in_h, in_w, out_d, out_h, out_w;
  int pad_z, pad_y, pad_x, lead, chunk;
  unsigned tiles_x, tiles_y, chunks, channels;
  float value;
  Border border;
  bool patch;         // the zeros of bulk copies outside the image are not what the border asks for
  Window windows[3];  // x, y, z; unused where the windows are fixed, which stand kTapPitch floats apart
  alignas(16) unsigned char taps[3 * kInlineTapBytes];
};

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

// The taps of one axis: from shared memory, or, one window for all that came with the launch, as constants of the code.
template <int K, bool kFixed>
__device__ __forceinline__ void read_taps(float (&tap)[K], const float* shared, const MarchParams& p, int axis) {
  if constexpr (kFixed) {
#pragma unroll
    for (int i = 0; i < K; ++i) tap[i] = reinterpret_cast<const float*>(p.taps)[axis * kTapPitch + i];
  } else {
#pragma unroll
    for (int i = 0; i < K; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(shared + axis * kTapPitch + i);
      tap[i] = four.x;
      if (i + 1 < K) tap[i + 1] = four.y;
      if (i + 2 < K) tap[i + 2] = four.z;
      if (i + 3 < K) tap[i + 3] = four.w;
    }
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

// An element of the box that lies outside the image, in the upper 16 bits of `what`; the lower ones are the element of
// the box that it repeats, ...
constexpr unsigned kValue = 0xffff;  // ... or the border's value,
constexpr unsigned kFar = 0xfffe;    // ... or element `offset` of the plane, which is not in the box
struct Patch {
  unsigned what;
  int offset;
};

// Where a block's boxes lie: element (0, 0) is element (y, x) of a plane.
struct BoxOrigin {
  int y, x;
};

// Lists what lies outside the image among the h x w elements of the box that outputs need, from element (0, left) on:
// the columns of rows inside, then whole rows; returns how many. Neighbouring lanes patch neighbouring elements.
template <typename T, int K>
__device__ __forceinline__ int list_border(Patch* list, const MarchParams& p, BoxOrigin at, int left, int h, int w) {
  constexpr MarchShape S = march_shape(sizeof(T), K);
  const int x0 = at.x + left;
  const int above = min(max(-at.y, 0), h), below = min(max(at.y + h - p.in_h, 0), h - above),
            inside = h - above - below;
  const int before = min(max(-x0, 0), w), behind = min(max(x0 + w - p.in_w, 0), w - before), columns = before + behind;
  const int count = inside * columns + (above + below) * w;
  for (int i = threadIdx.x; i < count; i += S.threads()) {
    const int j = i - inside * columns, q = j < 0 ? i % columns : j / w;
    const int r = j < 0 ? above + i / columns : q < above ? q : q + inside;
    const int c = j >= 0 ? j % w : q < before ? q : q + w - columns;
    const int my = map_index(at.y + r, p.in_h, p.border), mx = map_index(x0 + c, p.in_w, p.border);
    const int br = my - at.y, bc = mx - at.x;
    const bool near = br >= 0 && br < S.box_h() && bc >= 0 && bc < S.pitch();
    const unsigned source = my < 0 || mx < 0 ? kValue : near ? unsigned(br * S.pitch() + bc) : kFar;
    list[i] = {unsigned(r * S.pitch() + left + c) << 16 | source, int(my * p.in_stride_h) + mx};
  }
  return count;
}

// What a patch puts into the box.
template <typename T>
__device__ __forceinline__ T patched(const T* box, Patch patch, const T* plane, T value) {
  const unsigned source = patch.what & 0xffff;
  return source < kFar ? box[source] : source == kFar ? plane[patch.offset] : value;
}

}  // namespace torch_conv::separable3d
