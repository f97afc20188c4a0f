// Launches both ends of a filter by FFT.
#include "runtime/launch.h"

#include "kernels/overlap_save/plan.h"

namespace torch_conv::overlap_save {

void launch_read(const ReadTiles& p, const Plan&, const Site& site) {
  launch_kernel(*site.kernels[0], {units_of(p) * blocks_of_row(p), row_groups(p)}, {kThreads}, 0, site.stream,
                args_of(p));
}

void launch_write(const WriteTiles& p, const Plan&, const Site& site) {
  const WriteArgs args = args_of(p);
  launch_kernel(*site.kernels[0], {units_of(p), cell_groups(p, kMarkThreads)}, {kMarkThreads}, 0, site.stream, args);
  launch_kernel(*site.kernels[1], {units_of(p) * blocks_of_row(p), row_groups(p)}, {kThreads}, 0, site.stream, args);
  launch_kernel(*site.kernels[2], {units_of(p), cell_groups(p, kCells)}, {kThreads}, 0, site.stream, args);
}

}  // namespace torch_conv::overlap_save
