// Boxes over floats on the CPU: sums of columns in groups of rows, then of rows by doubling, in the order of
// kernels/box/order.h.
#include "kernels/box/cpu/floats.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "core/cpu/float64.h"
#include "core/cpu/strips.h"
#include "core/parallel.h"
#include "kernels/box/order.h"
#include "kernels/box/read_counts.h"

namespace torch_conv::box {

// The period in columns of a row that the border extends, if a window over `outputs` columns reads much
// more than that; or 0.
static int64_t row_period(const Box& p, int64_t outputs) {
  const int64_t period = p.in.w == p.whole_w ? period_of(p.place.border, p.in.w) : 0;
  return 2 * (outputs + p.kw - 1) > 3 * period ? period : 0;
}

// Whether windows over `outputs` columns read so far beyond the image that most of their sums are of one number.
static bool is_long(const Box& p, int64_t outputs) {
  const bool same_beyond = p.place.border == Border::replicate || map_index(int64_t(-1), p.in.w, p.place.border) < 0;
  return same_beyond && !is_far(p.kw, p.whole_w) && outputs + p.kw - 1 > 2 * (outputs + p.in.w);
}

// A plane along z is taken in pieces: rows of it, or as one long row where its rows follow one another.
struct DepthPieces {
  int64_t count, rows, columns,
      whole;  // from piece to piece; columns: of a piece of a plane of `whole` in one row, or 0
};

static DepthPieces depth_pieces(const BoxDepth& p, const Plan& plan) {
  const auto one_row = [&](const Image& x) { return x.h == 1 || x.stride_h == x.w * x.stride_w; };
  if (p.place.normalized || !one_row(p.sums) || !one_row(p.out)) return {p.out.h, 1, 0, 0};
  const int64_t whole = p.out.h * p.out.w;
  return {ceil_div(whole, int64_t(plan.tile_w)), 0, plan.tile_w, whole};
}

// The problem along z, of an image whose rows are planes.
static Box along_depth(const BoxDepth& p) {
  const auto planes_as_rows = [](Image x) {
    x.h = x.d, x.stride_h = x.stride_d, x.d = 1;
    return x;
  };
  Placement place = p.place;
  place.pad_y = p.place.pad_z, place.pad_z = place.pad_x = 0, place.value = p.outside;
  return {.in = planes_as_rows(p.sums),
          .out = planes_as_rows(p.out),
          .kh = p.kd,
          .kw = 1,
          .scale = p.scale,
          .place = place,
          .first_row = p.first_plane,
          .whole_h = p.whole_d,
          .whole_w = p.out.w};
}

}  // namespace torch_conv::box

#define TC_CPU_BODY "kernels/box/cpu/floats_body.h"
#include "core/cpu/each_isa.h"

namespace torch_conv::box {

Plan plan_floats(const Box& p) {
  Plan plan{.algorithm = "box", .variant = "groups", .why = "sums that groups of rows share, then by doubling"};
  const int64_t pixel = interleaved_channels(p.in, p.out);
  const int64_t rows = 12 + (one_chain(p.kh) ? 0 : std::min<int64_t>(blocks_of(p.kh), 1024) / 4);
  plan.tile_w = tile_columns(p.out.w, pixel, rows, p.kw, acc_bytes(p.in.dtype));
  // A strip starts with a whole window of rows; as many again keep that start small.
  plan.tile_h = int(round_up(std::min(p.out.h, std::max<int64_t>(64, 2 * p.kh)), kGroup));
  plan.blocks = p.in.n * (pixel > 1 ? 1 : p.in.c) * ceil_div(position_in_group(p.first_row) + p.out.h, plan.tile_h);
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  const int64_t period = row_period(p, p.out.w);
  const int64_t row = period > 0 ? period : p.out.w + (is_long(p, p.out.w) ? p.in.w : p.kw - 1);
  const double down = (double(std::min<int64_t>(p.kh, 6)) + double(p.kh) / 64) * double(p.out.w);
  const double across = 2 * std::log2(double(p.kw)) * double(row);
  plan.flops = (down + across) * double(p.out.n) * double(p.out.c) * double(p.out.h);
  return plan;
}

static void run_units(const Box& p, const Plan& plan, void (*run)(const Box&, const Plan&, Range)) {
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { run(p, plan, {begin, end}); });
}

void run_in_float64(const Box& p, const Plan& plan) { run_units(p, plan, TC_BEST_ISA(group_units<double>)); }

void run_floats(const Box& p, const Plan& plan) {
  if (p.in.dtype == Dtype::f64) run_in_float64(p, plan);
  else run_units(p, plan, TC_BEST_ISA(group_units<float>));
}

Plan plan_depth_floats(const BoxDepth& p) {
  Plan plan{.algorithm = "box", .variant = "groups", .why = "sums along z that groups of planes share"};
  // Elements of a piece of a plane: together with a group's kept planes they stay in the second-level cache.
  constexpr int64_t kPieceElements = 4096;
  const int64_t pixel = interleaved_channels(p.sums, p.out);
  plan.tile_w = int(std::max<int64_t>(1, kPieceElements / pixel));
  plan.tile_h = 1;
  plan.tile_d = int(round_up(std::min(p.out.d, std::max<int64_t>(64, 2 * p.kd)), kGroup));
  plan.blocks = p.out.n * (pixel > 1 ? 1 : p.out.c) * depth_pieces(p, plan).count *
                ceil_div(position_in_group(p.first_plane) + p.out.d, plan.tile_d);
  plan.bytes = bytes_of(p.sums) + bytes_of(p.out);
  plan.flops = (double(std::min<int64_t>(p.kd, 6)) + double(p.kd) / 64) * elements_of(p.out);
  return plan;
}

void run_depth_floats(const BoxDepth& p, const Plan& plan) {
  const auto run =
      p.sums.dtype == Dtype::f64 ? TC_BEST_ISA(depth_group_units<double>) : TC_BEST_ISA(depth_group_units<float>);
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { run(p, plan, {begin, end}); });
}

}  // namespace torch_conv::box
