// Reads of a column warp: float32 rows of a strip with any alignment.
#pragma once

#include "kernels/box/strips/reads.cuh"

namespace torch_conv::box {

// A thread's 4 columns are every 32nd of its warp's 128: lanes read neighbours wherever a row starts, and a thread
// reads only its own copies. kAnywhere: some of the warp's columns lie outside the image.
template <int kSubtiles, bool kPolicies, bool kAnywhere, bool kPeers>
struct SpreadColumns {
  using Cell = float;
  using Leaving = Quad[kGroup];
  static constexpr bool kInPlace = sums_in_place(4, kChannels<kSubtiles>);
  static constexpr int kStep = kInPlace ? kChunkPitch : 32;  // from one of a thread's cells to the next

  SubtileRows<float, kPeers> image;
  int column;  // the first one of the 4 in the image
  int map[4];  // elements from the start of the image's row, -1: not read, the value is `outside`
  bool is_partial;
  float outside;
  Policies l2;

  __device__ SpreadColumns(const StripArgs& a, const Strip<kSubtiles>& strip)
      : image(SubtileRows<float, kPeers>::of(a, strip, 0, strip.only_subtile.in)),
        outside(float(a.outside)),
        l2(policies<kPolicies>()) {
    constexpr int C = kChannels<kSubtiles>;
    const Subtile& subtile = strip.only_subtile;
    const int first = subtile.begin<kSubtiles>(a) * C - (C > 1 ? a.shift : 0),
              warp = first + int(threadIdx.x) / 32 * 128;
    const int width = a.in_w * C, end = subtile.end(a) * C;
    column = first + strip_column<true>(0);
    is_partial = outside != 0 || warp < 0 || warp + 128 > width;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      map[v] = column_to_read<C>(subtile, column + 32 * v, end, width, a.border);
    }
  }

  static __device__ __forceinline__ int first_cell() { return strip_column<true>(0); }
  __device__ __forceinline__ void lanes_meet() const {}
  __device__ __forceinline__ Quad entering(const float* cell, int, unsigned) const {
    return {cell[0], cell[kStep], cell[2 * kStep], cell[3 * kStep]};
  }
  __device__ __forceinline__ Quad leaving(const Leaving& from, int j) const { return from[j]; }

  // 8 rows into registers.
  __device__ __forceinline__ void load(int first, Leaving& to) const {
    if (inside(first)) {
      const float* row = image.plane + first * image.stride;
#pragma unroll
      for (int j = 0; j < kGroup; ++j, row += image.stride) load_row(to[j], row, true);
      return;
    }
    int rows[kGroup];
    image.map(first, rows);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) load_row(to[j], image.at(max(rows[j], 0)), rows[j] >= 0);
  }

  // Entering rows are copied into shared memory asynchronously, rows of the image one by one between other work.
  struct CopyRows {
    const float* from;
    bool one_by_one;
  };
  __device__ __forceinline__ CopyRows rows(int first) const {
    return {image.plane + first * image.stride, inside(first)};
  }
  __device__ __forceinline__ void copy_one(CopyRows& rows, float* to) const {
    copy_row(to, rows.from, true);
    rows.from += image.stride;
  }
  // Any rows.
  __device__ __forceinline__ unsigned copy(int first, float* to, int pitch) const {
    if (inside(first)) {
      CopyRows coming = rows(first);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) copy_one(coming, to + j * pitch);
      return 0;
    }
    const int mapped = image.map_of_lane(first);
#pragma unroll 2
    for (int j = 0; j < kGroup; ++j) {
      const int row = __shfl_sync(0xffffffff, mapped, j);
      copy_row(to + j * pitch, image.at(max(row, 0)), row >= 0);
    }
    return 0;
  }

 private:
  __device__ __forceinline__ bool inside(int first) const { return !kAnywhere && image.hold(first); }
  // Element v of the row that starts at `row`.
  __device__ __forceinline__ const float* element(const float* row, int v) const {
    return kAnywhere ? row + max(map[v], 0) : row + column + 32 * v;
  }
  __device__ __forceinline__ void load_row(Quad& to, const float* from, bool present) const {
    hold(from);
    const float absent = kAnywhere ? outside : 0;
    load_float<kPolicies>(to.x, element(from, 0), present && map[0] >= 0, absent, l2.pass);
    load_float<kPolicies>(to.y, element(from, 1), present && map[1] >= 0, absent, l2.pass);
    load_float<kPolicies>(to.z, element(from, 2), present && map[2] >= 0, absent, l2.pass);
    load_float<kPolicies>(to.w, element(from, 3), present && map[3] >= 0, absent, l2.pass);
  }
  __device__ __forceinline__ void copy_row(float* to, const float* row, bool present) const {
    hold(row);
    if (kAnywhere && outside != 0) {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        if (present && map[v] >= 0) async_copy<4>(to + v * kStep, element(row, v));
        else to[v * kStep] = outside;
      }
    } else {
#pragma unroll
      for (int v = 0; v < 4; ++v)
        copy_float<kPolicies>(to + v * kStep, element(row, v), present && map[v] >= 0, l2.keep);
    }
  }
};

}  // namespace torch_conv::box
