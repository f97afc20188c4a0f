// The doors of the fused room of volumes: which instance.
#include "fused3d/launch.cuh"

namespace torch_conv::fused3d {

namespace {

template <typename T, typename O>
void launch_size(const Fused& p, const Plan& plan, cudaStream_t stream) {
  switch (p.stages[0].kw) {
    case 3: return launch_march<T, O, 3>(p, plan, stream);
    case 5: return launch_march<T, O, 5>(p, plan, stream);
    case 7: return launch_march<T, O, 7>(p, plan, stream);
  }
  throw std::logic_error("torch_conv: fused3d has no instance of this size");
}

}  // namespace

Plan plan_cuda(const Fused& p, const Arch& arch, const char* variant) {
  Plan plan{.algorithm = "fused",
            .variant = nullptr,
            .why = "not the magnitude of the gradient of a planar volume blurred by 3^3, 5^3 or 7^3"};
  const double inputs = double(p.in.n) * p.in.c * p.in.d * p.in.h * p.in.w;
  const double outputs = double(p.out.n) * p.out.c * p.out.d * p.out.h * p.out.w;
  plan.bytes = inputs * size_of(p.in.dtype) + outputs * size_of(p.out.dtype) * p.stages[p.count - 1].outputs();
  for (int i = 0; i < p.count; ++i) {
    const Stage& s = p.stages[i];
    plan.flops += 2.0 * outputs * double(s.kd + s.kh + s.kw) * s.windows;
  }
  if ((*variant && std::strcmp(variant, "march") != 0) || !march_serves(p, arch)) return plan;
  const MarchShape shape = march_shape(size_of(p.in.dtype), int(p.stages[0].kw));
  if (shape.shared_bytes() + kStaticBytes > arch.shared_bytes) return plan;
  plan.variant = "march";
  plan.why = "both stages of a tile while marching along z";
  plan.tile_w = shape.tile_w;
  plan.tile_h = shape.tile_h();
  plan.tile_d = outputs > 0 ? march_chunk(p, shape, arch) : 1;
  plan.threads = shape.threads();
  plan.shared_bytes = shape.shared_bytes();
  plan.blocks = march_tiles(p, shape) * ceil_div(p.out.d, plan.tile_d);
  return plan;
}

void run_cuda(const Fused& p, const Plan& plan, void*, void* stream_handle) {
  if (plan.blocks == 0) return;
  const auto stream = static_cast<cudaStream_t>(stream_handle);
  const bool same = p.out.dtype == p.in.dtype;
  switch (p.in.dtype) {
    case Dtype::f32: return launch_size<float, float>(p, plan, stream);
    case Dtype::f16: return launch_size<half_t, half_t>(p, plan, stream);
    case Dtype::bf16: return launch_size<bhalf_t, bhalf_t>(p, plan, stream);
    case Dtype::u8:
      return same ? launch_size<uint8_t, uint8_t>(p, plan, stream) : launch_size<uint8_t, float>(p, plan, stream);
    case Dtype::f64:
    case Dtype::i16:
    case Dtype::u16: break;
  }
  throw std::logic_error("torch_conv: fused3d has no instance of this dtype");
}

}  // namespace torch_conv::fused3d
