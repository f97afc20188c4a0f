// The fused room's only switch: dtype -> launch.
#include "fused/launch.cuh"

namespace torch_conv::fused {

extern template void launch<float>(const Fused&, const Plan&, cudaStream_t);
extern template void launch<half_t>(const Fused&, const Plan&, cudaStream_t);
extern template void launch<bhalf_t>(const Fused&, const Plan&, cudaStream_t);
extern template void launch<uint8_t>(const Fused&, const Plan&, cudaStream_t);

Plan plan_cuda(const Fused& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Fused& p, const Plan& plan, void*, void* stream_handle) {
  const auto stream = static_cast<cudaStream_t>(stream_handle);
  switch (p.in.dtype) {
    case Dtype::f32: return launch<float>(p, plan, stream);
    case Dtype::f16: return launch<half_t>(p, plan, stream);
    case Dtype::bf16: return launch<bhalf_t>(p, plan, stream);
    case Dtype::u8: return launch<uint8_t>(p, plan, stream);
    case Dtype::f64:
    case Dtype::i16:
    case Dtype::u16: break;
  }
  throw std::runtime_error("torch_conv: fused has no instance for its own plan");
}

}  // namespace torch_conv::fused
