// The variants of this kernel family, in the order of preference.
#pragma once

#include "kernels/direct2d/channels/plan.h"
#include "kernels/direct2d/column/plan.h"
#include "kernels/direct2d/general/plan.h"
#include "kernels/direct2d/mma/plan.h"
#include "kernels/direct2d/mma_general/plan.h"
#include "kernels/direct2d/reg/plan.h"
#include "kernels/direct2d/tile/plan.h"
#include "kernels/direct2d/tuning.h"
#include "kernels/direct2d/window/plan.h"

namespace torch_conv::direct2d {

constexpr Candidate<Direct> kCandidates[] = {
    {"reg", reg_refusal, reg_is_slower, configure_reg, launch_reg},
    {"mma", mma_refusal, mma_is_slower, configure_mma, launch_mma, Sums::mma},
    {"tile_groups", tile_groups_refusal, tile_groups_is_slower, configure_tile_groups, launch_tile},
    {"tile_own", tile_own_refusal, tile_own_is_slower, configure_tile_own, launch_tile},
    {"tile_tma", tile_tma_refusal, wide_window_is_slower, configure_tile_tma, launch_tile},
    {"tile", tile_plain_refusal, wide_window_is_slower, configure_tile_plain, launch_tile},
    {"channels", channels_refusal, wide_window_is_slower, configure_channels, launch_channels},
    {"column", column_refusal, nullptr, configure_column, launch_column},
    {"window", window_refusal, nullptr, configure_window, launch_window},
    {"general", general_refusal, nullptr, configure_general, launch_general},
    {"mma_general", mma_general_refusal, mma_is_slower, configure_mma_general, launch_mma_general, Sums::mma, "mma"},
};

inline Plan plan_cuda(const Direct& p, const Arch& arch, const char* pinned) {
  return choose(kCandidates, p, arch, pinned,
                {.algorithm = "direct",
                 .bytes = bytes_of(p.in) + bytes_of(p.out),
                 .flops = 2.0 * double(p.kh * p.kw * (p.in.c / p.groups)) * elements_of(p.out)});
}

}  // namespace torch_conv::direct2d
