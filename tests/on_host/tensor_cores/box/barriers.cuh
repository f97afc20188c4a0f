// The same without instructions of a GPU.
#pragma once

#include "core/device.cuh"
#include "core/tma.cuh"

namespace torch_conv::box {

inline void barrier_init(uint64_t* barrier, int warps) { tma::barrier_init(barrier, warps * kWarpArrivals); }
inline void arrive(uint64_t* barrier) { tma::warp_arrive(barrier); }
inline void await(uint64_t* barrier, int use) { tma::barrier_wait(barrier, use & 1); }

struct Barriers {
  uint64_t *full, *empty;

  static Barriers at(unsigned char* first, int stages) {
    uint64_t* const full = reinterpret_cast<uint64_t*>(first);
    return {full, full + stages};
  }
  void init(int stages, int column_warps, int row_warps) const {
    for (int i = 0; i < stages; ++i) barrier_init(&full[i], column_warps), barrier_init(&empty[i], row_warps);
  }
};

}  // namespace torch_conv::box
