// The entry points of this family, which its operator calls without a plan.
#pragma once

#include <vector>

#include "core/plan.h"
#include "kernels/ladder/problem.h"

namespace torch_conv {

namespace ladder {
enum class Variant : int8_t { naive, constant, tiled, l2_halo, fused };
void run_cpu(const Ladder2d& p, Variant variant);  // float64 sums: the ladder's reference
std::vector<Kernel> kernels_cuda(const Ladder2d& p, Variant variant);
void run_cuda(const Ladder2d& p, Variant variant, const Site& site);

enum class Variant1d : int8_t { naive, constant, tiled, l2_halo };
void run_cpu(const Ladder1d& p, Variant1d variant);  // float64 sums: the ladder's reference
std::vector<Kernel> kernels_cuda(const Ladder1d& p, Variant1d variant);
void run_cuda(const Ladder1d& p, Variant1d variant, const Site& site);

enum class Variant3d : int8_t { naive, constant, tiled, l2_halo, separable };
void run_cpu(const Ladder3d& p, Variant3d variant);  // float64 sums: the ladder's reference
std::vector<Kernel> kernels_cuda(const Ladder3d& p, Variant3d variant);
void run_cuda(const Ladder3d& p, Variant3d variant, const Site& site);
}  // namespace ladder

}  // namespace torch_conv
