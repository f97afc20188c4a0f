// The doors of this room, as core/rooms.h has them of the others.
#pragma once

#include "causal/problem.h"
#include "core/rooms.h"

namespace torch_conv::causal {

Plan plan_cpu(const CausalConv& p, const char* variant);
void run_cpu(const CausalConv& p, const Plan& plan);
Plan plan_cuda(const CausalConv& p, const Arch& arch, const char* variant);
void run_cuda(const CausalConv& p, const Plan& plan, const Site& site);

Plan plan_update_cpu(const CausalUpdate& p, const char* variant);
void run_update_cpu(const CausalUpdate& p, const Plan& plan);
Plan plan_update_cuda(const CausalUpdate& p, const Arch& arch, const char* variant);
void run_update_cuda(const CausalUpdate& p, const Plan& plan, const Site& site);

}  // namespace torch_conv::causal
