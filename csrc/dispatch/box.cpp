#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/ranges.h"
#include "dispatch/dispatch.h"
#include "dispatch/float64.h"
#include "dispatch/volumes.h"
#include "graph/launch_graph.h"
#include "sharding/part.h"

namespace torch_conv {

namespace {

// Whether the separable kernel family serves a box: small windows over floats, on every device and in any layout, so
// that bits are the same everywhere. On CUDA the compiled windows of the separable kernel family are faster than the
// box kernel family: 3x3 of float32 8192^2 has 95 against 50 % of a copy's speed (one NVIDIA H200). Running sums of
// integers are exact.
bool separable_serves(const Box& p, int axes) {
  const bool square = p.kh == p.kw && p.kh % 2 == 1 && p.kh <= 13;
  const bool cubic = axes == 2 || (p.kd == p.kh && p.in.dtype != Dtype::f64);
  return square && cubic && !is_integer(p.in.dtype) && p.out.dtype == p.in.dtype && p.place.border != Border::skip;
}

bool is_separable(const char* op, const BoxRequest& request) {
  const bool serves = separable_serves(request.problem, request.axes);
  if (serves || request.asked != Algorithm::separable) return serves && request.asked != Algorithm::box;
  if (request.axes == 3)
    refuse(op,
           "algorithm 'separable' serves odd cubic windows up to 13x13x13 of volumes of floats of 32 and 16 bits, in "
           "their own dtype");
  refuse(op,
         "algorithm 'separable' serves odd square windows up to 13x13 of floating-point images, in their own dtype");
}

// The window as rows of taps along x, y and z in the accumulation dtype. The last row holds the scale. `taps` owns the
// memory.
struct SeparableBox {
  std::shared_ptr<std::vector<std::byte>> taps;
  Separable problem;
};
SeparableBox as_separable(const Call& call, const Box& p, int axes, bool on_host) {
  const int64_t count = p.kw + p.kh + p.kd, bytes = acc_bytes(p.in.dtype);
  const Range scaled = axes == 3 ? Range{p.kw + p.kh, count} : Range{p.kw, p.kw + p.kh};
  const auto taps = std::make_shared<std::vector<std::byte>>(count * bytes);
  for (int64_t i = 0; i < count; ++i) {
    const double wide = i >= scaled.begin && i < scaled.end ? p.scale : 1.0;
    const float narrow = float(wide);
    std::memcpy(taps->data() + i * bytes, bytes == 8 ? static_cast<const void*>(&wide) : &narrow, bytes);
  }
  if (call.graph) call.graph->keep(taps, taps->data(), count * bytes);
  const auto taps_from = [&](int64_t first) {
    return Taps{.data = taps->data() + first * bytes, .on_host = on_host, .stride_n = 0, .stride_c = 0, .stride_ci = 0};
  };
  return {taps,
          {.in = p.in,
           .out = p.out,
           .taps_x = taps_from(0),
           .taps_y = taps_from(p.kw),
           .taps_z = taps_from(p.kw + p.kh),
           .kd = p.kd,
           .kh = p.kh,
           .kw = p.kw,
           .place = p.place,
           .peers = p.peers}};
}

// float32 holds sums of whole numbers below 2^24 exactly; larger sums of integers need float64. Floats take the
// accumulation dtype.
Dtype sums_dtype(const Box& p) {
  if (!is_integer(p.in.dtype)) return accumulation_dtype(p.in.dtype);
  double largest = p.in.dtype == Dtype::u8 ? 255 : 65535;
  if (p.place.border == Border::constant) {
    if (p.place.value != std::rint(p.place.value)) return Dtype::f64;
    largest = std::max(largest, std::abs(p.place.value));
  }
  return largest * double(p.kh) * double(p.kw) < double(1 << 24) ? Dtype::f32 : Dtype::f64;
}

// The first output of the call along an axis, and the size of the whole image, where the call's image has n pixels.
struct AxisPart {
  int64_t first, size;
};
AxisPart axis_part(const Call& call, int axis, int64_t n) {
  const Part* part = part_of(call);
  return part && part->axis == axis ? AxisPart{part->first, part->whole_rows} : AxisPart{0, n};
}

// Sums the planes' windows into scratch memory, then along z.
void planes_then_depth(Call& call, const Target& target, const ImageView& in, const Box& p) {
  const Dtype dtype = sums_dtype(p);
  const double area = double(p.kh) * double(p.kw);
  const AxisPart planes = axis_part(call, 0, p.in.d);
  const Tensor scratch = empty_result(call, in.tensor, resized(in.tensor, {.d = p.in.d, .h = p.out.h, .w = p.out.w}, 3),
                                      3, scalar_type_of(dtype));
  const Image sums = *merge_leading(scratch, dtype, 3);
  for_each_plane(p.in, sums, false, false, [&](const Image& from, const Image& to, int64_t) {
    Box q = p;
    q.in = from, q.out = to, q.kd = 1, q.scale = 1;
    q.place.pad_z = 0, q.place.normalized = false;
    run(call, target, q);
  });
  run(call, target,
      BoxDepth{.sums = sums,
               .out = p.out,
               .source = p.in.dtype,
               .kd = p.kd,
               .kh = p.kh,
               .kw = p.kw,
               .scale = p.scale,
               .outside = p.place.value * area,
               .place = p.place,
               .plane_h = p.in.h,
               .plane_w = p.in.w,
               .first_plane = planes.first,
               .whole_d = planes.size});
}

}  // namespace

void run_box(Call& call, const Target& target, BoxRequest request) {
  const int axes = request.axes;
  Box& p = request.problem;
  const AxisPart rows = axis_part(call, 1, p.in.h), columns = axis_part(call, 2, p.in.w);
  p.first_row = rows.first, p.whole_h = rows.size, p.whole_w = columns.size;
  const bool in_float64 = p.in.dtype != request.element;
  if (is_separable(call.op, request)) {
    const SeparableBox box = as_separable(call, p, axes, target.cuda());
    if (in_float64) return run_in_float64(box.problem, request.element);
    if (axes == 3) return run_passes(call, target, request.in, axes, box.problem);
    return run(call, target, box.problem);
  }
  if (in_float64) return run_in_float64(p, request.element);
  if (axes == 2) return run(call, target, p);
  // The depth pass reads no planes of other shards.
  if (!p.peers.any()) planes_then_depth(call, target, request.in, p);
}

}  // namespace torch_conv
