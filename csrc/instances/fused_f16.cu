// Written by generate.py; do not edit.
#include "fused/launch.cuh"

namespace torch_conv::fused {
template void launch<half_t>(const Fused&, const Plan&, cudaStream_t);
}  // namespace torch_conv::fused
