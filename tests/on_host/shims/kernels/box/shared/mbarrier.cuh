// The same without instructions of a GPU.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/tma.cuh"

namespace torch_conv::box {

inline void barrier_init(uint64_t* barrier, int warps) { tma::barrier_init(barrier, warps * kWarpArrivals); }
inline void arrive(uint64_t* barrier) { tma::warp_arrive(barrier); }
inline void await(uint64_t* barrier, int use) { tma::barrier_wait(barrier, use & 1); }

}  // namespace torch_conv::box
