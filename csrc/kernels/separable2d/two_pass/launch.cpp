#include "runtime/launch.h"

#include "kernels/separable2d/shared/general_params.h"
#include "kernels/separable2d/shared/pass_taps.h"
#include "kernels/separable2d/two_pass/plan.h"

namespace torch_conv::separable2d {

void launch_two_pass(const Separable& p, const Plan& plan, const Site& site) {
  const auto& [tile, row_blocks] = own_config<TwoPassConfig>(plan);
  const BlockSize threads{unsigned(plan.threads)};
  const GeneralParams rows = general_params(p, tile, p.in.h + 1, kRowBlock, pass_taps(p, true, false));
  launch_kernel(*site.kernels[0], {row_blocks}, threads, plan.shared_bytes, site.stream, rows, site.scratch);
  const GeneralParams columns = general_params(p, tile, p.out.h, plan.tile_h, pass_taps(p, false, true));
  launch_kernel(*site.kernels[1], {plan.blocks}, threads, 0, site.stream, columns, site.scratch);
}

}  // namespace torch_conv::separable2d
