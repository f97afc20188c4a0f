// Written by generate.py; do not edit.
#include "direct2d/launch.cuh"

namespace torch_conv::direct2d {
template void launch_windows<float>(const Direct&, const Plan&, cudaStream_t);
}  // namespace torch_conv::direct2d
