// The CUDA doors of the box room.
#include "box/launch.cuh"
#include "core/rooms.h"

namespace torch_conv::box {

namespace {

template <typename T, typename Sum>
void run(const Box& p, const Plan& plan, void* stream) {
  if (std::strcmp(plan.variant, "plain") == 0) return launch(box_plain<T, Sum>, "box_plain", p, plan, stream);
  // 64-bit integer sums are rare (large windows, or float64 results): not worth a kernel of their own.
  if constexpr (std::is_floating_point_v<Sum> || sizeof(Sum) == 4) {
    const bool common = p.out.dtype == p.in.dtype && p.out.stride_w == 1 && finish_of(p.place) == Finish::scale;
    if (common) return launch(box_march<T, Sum, T>, "box_march", p, plan, stream);
  }
  launch(box_march<T, Sum, General>, "box_march", p, plan, stream);
}

}  // namespace

Plan plan_cuda(const Box& p, const Arch& arch, const char* variant) { return make_plan(p, arch, variant); }

void run_cuda(const Box& p, const Plan& plan, void*, void* stream) {
  if (plan.blocks == 0) return;
  with_type(p.in.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_integral_v<T>) run<T, acc_t<T>>(p, plan, stream);
    else if (sum_bytes(p) == 4) run<T, uint32_t>(p, plan, stream);
    else run<T, uint64_t>(p, plan, stream);
  });
}

}  // namespace torch_conv::box
