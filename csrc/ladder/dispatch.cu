// The ladder's only switch: (variant, block, window) -> one rung.
//
// Read the rungs in this order: naive, constant, tiled, l2_halo, fused; then, for volumes, naive3d, tiled3d,
// separable3d. All but fused and separable3d compute the same fma chain and so the same bits; none of them is what the
// library uses, they are what it is measured against.
#include <algorithm>

#include "ladder/constant.cuh"
#include "ladder/fused.cuh"
#include "ladder/l2_halo.cuh"
#include "ladder/naive.cuh"
#include "ladder/naive3d.cuh"
#include "ladder/separable3d.cuh"
#include "ladder/tiled.cuh"
#include "ladder/tiled3d.cuh"

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

void launch(const Ladder3d& p, Variant3d variant, cudaStream_t stream) {
  switch (variant) {
    case Variant3d::naive: return launch_naive3d(p, stream);
    case Variant3d::tiled: return launch_tiled3d(p, stream);
    case Variant3d::separable: return launch_separable3d(p, stream);
  }
}

constexpr int64_t kGridLimit = 65535;  // of a grid's y and z

}  // namespace

void run_cuda(const Ladder2d& p, Variant variant, void* stream) {
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

void run_cuda(const Ladder3d& p, Variant3d variant, void* stream) {
  constexpr int64_t kColumns = int64_t(1) << 30;  // coordinates are 32-bit, the window's reach included
  const auto at_most = [](int64_t got, int64_t limit, const char* sentence) {
    if (got > limit)
      throw std::runtime_error(std::string("ladder3d: input must have at most ") + sentence + " on CUDA, got " +
                               std::to_string(got));
  };
  at_most(p.d, kGridLimit * p.block_z, "65535 * block[2] planes");
  at_most(p.h, kGridLimit * p.block_y, "65535 * block[1] rows");
  at_most(p.w, kColumns, "2^30 columns");
  const int64_t together = kGridLimit / layers_of(p), volume = p.d * p.h * p.w;
  for (int64_t first = 0; first < p.volumes; first += together) {
    Ladder3d part = p;
    part.in += first * volume;
    part.out += first * volume;
    part.volumes = std::min(together, p.volumes - first);
    launch(part, variant, static_cast<cudaStream_t>(stream));
  }
}

}  // namespace torch_conv::ladder
