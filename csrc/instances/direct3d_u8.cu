// Written by generate.py; do not edit.
#include "direct3d/launch.cuh"

namespace torch_conv::direct3d {
template void launch<uint8_t>(const Direct&, const Plan&, cudaStream_t);
}  // namespace torch_conv::direct3d
