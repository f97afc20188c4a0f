// Depthwise + Arch -> Plan: the list of variants, and the choice. VARIANT/plan.h has a variant's refusal and its
// configuration; tuning.h compares variants. Pure.
#pragma once

#include "kernels/depthwise/channels/plan.h"
#include "kernels/depthwise/channels_mma/plan.h"
#include "kernels/depthwise/channels_mma_general/plan.h"
#include "kernels/depthwise/channels_rows/plan.h"
#include "kernels/depthwise/channels_tma/plan.h"
#include "kernels/depthwise/general/plan.h"
#include "kernels/depthwise/large/plan.h"
#include "kernels/depthwise/large_mma/plan.h"
#include "kernels/depthwise/large_mma_general/plan.h"
#include "kernels/depthwise/mma_general/plan.h"
#include "kernels/depthwise/planes/plan.h"
#include "kernels/depthwise/planes_mma/plan.h"
#include "kernels/depthwise/rows/plan.h"
#include "kernels/depthwise/rows_mma/plan.h"
#include "kernels/depthwise/tiles/plan.h"
#include "kernels/depthwise/tuning.h"
#include "kernels/depthwise/warps/plan.h"

namespace torch_conv::depthwise {

constexpr Candidate<Depthwise> kGeneral{"general", general_refusal, general_is_slower, configure_general,
                                        launch_general};

// A filter takes this kernel family if this variant is pinned. No kernel family of filters has a variant of this name
// (tests/test_filter2d_channels.py).
constexpr const char* kVariantOfFilters = "channels_mma";

constexpr Candidate<Depthwise> kCandidates[] = {
    {"rows_mma", rows_mma_refusal, rows_mma_is_slower, configure_rows_mma, launch_rows_mma, Sums::mma},
    {"rows", rows_refusal, nullptr, configure_rows, launch_rows},
    {"planes_mma", planes_mma_refusal, planes_mma_is_slower, configure_planes_mma, launch_planes_mma, Sums::mma},
    {"large_mma", large_mma_refusal, large_mma_is_slower, configure_large_mma, launch_large_mma, Sums::mma},
    {"warps", warps_refusal, warps_is_slower, configure_warps, launch_warps},
    {"planes", planes_refusal, nullptr, configure_planes, launch_planes},
    {"large", large_refusal, large_is_slower, configure_large, launch_large},
    {"tiles", tiles_refusal, tiles_is_slower, configure_tiles, launch_tiles},
    {kVariantOfFilters, channels_mma_refusal, channels_mma_is_slower, configure_channels_mma, launch_channels_mma,
     Sums::mma},
    {"channels_tma", channels_tma_refusal, channels_bulk_is_slower, configure_channels_tma, launch_channels_tma},
    {"channels_rows", channels_rows_refusal, channels_bulk_is_slower, configure_channels_rows, launch_channels_rows},
    {"channels", channels_refusal, nullptr, configure_channels, launch_channels},
    kGeneral,
    {"rows_mma_general", rows_mma_general_refusal, rows_mma_is_slower, configure_rows_mma_general, launch_mma_general,
     Sums::mma, "rows_mma"},
    {"planes_mma_general", planes_mma_general_refusal, planes_mma_is_slower, configure_planes_mma_general,
     launch_mma_general, Sums::mma, "planes_mma"},
    {"large_mma_general", large_mma_general_refusal, large_mma_is_slower, configure_large_mma_general,
     launch_large_mma_general, Sums::mma, "large_mma"},
    {"channels_mma_general", channels_mma_general_refusal, channels_mma_is_slower, configure_channels_mma_general,
     launch_channels_mma_general, Sums::mma, kVariantOfFilters},
};
// Negative padding: the image is a part of another, and its outputs start after its first pixels.
constexpr Candidate<Depthwise> kOfParts[] = {kGeneral};

inline Plan plan_cuda(const Depthwise& p, const Arch& arch, const char* pinned) {
  const Plan base{.algorithm = "depthwise",
                  .bytes = bytes_of(p.in) + bytes_of(p.out),
                  .flops = 2.0 * double(p.kh * p.kw) * elements_of(p.out)};
  if (p.place.pad_y < 0 || p.place.pad_x < 0) return choose(kOfParts, p, arch, pinned, base);
  return choose(kCandidates, p, arch, pinned, base);
}

}  // namespace torch_conv::depthwise
