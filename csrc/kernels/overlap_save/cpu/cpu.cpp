// Both ends of a filter by FFT on the CPU, row by row.
#include <algorithm>
#include <atomic>
#include <vector>

#include "core/parallel.h"
#include "kernels/overlap_save/multiply.h"
#include "kernels/overlap_save/plan.h"
#include "kernels/plan_cpu.h"

#define TC_CPU_BODY "kernels/overlap_save/cpu/body.h"
#include "core/cpu/each_isa.h"

namespace torch_conv::overlap_save {

namespace {

constexpr int64_t kRows = 16;  // the fewest for another thread

template <typename A>
void mark_tile(const WriteTiles& p, const Cells& cells, int64_t unit) {
  const int32_t* const notes = p.notes + unit * cells.notes();
  const A* const taps = taps_of<A>(p.filter, Tile::of(p.sums, p.filter.in.c, unit));
  const auto [least, most] = std::minmax_element(notes, notes + cells.count());
  const int largest = *most;
  const bool clamp =
      notes[cells.count()] == 0 && std::all_of(taps, taps + p.filter.kh * p.filter.kw, [](A tap) { return tap >= 0; });
  Mark* mark = reinterpret_cast<Mark*>(p.marks) + unit * cells.count();
  if (*least > 0 && *least + kRange >= largest) {  // no need to look at each cell
    std::fill_n(mark, cells.count(), clamp ? Mark::clamp : Mark::keep);
    return;
  }
  for (int row = 0; row < cells.rows; ++row)
    for (int column = 0; column < cells.columns; ++column) *mark++ = mark_of(cells, notes, row, column, largest, clamp);
}

void run(const ReadTiles& p, const Plan& plan, const Site&) {
  const auto units = p.in.dtype == Dtype::f64 ? TC_BEST_ISA(read_tiles<double>) : TC_BEST_ISA(read_tiles<float>);
  parallel_for(0, plan.blocks, kRows, [&](int64_t begin, int64_t end) { units(p, {begin, end}); });
}

void run(const WriteTiles& p, const Plan& plan, const Site&) {
  const Cells cells = Cells::of(p.sums);
  const bool wide = p.filter.in.dtype == Dtype::f64;
  const auto mark = wide ? mark_tile<double> : mark_tile<float>;
  parallel_for(0, units_of(p), 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) mark(p, cells, unit);
  });
  const auto units = wide ? TC_BEST_ISA(write_tiles<double>) : TC_BEST_ISA(write_tiles<float>);
  parallel_for(0, plan.blocks, kRows, [&](int64_t begin, int64_t end) { units(p, {begin, end}); });
}

}  // namespace

Plan plan_cpu(const ReadTiles& p, const char*) {
  Plan plan = base_plan(p);
  plan.variant = "read", plan.launch = LaunchFunction<ReadTiles>(run);
  plan.blocks = units_of(p) * p.tiles.h;
  return plan;
}

Plan plan_cpu(const WriteTiles& p, const char*) {
  Plan plan = base_plan(p);
  plan.variant = "write", plan.launch = LaunchFunction<WriteTiles>(run);
  plan.blocks = units_of(p) * Outputs::of(p).h;
  return plan;
}

void multiply(const Spectra& p) {
  const int64_t grain = ceil_div(int64_t(1) << 14, p.size);  // numbers the fewest for another thread
  const auto units =
      p.dtype == Dtype::f64 ? TC_BEST_ISA(multiply_spectra<double>) : TC_BEST_ISA(multiply_spectra<float>);
  parallel_for(0, p.n * p.c * p.count * p.rows, grain, [&](int64_t begin, int64_t end) { units(p, {begin, end}); });
}

}  // namespace torch_conv::overlap_save
