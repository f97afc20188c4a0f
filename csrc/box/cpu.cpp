// Box sums on the CPU: running column sums, then running row sums; any window at the same cost.
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "box/mean.h"
#include "box/plan.h"
#include "core/cpu_strips.h"
#include "core/parallel.h"
#include "core/rooms.h"

namespace torch_conv::box {

// One axis of a window far larger than the image: k positions from `pad` before an output on, and apart from them how
// often every window reads each pixel (nothing if the window is as it was given).
struct ShortWindow {
  int64_t k, pad;
  std::vector<int64_t> apart;
};

// Whole periods of the border's pattern, or what lies outside whatever the output, are the same for all windows. The
// rest is at most about two images long, however large the window.
static ShortWindow shorten(int64_t k, int64_t pad, int64_t n, int64_t outputs, Border border) {
  ShortWindow w{k, pad, {}};
  if (border == Border::circular || border == Border::reflect || border == Border::symmetric) {
    const int64_t period = border == Border::circular    ? n
                           : border == Border::symmetric ? 2 * n
                                                         : std::max<int64_t>(1, 2 * n - 2);
    const int64_t periods = (k - 1) / period;
    if (periods == 0) return w;
    w = {k - periods * period, pad % period, std::vector<int64_t>(n)};
    for (int64_t i = 0; i < period; ++i) w.apart[map_index(i, n, border)] += periods;
  } else {
    const int64_t before = std::clamp<int64_t>(pad - outputs + 1, 0, k - 1);
    const int64_t behind = std::clamp<int64_t>(k - pad - n, 0, k - 1 - before);
    w.k -= before + behind, w.pad -= before;
    if (border == Border::replicate && before + behind > 0) {
      w.apart.resize(n);
      w.apart.front() += before, w.apart.back() += behind;
    }
  }
  return w;
}

}  // namespace torch_conv::box

#define TC_CPU_BODY "box/cpu_body.h"
#include "core/cpu_each_isa.h"

namespace torch_conv::box {

Plan plan_cpu(const Box2d& p, const char* variant) {
  Plan plan{.algorithm = "box", .variant = "running", .why = "running sums, any window at the same cost"};
  if (*variant && std::strcmp(variant, plan.variant) != 0) {
    plan.variant = nullptr;
    return plan;
  }
  // A strip starts with a whole window of rows; as many again keep that start small.
  plan.tile_w = int(p.out.w);
  plan.tile_h = int(std::min(p.out.h, std::max<int64_t>(64, 2 * p.kh)));
  plan.blocks = p.in.n * (interleaved_channels(p.in, p.out) > 1 ? 1 : p.in.c) * ceil_div(p.out.h, plan.tile_h);
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  plan.flops = 5 * elements_of(p.out);
  return plan;
}

void run_cpu(const Box2d& p, const Plan& plan) {
  const auto run = with_type(p.in.dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T>) {
      return sum_bytes(p.in.dtype, p.kh, p.kw) == 4 ? TC_BEST_ISA(box_units<T, uint32_t>)
                                                    : TC_BEST_ISA(box_units<T, uint64_t>);
    } else {
      return TC_BEST_ISA(box_units<acc_t<T>, double>);
    }
  });
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { run(p, plan, {begin, end}); });
}

}  // namespace torch_conv::box
