// The doors of all rooms. Every room offers, per backend, `plan` (pure) and `run`.
// The CUDA doors stand in a table that the second module, _cuda, hands to the first, _C.
#pragma once

#include "core/plan.h"
#include "core/problem.h"

namespace torch_conv {

// What a plan may depend on; filled once per device.
struct Arch {
  int major;  // of the compute capability
  int multiprocessors;
  int shared_bytes;         // largest opt-in shared memory of one block
  double bytes_per_second;  // datasheet memory bandwidth
  bool bulk_copy;           // bulk tensor copies (TMA) may be used: Hopper on, not forced off
};

// `variant` pins a room's kernel by its Plan::variant name ("" lets the room choose; tests and benchmarks
// set TORCH_CONV_VARIANT). A plan with a null `variant` means: this variant cannot serve this problem.
//
// direct2d, separable2d, fused and box serve images (in.d == 1, kd == 1), direct3d, separable3d and fused3d volumes;
// direct and combine serve both on the CPU.
namespace direct {
Plan plan_cpu(const Direct& p, const char* variant);
void run_cpu(const Direct& p, const Plan& plan);
}  // namespace direct

namespace direct2d {
Plan plan_cuda(const Direct& p, const Arch& arch, const char* variant);
void run_cuda(const Direct& p, const Plan& plan, void* scratch, void* stream);
}  // namespace direct2d

namespace direct3d {
Plan plan_cuda(const Direct& p, const Arch& arch, const char* variant);
void run_cuda(const Direct& p, const Plan& plan, void* scratch, void* stream);
}  // namespace direct3d

namespace separable2d {
Plan plan_cpu(const Separable& p, const char* variant);
void run_cpu(const Separable& p, const Plan& plan);
Plan plan_cuda(const Separable& p, const Arch& arch, const char* variant);
void run_cuda(const Separable& p, const Plan& plan, void* scratch, void* stream);
}  // namespace separable2d

// One launch for all three passes; its plan has no variant for what it does not serve, which the hall then takes apart
// into planes and depth.
namespace separable3d {
Plan plan_cuda(const Separable& p, const Arch& arch, const char* variant);
void run_cuda(const Separable& p, const Plan& plan, void* scratch, void* stream);
}  // namespace separable3d

namespace box {
Plan plan_cpu(const Box& p, const char* variant);
void run_cpu(const Box& p, const Plan& plan);
Plan plan_cuda(const Box& p, const Arch& arch, const char* variant);
void run_cuda(const Box& p, const Plan& plan, void* scratch, void* stream);

Plan plan_depth_cpu(const BoxDepth& p, const char* variant);
void run_depth_cpu(const BoxDepth& p, const Plan& plan);
Plan plan_depth_cuda(const BoxDepth& p, const Arch& arch, const char* variant);
void run_depth_cuda(const BoxDepth& p, const Plan& plan, void* scratch, void* stream);
}  // namespace box

// Chains in one launch. A CUDA plan has no variant for what it does not serve, which the hall then takes apart into
// filters and `combine`; so it does with volumes on the CPU.
namespace fused {
Plan plan_cpu(const Fused& p, const char* variant);
void run_cpu(const Fused& p, const Plan& plan);
Plan plan_cuda(const Fused& p, const Arch& arch, const char* variant);
void run_cuda(const Fused& p, const Plan& plan, void* scratch, void* stream);

Plan plan_combine_cpu(const Combine& p, const char* variant);
void run_combine_cpu(const Combine& p, const Plan& plan);
Plan plan_combine_cuda(const Combine& p, const Arch& arch, const char* variant);
void run_combine_cuda(const Combine& p, const Plan& plan, void* scratch, void* stream);
}  // namespace fused

// The same for volumes.
namespace fused3d {
Plan plan_cuda(const Fused& p, const Arch& arch, const char* variant);
void run_cuda(const Fused& p, const Plan& plan, void* scratch, void* stream);
}  // namespace fused3d

namespace ladder {
enum class Variant : int8_t { naive, constant, tiled, l2_halo, fused };
void run_cpu(const Ladder2d& p, Variant variant);  // float64 sums: the ladder's gold
void run_cuda(const Ladder2d& p, Variant variant, void* stream);

enum class Variant3d : int8_t { naive, tiled, separable };
void run_cpu(const Ladder3d& p, Variant3d variant);  // float64 sums: the ladder's gold
void run_cuda(const Ladder3d& p, Variant3d variant, void* stream);
}  // namespace ladder

// Rows of an image in equal blocks of memory: one run of bytes in each.
struct RowBlocks {
  int device;
  void* data;
  int64_t pitch;  // bytes from one block to the next
};

// The CUDA side of every room, on the device and stream that `enter` made current.
struct CudaRooms {
  // Makes `device` current until leave(); returns torch's current stream on it.
  void* (*enter)(int device, int* previous);
  void (*leave)(int previous);
  Arch (*arch)(int device);
  // Copies host taps into device memory on `stream` through kernel parameters: no synchronisation,
  // the host memory may be freed at once, capturable in a CUDA graph.
  void (*upload)(const void* host, void* device, int64_t bytes, void* stream);

  // Marks what `stream` of `device` has queued so far, for other streams to wait for: the event is the calling
  // thread's, and is used again after a few more of the device.
  void* (*record)(int device, void* stream);
  void (*wait)(int device, void* stream, void* event);
  // A stream for copies that overlap the current one.
  void* (*side_stream)(int device);
  // Makes `stream` torch's current one on `device` until leave_stream(): memory is then allocated for it.
  void* (*enter_stream)(int device, void* stream);
  void (*leave_stream)(void* entered);
  // May kernels on `device` read `memory`, which lies on `other`?
  bool (*can_read)(int device, int other, const void* memory);
  // `count` blocks of `bytes` each, from any device to any; `readable`: can_read() says so.
  void (*copy_blocks)(const RowBlocks& to, const RowBlocks& from, int64_t bytes, int64_t count, bool readable,
                      void* stream);

  Plan (*direct2d_plan)(const Direct&, const Arch&, const char* variant);
  void (*direct2d_run)(const Direct&, const Plan&, void* scratch, void* stream);
  Plan (*direct3d_plan)(const Direct&, const Arch&, const char* variant);
  void (*direct3d_run)(const Direct&, const Plan&, void* scratch, void* stream);
  Plan (*separable2d_plan)(const Separable&, const Arch&, const char* variant);
  void (*separable2d_run)(const Separable&, const Plan&, void* scratch, void* stream);
  Plan (*separable3d_plan)(const Separable&, const Arch&, const char* variant);
  void (*separable3d_run)(const Separable&, const Plan&, void* scratch, void* stream);
  Plan (*box_plan)(const Box&, const Arch&, const char* variant);
  void (*box_run)(const Box&, const Plan&, void* scratch, void* stream);
  Plan (*box_depth_plan)(const BoxDepth&, const Arch&, const char* variant);
  void (*box_depth_run)(const BoxDepth&, const Plan&, void* scratch, void* stream);
  Plan (*fused_plan)(const Fused&, const Arch&, const char* variant);
  void (*fused_run)(const Fused&, const Plan&, void* scratch, void* stream);
  Plan (*fused3d_plan)(const Fused&, const Arch&, const char* variant);
  void (*fused3d_run)(const Fused&, const Plan&, void* scratch, void* stream);
  Plan (*combine_plan)(const Combine&, const Arch&, const char* variant);
  void (*combine_run)(const Combine&, const Plan&, void* scratch, void* stream);
  void (*ladder2d_run)(const Ladder2d&, ladder::Variant, void* stream);
  void (*ladder3d_run)(const Ladder3d&, ladder::Variant3d, void* stream);
};

}  // namespace torch_conv
