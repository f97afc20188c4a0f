// Depthwise convolutions on the CPU.
#include "core/rooms.h"

namespace torch_conv::depthwise {

Plan plan_cpu(const Depthwise&, const char*) { return {.algorithm = "depthwise", .why = "no kernel for the CPU"}; }

void run_cpu(const Depthwise&, const Plan&) {}

}  // namespace torch_conv::depthwise
