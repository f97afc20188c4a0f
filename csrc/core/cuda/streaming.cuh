// Device functions of kernels that stream through volumes: taps in shared memory, the three passes, the border.
#pragma once

#include "core/cuda/extend.cuh"
#include "core/cuda/packed.cuh"
#include "core/streaming.h"

namespace torch_conv {

// Reads the taps of one axis from shared memory.
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

// Writes the taps of channel c of sample n to shared memory, for read_taps. `bytes` holds host taps. The caller needs a
// barrier.
template <int K, int kThreads>
__device__ __forceinline__ void load_taps(float* shared, const StreamingTaps (&windows)[3], const unsigned char* bytes,
                                          int n, int c) {
  for (int i = threadIdx.x; i < 3 * kTapPitch; i += kThreads) {
    const StreamingTaps& window = windows[i / kTapPitch];
    const void* from = window.device ? window.device : bytes + window.start;
    if (i % kTapPitch < K)
      shared[i] = static_cast<const float*>(from)[n * window.stride_n + c * window.stride_c + i % kTapPitch];
  }
}

// The row pass of S neighbouring outputs. `from` is aligned to vectors of N elements; the first output's first tap
// reads the element kSkip behind `from`.
template <int N, int kSkip, int S, int K, typename T>
__device__ __forceinline__ void row_pass(const T* from, const float (&tap)[K], float (&sum)[S]) {
  constexpr int kVectors = (kSkip + S + K - 1 + N - 1) / N;
  float v[kVectors * N];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) widen_pack<N>(from + i * N, v + i * N);
#pragma unroll
  for (int e = 0; e < S; ++e) sum[e] = 0;
#pragma unroll
  for (int j = 0; j < K; ++j)
#pragma unroll
    for (int e = 0; e < S; ++e) sum[e] = fmaf(tap[j], v[kSkip + e + j], sum[e]);
}

// The column pass of R outputs, neighbours in y: plane_sum[o] from rows o .. o + K - 1 of a column of row sums.
template <int K, int R>
__device__ __forceinline__ void column_pass(const float (&tap)[K], const float* from, int pitch,
                                            float (&plane_sum)[R]) {
#pragma unroll
  for (int r = 0; r < R + K - 1; ++r) {
    const float v = from[r * pitch];
#pragma unroll
    for (int o = 0; o < R; ++o)
      if (r >= o && r - o < K) plane_sum[o] = fmaf(tap[r - o], v, r == o ? 0.f : plane_sum[o]);
  }
}

// The depth pass of N outputs. sum[j] holds taps 0 .. j of the output whose tap j reads the plane before. `ended`
// receives the outputs whose last tap reads this plane.
template <int K, int N>
__device__ __forceinline__ void depth_pass(const float (&tap)[K], const float (&plane_sum)[N], float (&sum)[K - 1][N],
                                           float (&ended)[N]) {
#pragma unroll
  for (int o = 0; o < N; ++o) {
    ended[o] = fmaf(tap[K - 1], plane_sum[o], sum[K - 2][o]);
#pragma unroll
    for (int j = K - 2; j > 0; --j) sum[j][o] = fmaf(tap[j], plane_sum[o], sum[j - 1][o]);
    sum[0][o] = fmaf(tap[0], plane_sum[o], 0.f);
  }
}

// The column pass of a plane of the border's value.
template <int K>
__device__ __forceinline__ float column_of(const float* taps, float value) {
  float row_sum = 0, plane_sum = 0;
  for (int j = 0; j < K; ++j) row_sum = fmaf(taps[j], value, row_sum);
  for (int i = 0; i < K; ++i) plane_sum = fmaf(taps[kTapPitch + i], row_sum, plane_sum);
  return plane_sum;
}

// A patch of an element outside the volume: the element's number in the box in the upper 16 bits, its source in the
// lower 16 bits. The source is another element of the box, or:
constexpr unsigned kValue = 0xffff;  // the border's value
constexpr unsigned kFar = 0xfffe;    // an element of the plane that is not in the box

// Lists the patches of the box at `at`, for the h x w elements from (0, left) on that outputs read: first columns of
// rows inside the in_h x in_w plane, then whole rows. Returns their number. Neighbouring lanes patch neighbouring
// elements. An entry of the list is entry(patch, the source's row, its column in the plane).
template <auto S, class List, class Entry>
__device__ __forceinline__ int list_border(List* list, SharedOrigin at, int left, int h, int w, int in_h, int in_w,
                                           Border border, const Entry& entry) {
  const int x0 = at.x + left;
  const int above = min(max(-at.y, 0), h), below = min(max(at.y + h - in_h, 0), h - above), inside = h - above - below;
  const int before = min(max(-x0, 0), w), behind = min(max(x0 + w - in_w, 0), w - before), columns = before + behind;
  const int count = inside * columns + (above + below) * w;
  for (int i = threadIdx.x; i < count; i += S.threads()) {
    const int j = i - inside * columns, q = j < 0 ? i % columns : j / w;
    const int r = j < 0 ? above + i / columns : q < above ? q : q + inside;
    const int c = j >= 0 ? j % w : q < before ? q : q + w - columns;
    const int my = map_index(at.y + r, in_h, border), mx = map_index(x0 + c, in_w, border);
    const int br = my - at.y, bc = mx - at.x;
    const bool near = br >= 0 && br < S.box_h() && bc >= 0 && bc < S.pitch();
    const unsigned source = my < 0 || mx < 0 ? kValue : near ? unsigned(br * S.pitch() + bc) : kFar;
    list[i] = entry(unsigned(r * S.pitch() + left + c) << 16 | source, my, mx);
  }
  return count;
}

// The value of a patch. `offset`: of the source in the plane, for kFar.
template <typename T>
__device__ __forceinline__ T patched(const T* box, unsigned patch, const T* plane, int offset, T value) {
  const unsigned source = patch & 0xffff;
  return source < kFar ? box[source] : source == kFar ? plane[offset] : value;
}

}  // namespace torch_conv
