// Separable correlation on the CPU: rows of sums, and the column pass over them.
#include <cmath>
#include <cstring>
#include <vector>

#include "core/cpu/float64.h"
#include "core/cpu/small_planes.h"
#include "core/cpu/strips.h"
#include "core/parallel.h"
#include "kernels/plan_cpu.h"

namespace torch_conv::separable2d {

// Interleaved rows take one window for all channels.
static int64_t pixel_of_row(const Separable& p) {
  return p.taps_x.stride_c == 0 && p.taps_y.stride_c == 0 ? interleaved_channels(p.in, p.out) : 1;
}

constexpr int64_t kRegisterBytes = 64;  // of the widest registers

// The variant `image`: of which rows the columns read the sums (-1: one outside), and their positions.
struct ImageRows {
  std::vector<int64_t> read;
  int64_t slots, pitch;  // rows of sums of a plane, elements from one to the next
};

// The variant `blocks`: the number of planes transposed together, and the plan that filters the transposed image.
struct TransposedBlocks {
  int64_t together;
  Plan plan;
};

}  // namespace torch_conv::separable2d

#define TC_CPU_BODY "kernels/separable2d/cpu/body.h"
#include "core/cpu/each_isa.h"

namespace torch_conv::separable2d {

namespace {

int64_t span_y(const Separable& p) { return (p.kh - 1) * p.place.dilation_y + 1; }

double planes_of(const Separable& p) { return double(p.in.n) * double(p.in.c); }

ImageRows image_rows(const Separable& p) {
  const Placement& at = p.place;
  std::vector<char> read(p.in.h, 1);
  if (at.stride_y == at.dilation_y && at.stride_y > 1) {
    read.assign(p.in.h, 0);
    for (int64_t i = 0; i < p.out.h - 1 + p.kh; ++i) {
      const int64_t m = map_index(i * at.stride_y - at.pad_y, p.in.h, at.border);
      if (m >= 0) read[m] = 1;
    }
  }
  // Whole registers, and one more that a load at a row's end may read.
  const int64_t lanes = kRegisterBytes / acc_bytes(p.in.dtype), pixel = pixel_of_row(p);
  ImageRows rows{{}, p.in.h, round_up(p.out.w * pixel, lanes) + lanes};
  for (int64_t y = 0; y < p.in.h; ++y)
    if (read[y]) rows.read.push_back(y);
  if (at.border == Border::constant) rows.read.push_back(-1), ++rows.slots;
  return rows;
}

// Rows that a ring makes sums of, those outside again and again. (Threads share none, which adds to it.)
double ring_rows(const Separable& p) {
  const double each = std::min(double(p.out.h) * double(p.kh), double((p.out.h - 1) * p.place.stride_y + span_y(p)));
  return extends(p.place.border) ? each : std::min(each, double(p.in.h));
}

void set_flops(const Separable& p, double row_sums, Plan& plan) {
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  plan.flops = 2 * planes_of(p) * double(p.out.w) * (double(p.kw) * row_sums + double(p.kh) * double(p.out.h));
}

void plan_rows(const Separable& p, Plan& plan) {
  const int64_t pixel = pixel_of_row(p);
  plan.variant = "rows", plan.why = "row sums in a ring, column pass over them";
  plan.tile_w = tile_columns(p.out.w, pixel, p.kh + 3, p.kw, size_of(p.in.dtype) == 8 ? 8 : 4);
  plan.tile_h = unit_rows(p.out.h, p.kh);
  plan.blocks = p.in.n * (pixel > 1 ? 1 : p.in.c) * ceil_div(p.out.h, plan.tile_h);
  set_flops(p, ring_rows(p), plan);
}

void plan_image(const Separable& p, Plan& plan) {
  const int64_t pixel = pixel_of_row(p);
  ImageRows rows = image_rows(p);
  plan.variant = "image", plan.why = "row sums of the whole image, column pass over them";
  plan.tile_w = tile_columns(p.out.w, pixel, std::min(rows.slots, p.kh + 3), 1, size_of(p.in.dtype) == 8 ? 8 : 4);
  plan.tile_h = unit_rows(p.out.h, 1);
  plan.blocks = p.in.n * (pixel > 1 ? 1 : p.in.c) * ceil_div(p.out.h, plan.tile_h);
  set_flops(p, double(rows.read.size()), plan);
  plan.config = std::move(rows);
}

// A ring that makes sums of a quarter more rows than there are costs more than the memory for all.
bool is_tall(const Separable& p) { return extends(p.place.border) && 4 * (span_y(p) - 1) > p.in.h; }

void plan_one(const Separable& p, Plan& plan) {
  if (is_tall(p)) plan_image(p, plan);
  else plan_rows(p, plan);
}

int64_t block_of(const Separable& p) {
  const bool one_window =
      p.taps_x.stride_n == 0 && p.taps_x.stride_c == 0 && p.taps_y.stride_n == 0 && p.taps_y.stride_c == 0;
  return one_window ? planes_together(p.in, p.out) : 0;
}

void plan_blocks(const Separable& p, Plan& plan) {
  const Dtype type = p.in.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  TransposedBlocks blocks{block_of(p), plan};
  Separable q = p;
  q.in = transposed(p.in, blocks.together, type), q.out = transposed(p.out, blocks.together, type);
  plan_one(q, blocks.plan);
  plan.variant = "blocks", plan.why = "small planes turned, so that registers hold a pixel of many";
  plan.blocks = ceil_div(p.in.n * p.in.c, blocks.together);
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  plan.flops = blocks.plan.flops / double(blocks.together) * planes_of(p);
  plan.config = std::move(blocks);
}

template <typename A, typename E>
void run_image(const Separable& p, const Plan& plan) {
  const auto across = TC_BEST_ISA(image_across<A, E>);
  const auto down = TC_BEST_ISA(image_down<A>);
  const ImageRows& rows = *std::any_cast<ImageRows>(&plan.config);
  const int64_t strips = ceil_div(p.out.h, plan.tile_h), planes = plan.blocks / strips;
  const int64_t read = int64_t(rows.read.size()), plane = rows.slots * rows.pitch;
  // All planes in both passes at once, as far as their sums take little memory.
  constexpr int64_t kBytes = 16 << 20;
  const int64_t most = std::max<int64_t>(thread_count(), kBytes / (plane * int64_t(sizeof(A))));
  const int64_t together = std::min(planes, most), grain = unit_grain(plan);
  std::vector<A> memory(together * plane + kRegisterBytes / sizeof(A));
  A* const sums = reinterpret_cast<A*>(round_up(reinterpret_cast<intptr_t>(memory.data()), kRegisterBytes));
  for (int64_t first = 0; first < planes; first += together) {
    const int64_t count = std::min(together, planes - first);
    parallel_for(0, count * read, grain, [&](int64_t begin, int64_t end) {
      across(p, rows, first, sums, {begin, end});
    });
    parallel_for(0, count * strips, grain, [&](int64_t begin, int64_t end) {
      down(p, rows, plan, first, sums, {begin, end});
    });
  }
}

template <typename A, typename E>
void run_one(const Separable& p, const Plan& plan) {
  if (std::strcmp(plan.variant, "image") == 0) return run_image<A, E>(p, plan);
  const bool blocks = std::strcmp(plan.variant, "blocks") == 0;
  const auto run = blocks ? TC_BEST_ISA(block_units<A>) : TC_BEST_ISA(separable_units<A, E>);
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { run(p, plan, {begin, end}); });
}

void run(const Separable& p, const Plan& plan, const Site&) {
  // The row pass converts bytes tap by tap, because rows of floats cost more. One thread, Zen 4, ms: 2048^2 3x3 1.55 ->
  // 1.15, 5x5 1.95 -> 1.55, 31x31 the same; 2048 x 2048 x 3 by 3x3 5.4 -> 4.3.
  const bool bytes = p.in.dtype == Dtype::u8 && holds(Dtype::u8, p.place.value);
  if (p.in.dtype == Dtype::f64) run_one<double, double>(p, plan);
  else if (bytes) run_one<float, uint8_t>(p, plan);
  else run_one<float, float>(p, plan);
}

}  // namespace

Plan plan_cpu(const Separable& p, const char* variant) {
  Plan plan{.algorithm = "separable", .launch = run};
  if (p.sums == Sums::mma) {
    plan.why = "the CPU makes chains of multiply-adds";
    return plan;
  }
  const auto is = [&](const char* name) { return std::strcmp(variant, name) == 0; };
  const bool blocks = block_of(p) > 0;
  if (blocks && (!*variant || is("blocks"))) plan_blocks(p, plan);
  else if (!*variant) plan_one(p, plan);
  else if (is("image") && extends(p.place.border)) plan_image(p, plan);
  else if (is("rows")) plan_rows(p, plan);
  return plan;
}

void run_in_float64(const Separable& p, const Plan& plan) { run_one<double, double>(p, plan); }

}  // namespace torch_conv::separable2d
