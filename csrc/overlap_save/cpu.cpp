// Both ends of a filter by FFT on the CPU, row by row.
#include <atomic>
#include <vector>

#include "core/parallel.h"
#include "core/rooms.h"
#include "overlap_save/plan.h"

#define TC_CPU_BODY "overlap_save/cpu_body.h"
#include "core/cpu_each_isa.h"

namespace torch_conv::overlap_save {

namespace {

Plan serve(Plan plan, const char* variant, int64_t rows) {
  plan.variant = variant, plan.blocks = rows;
  return plan;
}

constexpr int64_t kRows = 16;  // worth waking a thread for

}  // namespace

Plan plan_read_cpu(const ReadTiles& p, const char*) { return serve(read_base(p), "read", units_of(p) * p.tiles.h); }

Plan plan_write_cpu(const WriteTiles& p, const char*) {
  return serve(write_base(p), "write", units_of(p) * Outputs::of(p).h);
}

void run_read_cpu(const ReadTiles& p, const Plan& plan) {
  const auto run = p.in.dtype == Dtype::f64 ? TC_BEST_ISA(read_tiles<double>) : TC_BEST_ISA(read_tiles<float>);
  parallel_for(0, plan.blocks, kRows, [&](int64_t begin, int64_t end) { run(p, {begin, end}); });
}

void run_write_cpu(const WriteTiles& p, const Plan& plan) {
  const bool wide = p.filter.in.dtype == Dtype::f64;
  const auto run = wide ? TC_BEST_ISA(write_tiles<double>) : TC_BEST_ISA(write_tiles<float>);
  parallel_for(0, plan.blocks, kRows, [&](int64_t begin, int64_t end) { run(p, {begin, end}); });
}

}  // namespace torch_conv::overlap_save
