// The volumes' room: dtype -> the instances of csrc/instances, which hold the rest of the switch.
#include "direct3d/launch.cuh"

namespace torch_conv::direct3d {

extern template void launch<float>(const Direct&, const Plan&, cudaStream_t);
extern template void launch<half_t>(const Direct&, const Plan&, cudaStream_t);
extern template void launch<bhalf_t>(const Direct&, const Plan&, cudaStream_t);
extern template void launch<double>(const Direct&, const Plan&, cudaStream_t);
extern template void launch<uint8_t>(const Direct&, const Plan&, cudaStream_t);
extern template void launch<int16_t>(const Direct&, const Plan&, cudaStream_t);
extern template void launch<uint16_t>(const Direct&, const Plan&, cudaStream_t);

Plan plan_cuda(const Direct& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Direct& p, const Plan& plan, void*, void* stream) {
  with_type(p.in.dtype, [&](auto zero) { launch<decltype(zero)>(p, plan, static_cast<cudaStream_t>(stream)); });
}

}  // namespace torch_conv::direct3d
