// Sums in a given order on the CPU: tiles of outputs over blocks of float64 in the second-level cache.
#include <cmath>
#include <cstring>
#include <vector>

#include "core/parallel.h"
#include "kernels/stepwise/problem.h"

#define TC_CPU_BODY "kernels/stepwise/cpu_body.h"
#include "core/cpu/each_isa.h"

namespace torch_conv::stepwise {

Tiling tiling_of(const Problem& p) {
  constexpr int64_t kBlock = 1 << 14, kFewest = 64;  // numbers of a block, and of a row of a tile
  const Axis &down = p.axes[p.axes.size() - 2], &across = p.axes.back();
  Tiling t{.blocks = 1, .tiles = 1};
  for (size_t a = 0; a + 2 < p.axes.size(); ++a) t.blocks *= p.axes[a].k, t.tiles *= p.axes[a].n;
  const int64_t budget = kBlock / t.blocks, above = down.k - 1, margin = across.k - 1;
  const bool whole_down = p.whole_lines && down.k > 1, whole_across = p.whole_lines && across.k > 1;
  // Enough rows that those above and below cost little.
  const int64_t wanted = whole_down ? down.n : std::min(down.n, 4 * above + 1);
  t.columns = whole_across ? across.n : budget / ((wanted + above) * p.channels) - margin;
  t.columns = std::min(across.n, std::max(t.columns, (kFewest + p.channels - 1) / p.channels));
  t.columns = ceil_div(across.n, ceil_div(across.n, t.columns));
  t.pitch = (t.columns + margin) * p.channels;
  t.rows = whole_down ? down.n : std::clamp<int64_t>(budget / t.pitch - above, std::min(down.n, above / 2 + 1), down.n);
  t.block_rows = t.rows + above;
  t.down = ceil_div(down.n, t.rows), t.across = ceil_div(across.n, t.columns);
  t.tiles *= t.down * t.across;
  return t;
}

void run_cpu(const Problem& p) {
  constexpr int64_t kTermsOfAThread = 1 << 17;
  const Tiling t = tiling_of(p);
  const int64_t terms = t.rows * t.columns * p.channels * int64_t(4 + p.weights.size());
  parallel_for(0, t.tiles, std::max<int64_t>(1, kTermsOfAThread / std::max<int64_t>(1, terms)),
               [&](int64_t begin, int64_t end) {
                 TC_BEST_ISA(run_tiles)(p, t, {begin, end});
               });
}

}  // namespace torch_conv::stepwise
