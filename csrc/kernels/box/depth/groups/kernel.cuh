// The depth pass of a 3-D box of floats, in the kernel family's fixed order of additions (kernels/box/order.h).
//
//     z   t0      - - - - -   lead: 8 planes
//                 |       |   rest, blocks of 8
//         b0      - - - - -   trail: 8 planes
//         b0 + 7  - - - - -
//
// A thread owns 16 bytes of neighbouring sums of a plane. It streams along a chunk of z in groups of 8 output planes, z
// / 8 of the whole volume. Registers hold windows of up to 16 planes. Deeper windows load lead and trail together;
// their rests and blocks are in a ring in shared memory, one per thread. There later groups find this group's trailing
// planes.
//
// Per output: one plane read, of deeper windows two, of which the leading one often comes from L2; one write; about
// 5 + (kd - 9) / 64 additions.
#pragma once

#include "kernels/box/depth/shared/planes.cuh"

namespace torch_conv::box {

// Every output by itself: any window.
template <typename S, int V>
__global__ void __launch_bounds__(kDepthThreads) box_depth_any(const __grid_constant__ DepthArgs a) {
  const DepthColumn<S, V, void> column(a);
#pragma unroll 1
  for (int z = max(column.begin, 0); z < column.end; ++z) {
    const int position = (z - column.begin) % kGroup, top = z - position - a.pad_z;
    column.finish(z,
                  column_sum<PlaneValues<S, V>>([&](int64_t i) { return column.read(top + int(i)); }, a.kd, position));
  }
}

// kKept: kd up to 16. Of deeper windows 0, and kRest the planes of a rest.
template <typename S, int V, typename Out, int kKept, int kRest>
__global__ void __launch_bounds__(kDepthThreads, kDepthGroupBlocks)
    box_depth_groups(const __grid_constant__ DepthArgs a) {
  using Planes = PlaneValues<S, V>;
  const DepthColumn<S, V, Out> column(a);
  const int begin = column.begin, end = column.end;
  const auto read = [&](int z) { return column.read(z); };
  const auto finish = [&](int z, const Planes& sum) { column.finish(z, sum); };

  if constexpr (kKept > 0) {
    constexpr int kBefore = kKept - 1;
    Planes kept[kBefore > 0 ? kBefore : 1];
#pragma unroll
    for (int i = 0; i < kBefore; ++i) kept[i] = read(begin - a.pad_z + i);
#pragma unroll 1
    for (int z = begin; z < end; z += kGroup) {
      Planes entering[kGroup];
#pragma unroll
      for (int j = 0; j < kGroup; ++j) entering[j] = read(z - a.pad_z + kBefore + j);
      const auto plane = [&](int i) -> const Planes& {
        return i < kBefore ? kept[i < kBefore ? i : 0] : entering[i < kBefore ? 0 : i - kBefore];
      };
      if constexpr (one_chain(kKept)) {
#pragma unroll
        for (int j = 0; j < kGroup; ++j) {
          Planes sum = plane(j);
#pragma unroll
          for (int i = 1; i < kKept; ++i) sum = sum + plane(j + i);
          finish(z + j, sum);
        }
      } else {
        Planes lead[kGroup];
        lead[kGroup - 1] = plane(kGroup - 1);
#pragma unroll
        for (int j = kGroup - 2; j >= 0; --j) lead[j] = plane(j) + lead[j + 1];
        if constexpr (kBefore > kGroup) {
          Planes middle = plane(kGroup);
#pragma unroll
          for (int i = kGroup + 1; i < kBefore; ++i) middle = middle + plane(i);
#pragma unroll
          for (int j = 0; j < kGroup; ++j) lead[j] = lead[j] + middle;
        }
        column.finish_group(z, lead, entering);
      }
      Planes next[kBefore > 0 ? kBefore : 1];
#pragma unroll
      for (int i = 0; i < kBefore; ++i) next[i] = plane(i + kGroup);
#pragma unroll
      for (int i = 0; i < kBefore; ++i) kept[i] = next[i];
    }
  } else {
    extern __shared__ __align__(16) unsigned char shared[];
    DepthMiddle<Planes, kRest> middle(reinterpret_cast<Planes*>(shared), a.kd);
    const int start = begin - a.pad_z + a.kd - 1;
#pragma unroll 1
    for (int c = -middle.count - 1; c < 0; ++c) {
      Planes planes[kGroup];
#pragma unroll
      for (int i = 0; i < kGroup; ++i) planes[i] = read(start + kGroup * c + i);
      middle.keep(planes);
    }
#pragma unroll 1
    for (int z = begin; z < end; z += kGroup) {
      const int top = z - a.pad_z, bottom = top + a.kd - 1;
      Planes lead[kGroup], trail[kGroup];
#pragma unroll
      for (int j = 0; j < kGroup; ++j) lead[j] = read(top + j), trail[j] = read(bottom + j);
#pragma unroll
      for (int j = kGroup - 2; j >= 0; --j) lead[j] = lead[j] + lead[j + 1];
      middle.add_to(lead);
      column.finish_group(z, lead, trail);
      middle.keep(trail);
    }
  }
}

}  // namespace torch_conv::box
