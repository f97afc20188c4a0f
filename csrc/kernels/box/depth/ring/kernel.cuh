// The depth pass of a 3-D box of floats for windows of more than 16 planes, in the kernel family's fixed order of
// additions (kernels/box/order.h): every plane is read once.
//
//     z   top         - - - - -   lead: group g
//                     |       |
//                     |       |   rest, blocks
//                     |       |
//         bottom      - - - - -   trail: one group, or parts of two
//         bottom + 7  - - - - -
//                     - - - - -   the group that is being copied
//
// A thread owns 16 bytes of neighbouring sums of a plane and streams along a chunk of z. Asynchronous copies bring the
// planes of its windows into a ring of groups of 8 in shared memory, one ring per thread. Leading planes are still
// there from when they were trailing. Rests and blocks are kept as sums behind the ring.
//
// Per output: one plane read, one write, about 5 + (kd - 9) / 64 additions. A second read of leading planes would go to
// device memory: windows of 31 planes of all resident blocks, and the outputs, exceed L2 from 256^3 on.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "kernels/box/depth/ring/ring.h"
#include "kernels/box/depth/shared/planes.cuh"

namespace torch_conv::box {

// kRest: planes of a rest.
template <typename S, int V, typename Out, int kRest>
__global__ void __launch_bounds__(kDepthThreads, kDepthRingBlocks) box_depth_ring(const __grid_constant__ DepthArgs a) {
  using Planes = PlaneValues<S, V>;
  static_assert(sizeof(Planes) == 16);
  extern __shared__ __align__(16) unsigned char shared[];
  const DepthColumn<S, V, Out> column(a);
  const int groups = depth_ring_groups(a.kd), before = trail_group(a.kd);
  Planes* const ring = reinterpret_cast<Planes*>(shared) + threadIdx.x;
  DepthMiddle<Planes, kRest> middle(reinterpret_cast<Planes*>(shared) + groups * kGroup * kDepthThreads, a.kd);
  const int first = column.begin - a.pad_z;                                                               // plane
  const int ends = (column.end - column.begin + kGroup - 1) / kGroup + before + trail_groups(kRest) - 1;  // groups read

  const auto slot_of = [&](int slot) { return ring + slot * kGroup * kDepthThreads; };
  const auto next = [&](int slot) { return next_slot(slot, groups); };
  // The next group of planes, into the ring.
  int coming = 0, to = 0;
  const auto copy_group = [&] {
    if (coming < ends) {
      Planes* const slot = slot_of(to);
      const int z = first + kGroup * coming;
      const S* const from = column.position.from;
      if (z >= 0 && z + kGroup <= a.d) {
#pragma unroll
        for (int j = 0; j < kGroup; ++j) async_copy<16>(slot + j * kDepthThreads, from + (z + j) * a.in_d);
      } else {
#pragma unroll 1
        for (int j = 0; j < kGroup; ++j) {
          const int m = map_index(z + j, a.d, a.border);
          Planes outside;
#pragma unroll
          for (int v = 0; v < V; ++v) outside.v[v] = S(a.outside);
          if (m >= 0) async_copy<16>(slot + j * kDepthThreads, from + m * a.in_d);
          else slot[j * kDepthThreads] = outside;
        }
      }
    }
    async_commit();
    ++coming, to = next(to);
  };
  int lead_slot = 0, trail_slot = 0;
  // The next 8 trailing planes, once they have come.
  const auto read_trail = [&](Planes(&trail)[kGroup]) {
    async_wait<kDepthAhead>();
    const Planes *const slot = slot_of(trail_slot), *const behind = slot_of(next(trail_slot));
#pragma unroll
    for (int j = 0; j < kGroup; ++j)
      trail[j] = (kRest + j < kGroup ? slot : behind)[(kRest + j) % kGroup * kDepthThreads];
    trail_slot = next(trail_slot);
  };

#pragma unroll 1
  for (int i = 0; i < trail_groups(kRest) + kDepthAhead; ++i) copy_group();
#pragma unroll 1
  for (int i = 0; i < before; ++i) {
    Planes trail[kGroup];
    read_trail(trail);
    copy_group();
    middle.keep(trail);
  }
#pragma unroll 1
  for (int z = column.begin; z < column.end; z += kGroup) {
    Planes lead[kGroup], trail[kGroup];
    read_trail(trail);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) lead[j] = slot_of(lead_slot)[j * kDepthThreads];
    lead_slot = next(lead_slot);
    copy_group();  // where these planes stood
#pragma unroll
    for (int j = kGroup - 2; j >= 0; --j) lead[j] = lead[j] + lead[j + 1];
    middle.add_to(lead);
    column.finish_group(z, lead, trail);
    middle.keep(trail);
  }
  async_wait_all();
}

}  // namespace torch_conv::box
