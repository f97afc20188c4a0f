// The entry points of all kernel families. Every kernel family offers, per backend, `plan` (pure: a GPU need not be
// there) and `run`.
#pragma once

#include "core/plan.h"
#include "core/problem.h"

namespace torch_conv {

struct Site;  // runtime/launch.h

// `variant` pins a family's kernel by its Plan::variant name ("" lets the family choose; tests and benchmarks
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
void run_cuda(const Direct& p, const Plan& plan, const Site& site);
}  // namespace direct2d

// Reads the tiles of a filter by FFT and writes its outputs; torch transforms the tiles in between.
namespace overlap_save {
Plan plan_read_cpu(const ReadTiles& p, const char* variant);
void run_read_cpu(const ReadTiles& p, const Plan& plan);
Plan plan_read_cuda(const ReadTiles& p, const Arch& arch, const char* variant);
void run_read_cuda(const ReadTiles& p, const Plan& plan, const Site& site);

Plan plan_write_cpu(const WriteTiles& p, const char* variant);
void run_write_cpu(const WriteTiles& p, const Plan& plan);
Plan plan_write_cuda(const WriteTiles& p, const Arch& arch, const char* variant);
void run_write_cuda(const WriteTiles& p, const Plan& plan, const Site& site);
}  // namespace overlap_save

// Images only, with zeros outside. If a plan has no variant, dispatch falls back to Direct.
namespace depthwise {
extern const char* const kChannelsMmaVariant;  // the variant of interleaved channels on tensor cores
Plan plan_cpu(const Depthwise& p, const char* variant);
void run_cpu(const Depthwise& p, const Plan& plan);
Plan plan_cuda(const Depthwise& p, const Arch& arch, const char* variant);
void run_cuda(const Depthwise& p, const Plan& plan, const Site& site);
}  // namespace depthwise

namespace direct3d {
Plan plan_cuda(const Direct& p, const Arch& arch, const char* variant);
void run_cuda(const Direct& p, const Plan& plan, const Site& site);
}  // namespace direct3d

namespace separable2d {
Plan plan_cpu(const Separable& p, const char* variant);
void run_cpu(const Separable& p, const Plan& plan);
Plan plan_cuda(const Separable& p, const Arch& arch, const char* variant);
void run_cuda(const Separable& p, const Plan& plan, const Site& site);
}  // namespace separable2d

// One launch for all three passes. If its plan has no variant, csrc/dispatch filters planes and then depth.
namespace separable3d {
Plan plan_cuda(const Separable& p, const Arch& arch, const char* variant);
void run_cuda(const Separable& p, const Plan& plan, const Site& site);
}  // namespace separable3d

namespace box {
Plan plan_cpu(const Box& p, const char* variant);
void run_cpu(const Box& p, const Plan& plan);
Plan plan_cuda(const Box& p, const Arch& arch, const char* variant);
void run_cuda(const Box& p, const Plan& plan, const Site& site);

Plan plan_depth_cpu(const BoxDepth& p, const char* variant);
void run_depth_cpu(const BoxDepth& p, const Plan& plan);
Plan plan_depth_cuda(const BoxDepth& p, const Arch& arch, const char* variant);
void run_depth_cuda(const BoxDepth& p, const Plan& plan, const Site& site);
// Whether the depth pass on CUDA has a variant of this name.
bool is_depth_variant(const char* name);
}  // namespace box

// Chains in one launch. If a CUDA plan has no variant, and for volumes on the CPU, csrc/dispatch runs single filters
// and `combine`.
namespace fused {
Plan plan_cpu(const Fused& p, const char* variant);
void run_cpu(const Fused& p, const Plan& plan);
Plan plan_cuda(const Fused& p, const Arch& arch, const char* variant);
void run_cuda(const Fused& p, const Plan& plan, const Site& site);

Plan plan_combine_cpu(const Combine& p, const char* variant);
void run_combine_cpu(const Combine& p, const Plan& plan);
Plan plan_combine_cuda(const Combine& p, const Arch& arch, const char* variant);
void run_combine_cuda(const Combine& p, const Plan& plan, const Site& site);
}  // namespace fused

// Chains on volumes in one launch.
namespace fused3d {
Plan plan_cuda(const Fused& p, const Arch& arch, const char* variant);
void run_cuda(const Fused& p, const Plan& plan, const Site& site);
}  // namespace fused3d

}  // namespace torch_conv
