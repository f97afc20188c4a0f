// The doors of the separable room of volumes on CUDA: which instance.
#include "separable3d/launch.cuh"

namespace torch_conv::separable3d {

namespace {

template <typename T>
void launch_size(const Separable& p, const Plan& plan, cudaStream_t stream) {
  switch (p.kw) {
    case 3: return launch_march<T, 3>(p, plan, stream);
    case 5: return launch_march<T, 5>(p, plan, stream);
    case 7: return launch_march<T, 7>(p, plan, stream);
    case 9: return launch_march<T, 9>(p, plan, stream);
    case 11: return launch_march<T, 11>(p, plan, stream);
    case 13: return launch_march<T, 13>(p, plan, stream);
    case 15: return launch_march<T, 15>(p, plan, stream);
  }
  throw std::logic_error("torch_conv: separable3d has no instance of this size");
}

}  // namespace

Plan plan_cuda(const Separable& p, const Arch& arch, const char* variant) {
  const double inputs = double(p.in.n) * p.in.c * p.in.d * p.in.h * p.in.w;
  const double outputs = double(p.out.n) * p.out.c * p.out.d * p.out.h * p.out.w;
  Plan plan{.algorithm = "separable", .variant = nullptr, .why = "not a k x k x k window of planar volumes"};
  plan.bytes = inputs * size_of(p.in.dtype) + outputs * size_of(p.out.dtype);
  plan.flops = 2.0 * outputs * double(p.kd + p.kh + p.kw);
  if ((*variant && std::strcmp(variant, "march") != 0) || !march_serves(p, arch)) return plan;
  const MarchShape shape = march_shape(size_of(p.in.dtype), int(p.kw));
  if (shape.shared_bytes() + kStaticBytes > arch.shared_bytes) return plan;
  const int chunk = outputs > 0 ? march_chunk(p, shape, arch) : 1;
  plan.why = "small: a pass over the planes and a depth pass are faster";
  if (!*variant && !march_wins(p, shape, arch, chunk)) return plan;
  plan.variant = "march";
  plan.why = "compiled odd size: all passes of a tile while marching along z";
  plan.tile_w = shape.tile_w;
  plan.tile_h = shape.tile_h();
  plan.tile_d = chunk;
  plan.threads = shape.threads();
  plan.shared_bytes = shape.shared_bytes();
  plan.blocks = march_tiles(p, shape) * ceil_div(p.out.d, plan.tile_d);
  return plan;
}

void run_cuda(const Separable& p, const Plan& plan, void*, void* stream_handle) {
  if (plan.blocks == 0) return;
  const auto stream = static_cast<cudaStream_t>(stream_handle);
  switch (p.in.dtype) {
    case Dtype::f32: return launch_size<float>(p, plan, stream);
    case Dtype::f16: return launch_size<half_t>(p, plan, stream);
    case Dtype::bf16: return launch_size<bhalf_t>(p, plan, stream);
    case Dtype::u8: return launch_size<uint8_t>(p, plan, stream);
    case Dtype::i16: return launch_size<int16_t>(p, plan, stream);
    case Dtype::u16: return launch_size<uint16_t>(p, plan, stream);
    case Dtype::f64: break;
  }
  throw std::logic_error("torch_conv: separable3d has no instance of this dtype");
}

}  // namespace torch_conv::separable3d
