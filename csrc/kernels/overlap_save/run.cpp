// The plans and launches of both ends on CUDA.
#include "kernels/overlap_save/plan.h"
#include "runtime/launch.h"

namespace torch_conv::overlap_save {

Plan plan_read_cuda(const ReadTiles& p, const Arch& arch, const char* pinned) {
  return choose(kReadCandidates, p, arch, pinned, read_base(p));
}

Plan plan_write_cuda(const WriteTiles& p, const Arch& arch, const char* pinned) {
  return choose(kWriteCandidates, p, arch, pinned, write_base(p));
}

void run_read_cuda(const ReadTiles& p, const Plan& plan, const Site& site) {
  launch_kernel(*site.kernels[0], {units_of(p) * blocks_of_row(p), row_groups(p)}, {kThreads}, 0, site.stream,
                args_of(p));
}

void run_write_cuda(const WriteTiles& p, const Plan& plan, const Site& site) {
  const WriteArgs args = args_of(p);
  launch_kernel(*site.kernels[0], {units_of(p), cell_groups(p, kMarkThreads)}, {kMarkThreads}, 0, site.stream, args);
  launch_kernel(*site.kernels[1], {units_of(p) * blocks_of_row(p), row_groups(p)}, {kThreads}, 0, site.stream, args);
  launch_kernel(*site.kernels[2], {units_of(p), cell_groups(p, kCells)}, {kThreads}, 0, site.stream, args);
}

}  // namespace torch_conv::overlap_save
