// Boxes over floats on the CPU.
#pragma once

#include "core/plan.h"
#include "core/problem.h"

namespace torch_conv::box {

Plan plan_floats(const Box& p);
void run_floats(const Box& p, const Plan& plan);
Plan plan_depth_floats(const BoxDepth& p);
void run_depth_floats(const BoxDepth& p, const Plan& plan);

}  // namespace torch_conv::box
