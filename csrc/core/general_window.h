// The parameters of the general kernels, which serve any window over images or volumes. A thread computes four
// neighbouring pixels of a row.
#pragma once

#include "core/peer_rows.h"

namespace torch_conv {

struct GeneralWindowArgs {
  Direct p;
  PeerRows peers;          // none of volumes
  int64_t groups_of_four;  // per row
  int64_t threads;         // of the grid
  bool channels_inner;     // lanes follow the channels, which are innermost in memory
  int64_t out_per_group, in_per_group;

  static GeneralWindowArgs of(const Direct& p) {
    const int64_t fours = ceil_div(p.out.w, 4);
    return {.p = p,
            .peers = PeerRows::of(p.peers, p.in),
            .groups_of_four = fours,
            .threads = p.out.n * p.out.c * p.out.d * p.out.h * fours,
            .channels_inner = p.out.c > 1 && p.out.stride_c < p.out.stride_w,
            .out_per_group = p.out.c / p.groups,
            .in_per_group = p.in.c / p.groups};
  }
};

}  // namespace torch_conv
