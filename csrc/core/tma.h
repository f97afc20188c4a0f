// Bulk tensor copies (Hopper on): a tensor map over an Image, and the device side of one box load.
// Elements outside the image arrive as zeros, so a box may hang over every edge.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "core/device.cuh"

namespace torch_conv::tma {

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                 const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// Asked of the driver at run time, so that nothing links against it and CPU-only machines load the module.
inline EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found) !=
            cudaSuccess ||
        found != cudaDriverEntryPointSuccess)
      entry = nullptr;
    return reinterpret_cast<EncodeTiled>(entry);
  }();
  return function;
}

// The hardware's conditions: dense rows, 16-byte aligned base and row, channel and sample strides.
inline bool possible(const Image& x) {
  const int64_t size = size_of(x.dtype);
  auto aligned = [&](int64_t stride, int64_t count) {
    return count == 1 || (stride > 0 && stride * size % 16 == 0 && stride < (int64_t(1) << 36));
  };
  return size <= 4 && x.stride_w == 1 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && aligned(x.stride_h, x.h) &&
         aligned(x.stride_c, x.c) && aligned(x.stride_n, x.n) && x.w < (int64_t(1) << 31) && x.h < (int64_t(1) << 31) &&
         x.c < (int64_t(1) << 31) && x.n < (int64_t(1) << 31) && encode_tiled() != nullptr;
}

// Elements that travel as one: a box holds at most 256 elements a side, so narrow pixels go in words of 4 bytes.
constexpr int pack_of(int bytes) { return bytes >= 4 ? 1 : 4 / bytes; }

// The same in such words.
inline bool words_possible(const Image& x) { return possible(x) && x.w % pack_of(size_of(x.dtype)) == 0; }

// The same for volumes.
inline bool volume_possible(const Image& x) {
  const int64_t stride = x.stride_d * size_of(x.dtype);
  return possible(x) && (x.d == 1 || (stride > 0 && stride % 16 == 0 && x.stride_d < (int64_t(1) << 36))) &&
         x.d < (int64_t(1) << 31);
}

// How many columns a grid of tiles starts left of the output, so that boxes start on `align` elements also where the
// window's middle does not lie on the output pixel (off-centre anchors, 'valid'). A bulk copy that starts elsewhere
// than on 16 bytes is an illegal instruction.
inline int lead_columns(int64_t k, int64_t pad, int align) {
  const int shift = int((k / 2 - pad) % align);
  return (shift + align) % align;
}

struct Axis {
  int64_t count, stride;
};

// A map whose boxes are box_w x box_h elements of w x h, one of every outer axis. A box holds at most 256 elements a
// side: with pack > 1 that many pixels count as one element (w a multiple of pack), in boxes, coordinates and all.
template <int N>
CUtensorMap encode(const Image& x, const Axis (&outer)[N], int box_w, int box_h, int pack) {
  const int64_t size = size_of(x.dtype);
  auto bytes = [&](const Axis& axis) { return cuuint64_t(axis.count == 1 ? 16 : axis.stride * size); };
  cuuint64_t dims[2 + N] = {cuuint64_t(x.w / pack), cuuint64_t(x.h)}, strides[1 + N] = {bytes({x.h, x.stride_h})};
  cuuint32_t box[2 + N] = {cuuint32_t(box_w), cuuint32_t(box_h)}, steps[2 + N] = {1, 1};
  for (int i = 0; i < N; ++i) {
    dims[2 + i] = cuuint64_t(outer[i].count), strides[1 + i] = bytes(outer[i]);
    box[2 + i] = steps[2 + i] = 1;
  }
  const auto type = size * pack == 4   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                    : size * pack == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                       : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  CUtensorMap map;
  // 128-byte L2 promotion: none costs 3-4 % (measured on one NVIDIA H200).
  const CUresult status =
      encode_tiled()(&map, type, 2 + N, x.data, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                     CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) throw std::runtime_error("torch_conv: encoding a tensor map failed");
  return map;
}

// Boxes of one plane of an image: coordinates (x, y, c, n), x and y signed.
inline CUtensorMap plane_map(const Image& x, int box_w, int box_h, int pack = 1) {
  return encode(x, {{x.c, x.stride_c}, {x.n, x.stride_n}}, box_w, box_h, pack);
}

// Boxes of one plane of a volume: coordinates (x, y, z, c, n), the first three signed.
inline CUtensorMap volume_map(const Image& x, int box_w, int box_h, int pack = 1) {
  return encode(x, {{x.d, x.stride_d}, {x.c, x.stride_c}, {x.n, x.stride_n}}, box_w, box_h, pack);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

// One thread: prepares `barrier` for phases of `count` arrivals, each of which may expect bytes. Others may wait after
// a
// __syncthreads().
__device__ __forceinline__ void barrier_init(uint64_t* barrier, int count = 1) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// The arrival of a warp: one lane for all, predicated, because a branch would tell the compiler that lanes part.
// compute-sanitizer's racecheck follows single threads and takes the other lanes' reads and writes for races; built
// with -DTORCH_CONV_EVERY_LANE_ARRIVES it sees them ordered.
#ifdef TORCH_CONV_EVERY_LANE_ARRIVES
constexpr int kWarpArrivals = 32;
#else
constexpr int kWarpArrivals = 1;
#endif
__device__ __forceinline__ void warp_arrive(uint64_t* barrier) {
  __syncwarp();
  asm volatile(
      "{ .reg .pred p; setp.lt.u32 p, %0, %1; @p mbarrier.arrive.shared::cta.b64 _, [%2]; }" ::"r"(threadIdx.x % 32),
      "n"(kWarpArrivals), "r"(shared_address(barrier))
      : "memory");
}

// The same with bytes to come.
__device__ __forceinline__ void warp_expect(uint64_t* barrier, int bytes) {
  const int lane = threadIdx.x % 32;
  if (lane == 0)
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
  else if (lane < kWarpArrivals) barrier_arrive(barrier);
}

// A thread's own writes to shared memory before later bulk copies from or into the same place.
__device__ __forceinline__ void fence_before_copy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void barrier_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t* barrier, int phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "wait:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra wait;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(phase)
      : "memory");
}

// One thread: the box with its first element at (x, y) of plane (c, n) into `shared` (128-byte aligned).
__device__ __forceinline__ void load_box(void* shared, const CUtensorMap* map, uint64_t* barrier, int x, int y, int c,
                                         int n) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(c), "r"(n)
      : "memory");
}

// ... of plane z of volume (c, n).
__device__ __forceinline__ void load_box(void* shared, const CUtensorMap* map, uint64_t* barrier, int x, int y, int z,
                                         int c, int n) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(c), "r"(n)
      : "memory");
}

#endif

}  // namespace torch_conv::tma
