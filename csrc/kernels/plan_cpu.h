// The plans of all kernel families on the CPU; kernels/FAMILY/plan.h has `plan_cuda`. `pinned` names the only variant
// that may serve, or is "". A plan without a variant: none serves the problem.
#pragma once

#include "core/plan.h"
#include "core/problem.h"

namespace torch_conv {

struct CausalConv;
struct CausalUpdate;

namespace direct {
Plan plan_cpu(const Direct& p, const char* pinned);  // images and volumes
}
namespace separable2d {
Plan plan_cpu(const Separable& p, const char* pinned);
}
namespace depthwise {
Plan plan_cpu(const Depthwise& p, const char* pinned);
}
namespace box {
Plan plan_cpu(const Box& p, const char* pinned);
Plan plan_cpu(const BoxDepth& p, const char* pinned);
}  // namespace box
namespace fused {
Plan plan_cpu(const Fused& p, const char* pinned);  // images only
Plan plan_cpu(const Combine& p, const char* pinned);
}  // namespace fused
namespace overlap_save {
Plan plan_cpu(const ReadTiles& p, const char* pinned);
Plan plan_cpu(const WriteTiles& p, const char* pinned);
}  // namespace overlap_save
namespace causal {
Plan plan_cpu(const CausalConv& p, const char* pinned);
Plan plan_cpu(const CausalUpdate& p, const char* pinned);
}  // namespace causal

}  // namespace torch_conv
