#include <algorithm>

#include "dispatch/dispatch.h"
#include "dispatch/volumes.h"
#include "dispatch/windows.h"
#include "kernels/separable2d/tuning.h"
#include "sharding/part.h"

namespace torch_conv {

namespace {

constexpr Placement kIdentity{.pad_y = 0, .pad_x = 0};

// The taps of sample n, for all samples of an image. That image's sample axis is z of one volume.
Taps taps_of_sample(Taps taps, int64_t n, Dtype image) {
  taps.data = static_cast<const char*>(taps.data) + n * taps.stride_n * acc_bytes(image);
  taps.stride_n = 0;
  return taps;
}

// The input between two planes of `value`, in the accumulation dtype. The depth pass reads filtered planes, so its
// border is the filtered plane of `value`, which Border::replicate repeats.
ImageView between_planes(const Call& call, const ImageView& in, const Separable& p) {
  const ScalarType type = accumulation_type(p.in.dtype);
  const int64_t last = (p.out.d - 1) * p.place.stride_z + (p.kd - 1) * p.place.dilation_z - p.place.pad_z;
  const Sizes pads{0, 0, 0, 0, p.place.pad_z > 0, last >= p.in.d};
  const Extent size{.d = p.in.d + pads[4] + pads[5], .h = p.in.h, .w = p.in.w};
  const auto pad = [type, pads, value = p.place.value](const Tensor& t) {
    return torch::stable::pad(t.scalar_type() == type ? t : torch::stable::to(t, type), pads, "constant", value);
  };
  return view_input(call, derive(call, in.tensor, in.tensor, resized(in.tensor, size, 3), type, pad), 3);
}

// Filters every plane into scratch memory, then filters along z.
void in_two_passes(Call& call, const Target& target, ImageView in, Separable p) {
  Placement along_z = p.place;
  along_z.pad_y = along_z.pad_x = 0;
  along_z.stride_y = along_z.stride_x = along_z.dilation_y = along_z.dilation_x = 1;
  if (p.place.border == Border::constant && p.place.value != 0 && p.kd > 1) {
    in = between_planes(call, in, p);
    p.in = in.image;
    along_z.pad_z -= along_z.pad_z > 0;
    along_z.border = Border::replicate;
  }
  const Tensor scratch = empty_result(call, in.tensor, resized(in.tensor, {.d = p.in.d, .h = p.out.h, .w = p.out.w}, 3),
                                      3, accumulation_type(p.in.dtype));
  const Image planes = *merge_leading(scratch, accumulation_dtype(p.in.dtype), 3);
  const bool window_each_sample = p.taps_x.stride_n || p.taps_y.stride_n;
  const bool window_each_channel = p.taps_x.stride_c || p.taps_y.stride_c;
  for_each_plane(
      p.in, planes, window_each_sample, window_each_channel, [&](const Image& from, const Image& to, int64_t n) {
        Separable q = p;
        q.in = from, q.out = to, q.kd = 1;
        q.taps_x = taps_of_sample(p.taps_x, n, p.in.dtype), q.taps_y = taps_of_sample(p.taps_y, n, p.in.dtype);
        q.place.pad_z = 0, q.place.stride_z = q.place.dilation_z = 1;
        run(call, target, q);
      });
  const auto depth = [&](Range y, Range x, const Taps& taps, int64_t kd, const Placement& at) {
    if (y.size() == 0 || x.size() == 0) return;
    run(call, target,
        Direct{.in = cut(planes, y, x),
               .out = cut(p.out, y, x),
               .taps = taps,
               .kd = kd,
               .kh = 1,
               .kw = 1,
               .place = at,
               .groups = planes.c,
               .bias = nullptr});
  };
  const Range rows{0, p.out.h}, columns{0, p.out.w};
  if (p.place.border != Border::zero_output) return depth(rows, columns, p.taps_z, p.kd, along_z);
  // The planes hold 0 at outputs whose window does not fit in y or x. A tap of Inf or NaN would turn this 0 into NaN;
  // one tap of 1 keeps it.
  const Placement& s = p.place;
  const Range y = outputs_inside(rows, p.kh, s.pad_y, s.stride_y, s.dilation_y, p.in.h);
  const Range x = outputs_inside(columns, p.kw, s.pad_x, s.stride_x, s.dilation_x, p.in.w);
  const Taps keep = one_tap(call, accumulation_dtype(p.in.dtype), target.cuda());
  depth(y, x, p.taps_z, p.kd, along_z);
  depth({0, y.begin}, columns, keep, 1, kIdentity);
  depth({y.end, p.out.h}, columns, keep, 1, kIdentity);
  depth(y, {0, x.begin}, keep, 1, kIdentity);
  depth(y, {x.end, p.out.w}, keep, 1, kIdentity);
}

// Converts images to float32, filters them, and converts the result; sums are float32 either way and rounded once.
// Returns false without a launch if float32 takes as many launches, or if memory for the float32 images runs out.
bool run_in_float32(Call& call, const Target& target, const ImageView& in, const Decision<Separable>& d) {
  const Image &from = d.problem.in, &to = d.problem.out;
  const bool converts_in = from.dtype != Dtype::f32, converts_out = to.dtype != Dtype::f32;
  const auto sizes = [&](const Image& like) { return resized(in.tensor, {.h = like.h, .w = like.w}, 2); };
  const auto planned = [&](const Image& like) {
    const Sizes strides = strides_in_format_of(in.tensor, sizes(like), 2);
    return *merge_leading(placeholder(in.tensor, sizes(like), strides, ScalarType::Float), Dtype::f32, 2);
  };
  Separable p = d.problem;
  if (converts_in) p.in = planned(from);
  if (converts_out) p.out = planned(to);
  Decision<Separable> wide = dispatch(target, p);
  if (wide.plan->launches >= d.plan->launches) return false;
  std::vector<Tensor> memory;
  const auto allocated = [&](const Image& like) {
    return memory.emplace_back(empty_result(call, in.tensor, sizes(like), 2, ScalarType::Float)).data_ptr();
  };
  try {
    if (converts_in) wide.problem.in.data = allocated(from);
    if (converts_out) wide.problem.out.data = allocated(to);
  } catch (const OutOfMemory&) {
    if (call.graph) call.graph->invalidate();
    return false;
  }
  const auto convert = [&](const Image& from, const Image& to) {
    run(call, target,
        Direct{.in = from,
               .out = to,
               .taps = one_tap(call, Dtype::f32, target.cuda()),
               .kd = 1,
               .kh = 1,
               .kw = 1,
               .place = kIdentity,
               .groups = from.c,
               .bias = nullptr});
  };
  if (converts_in) convert(from, wide.problem.in);
  launch(call, target, wide);
  if (converts_out) convert(wide.problem.out, to);
  return true;
}

// `required` refuses the call if no kernel of the fused kernel family serves it.
Fused as_fused(const Separable& p, bool required) {
  const Stage stage{.windows = 1, .kh = p.kh, .kw = p.kw, .taps_x = {p.taps_x}, .taps_y = {p.taps_y}};
  Fused chain = Fused::of(stage, p.in, p.out, p.place, false);
  chain.wanted = required;
  return chain;
}

}  // namespace

void run_separable(Call& call, const Target& target, const ImageView& in, int axes, const Separable& p, Algorithm asked,
                   bool halving) {
  const bool required = asked == Algorithm::fused && !part_of(call);  // a part has the same bits by passes
  const bool fused = halving && (required || (target.cuda() && asked == Algorithm::automatic));
  if (!fused || !run_in_one_launch(call, target, as_fused(p, required))) run_passes(call, target, in, axes, p);
}

void run_passes(Call& call, const Target& target, const ImageView& in, int axes, const Separable& p) {
  if (axes == 3) {
    if (p.peers.any()) return run_on_shards(call, target, p);
    const auto d = dispatch_volumes(target, p);
    const bool replaces_fused = call.replaces_fused;
    if (!d || !launch_if_served(call, target, *d)) in_two_passes(call, target, in, p);
    call.replaces_fused = replaces_fused;  // of what comes next
    return;
  }
  if (p.peers.any()) return run(call, target, p);
  const Decision<Separable> d = dispatch(target, p);
  check_serves(call, d, wanted_by(p.sums));
  const bool convert = target.cuda() && *d.pinned == 0 && separable2d::float32_may_be_faster(p, *d.plan);
  if (!convert || !run_in_float32(call, target, in, d)) launch(call, target, d);
}

}  // namespace torch_conv
