// The room's doors on CUDA.
#include "runtime/launch.h"

#include "kernels/causal/plan.h"

namespace torch_conv::causal {

void launch_general(const CausalConv& p, const Plan& plan, const Site& site) {
  launch(plan, site,
         GeneralArgs{.p = p,
                     .fours = ceil_div(p.l, 4),
                     .threads = general_threads(p),
                     .all = general_all(p),
                     .channels_inner = channels_inner(p.out, p.c)});
}

void launch_rows(const CausalConv& p, const Plan& plan, const Site& site) {
  const Deal deal = deal_of(p);
  int log2 = 0;
  while (1 << log2 < deal.lanes) ++log2;
  const int64_t last = (p.n - 1) * p.x.stride_n + (p.c - 1) * p.x.stride_c + p.l;
  launch(plan, site,
         RowsArgs{.p = p,
                  .x = Starts::of(p.x),
                  .out = Starts::of(p.out),
                  .groups = Divide::by(deal.groups),
                  .channels = Divide::by(p.c),
                  .rows = unsigned(p.n * p.c),
                  .lanes_log2 = log2,
                  .end = static_cast<const char*>(p.x.data) + last * size_of(p.dtype)});
}

void launch_channels(const CausalConv& p, const Plan& plan, const Site& site) {
  launch(plan, site,
         ChannelsArgs{.p = p,
                      .x = Starts::of(p.x),
                      .out = Starts::of(p.out),
                      .across = Divide::by(blocks_across(p)),
                      .along = Divide::by(blocks_along(p))});
}

Plan plan_cuda(const CausalConv& p, const Arch& arch, const char* variant) {
  return choose(kCandidates, p, arch, variant, base_plan(p));
}

void run_cuda(const CausalConv& p, const Plan& plan, const Site& site) {
  std::any_cast<Config>(&plan.config)->launch(p, plan, site);
}

Plan plan_update_cuda(const CausalUpdate& p, const Arch& arch, const char* variant) {
  return choose(kUpdateCandidates, p, arch, variant, base_plan(p));
}

void run_update_cuda(const CausalUpdate& p, const Plan& plan, const Site& site) {
  launch(plan, site, UpdateArgs{.p = p, .across = Divide::by(plan.blocks / p.n)});
}

}  // namespace torch_conv::causal
