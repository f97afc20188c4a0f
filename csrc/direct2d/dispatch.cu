// The direct room's only switch: (variant, dtype) -> launch.
#include "direct2d/launch.cuh"

namespace torch_conv::direct2d {

extern template void launch_windows<float>(const Direct&, const Plan&, cudaStream_t);
extern template void launch_windows<half_t>(const Direct&, const Plan&, cudaStream_t);
extern template void launch_windows<bhalf_t>(const Direct&, const Plan&, cudaStream_t);
extern template void launch_windows<uint8_t>(const Direct&, const Plan&, cudaStream_t);

Plan plan_cuda(const Direct& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Direct& p, const Plan& plan, void*, void* stream_handle) {
  const auto stream = static_cast<cudaStream_t>(stream_handle);
  with_type(p.in.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (std::strcmp(plan.variant, "general") == 0) return launch_general<T>(p, plan, stream);
    if (std::strcmp(plan.variant, "window") == 0) return launch_window<T>(p, plan, stream);
    if (std::strcmp(plan.variant, "column") == 0) return launch_column<T>(p, plan, stream);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, half_t> || std::is_same_v<T, bhalf_t> ||
                  std::is_same_v<T, uint8_t>)
      return launch_windows<T>(p, plan, stream);
    throw std::runtime_error("torch_conv: direct2d has no instance for its own plan");
  });
}

}  // namespace torch_conv::direct2d
