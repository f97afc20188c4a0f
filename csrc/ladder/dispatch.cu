// The ladder's only switch: (variant, block, window) -> one rung.
//
// Read the rungs in this order: naive, constant, tiled, l2_halo, fused. All but the last compute the same fma chain
// and so the same bits; none of them is what the library uses, they are what it is measured against.
#include <algorithm>

#include "ladder/constant.cuh"
#include "ladder/fused.cuh"
#include "ladder/l2_halo.cuh"
#include "ladder/naive.cuh"
#include "ladder/tiled.cuh"

namespace torch_conv::ladder {
namespace {

// Calls launch<BX, BY, K>() for the study's four blocks and three windows; false: no instance for this problem.
template <typename Launch>
bool with_tile(const Ladder2d& p, Launch&& launch) {
  const auto with_window = [&]<int BX, int BY>() {
    switch (p.k) {
      case 3: launch.template operator()<BX, BY, 3>(); return true;
      case 5: launch.template operator()<BX, BY, 5>(); return true;
      case 7: launch.template operator()<BX, BY, 7>(); return true;
      default: return false;
    }
  };
  const auto block_is = [&](int x, int y) { return p.block_x == x && p.block_y == y; };
  if (block_is(8, 8)) return with_window.template operator()<8, 8>();
  if (block_is(16, 16)) return with_window.template operator()<16, 16>();
  if (block_is(32, 8)) return with_window.template operator()<32, 8>();
  if (block_is(32, 16)) return with_window.template operator()<32, 16>();
  return false;
}

void launch(const Ladder2d& p, Variant variant, cudaStream_t stream) {
  switch (variant) {
    case Variant::naive: return launch_naive(p, stream);
    case Variant::constant: return launch_constant(p, stream);
    case Variant::tiled:
      if (with_tile(p, [&]<int BX, int BY, int K>() { launch_tiled<BX, BY, K>(p, stream); })) return;
      return launch_naive(p, stream);
    case Variant::l2_halo:
      if (with_tile(p, [&]<int BX, int BY, int K>() { launch_l2_halo<BX, BY, K>(p, stream); })) return;
      return launch_naive(p, stream);
    case Variant::fused: return launch_fused(p, stream);
  }
}

}  // namespace

void run_cuda(const Ladder2d& p, Variant variant, void* stream) {
  constexpr int64_t kGridLimit = 65535;  // of a grid's y and z
  if (ceil_div(p.h, p.block_y) > kGridLimit)
    throw std::runtime_error("ladder2d: input must have at most 65535 * block[1] rows on CUDA, got " +
                             std::to_string(p.h));
  for (int64_t first = 0; first < p.planes; first += kGridLimit) {
    Ladder2d part = p;
    part.in += first * p.h * p.w;
    part.out += first * p.h * p.w;
    part.planes = std::min(kGridLimit, p.planes - first);
    launch(part, variant, static_cast<cudaStream_t>(stream));
  }
}

}  // namespace torch_conv::ladder
