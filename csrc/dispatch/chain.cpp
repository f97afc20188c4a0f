#include "dispatch/dispatch.h"
#include "dispatch/volumes.h"
#include "dispatch/windows.h"

namespace torch_conv {

namespace {

// The input or the output of a stage: an image for every channel, `stride` elements apart.
struct Channels {
  std::vector<ImageView> views;
  int64_t stride = 0;
};

Extent size_of_stage(const Fused& p, const Stage& s, const Image& x) {
  if (!p.valid) return {x.d, x.h, x.w};
  return {x.d - s.kd + 1, x.h - s.kh + 1, x.w - s.kw + 1};
}

// Window i of a stage as a separable filter.
Separable filter_of_window(const Fused& p, int axes, const Stage& s, int i, const Image& in, const Image& out,
                           int64_t stride) {
  const auto pad = [&](int64_t k) { return p.valid ? 0 : k / 2; };
  return {.in = in,
          .out = out,
          .taps_x = s.taps_x[i],
          .taps_y = s.taps_y[i],
          .taps_z = s.taps_z[i],
          .kd = s.kd,
          .kh = s.kh,
          .kw = s.kw,
          .place = {.pad_z = pad(s.kd),
                    .pad_y = pad(s.kh),
                    .pad_x = pad(s.kw),
                    .stride_z = axes == 3 ? stride : 1,
                    .stride_y = stride,
                    .stride_x = stride,
                    .border = p.border,
                    .value = p.value}};
}

Combine combine(const Stage& stage, const Channels& sums, const Channels& outputs) {
  Combine problem{.windows = int(sums.views.size()),
                  .centre = {},
                  .out = outputs.views[0].image,
                  .stride_output = outputs.stride,
                  .point = stage.point,
                  .number = stage.number,
                  .margin_y = 0,
                  .margin_x = 0};
  for (size_t i = 0; i < sums.views.size(); ++i) problem.sums[i] = sums.views[i].image;
  return problem;
}

class UnfusedChain {
 public:
  UnfusedChain(Call& call, const Target& target, int axes, const Fused& p)
      : call_(call), target_(target), axes_(axes), p_(p), sums_dtype_(accumulation_dtype(p.in.dtype)) {}

  void run(const ImageView& in) const {
    Channels inputs{{in}};
    for (int i = 0; i < p_.count; ++i) {
      const Stage& stage = p_.stages[i];
      const ImageView& like = inputs.views[0];
      const bool last = i + 1 == p_.count;
      Channels outputs =
          last ? results(stage.outputs(), like) : scratch(stage.outputs(), like, size_of_stage(p_, stage, like.image));
      run_stage(stage, inputs, outputs, last ? p_.stride : 1);
      inputs = std::move(outputs);
    }
  }

 private:
  // The last stage's outputs. No stage reads their tensor.
  Channels results(int count, const ImageView& any) const {
    Channels outputs{{}, p_.stride_output};
    for (int i = 0; i < count; ++i) {
      Image image = p_.out;
      image.data = static_cast<char*>(image.data) + i * p_.stride_output * size_of(image.dtype);
      outputs.views.push_back({any.tensor, image});
    }
    return outputs;
  }

  // Memory of the accumulation dtype in the memory format of `like`.
  Channels scratch(int count, const ImageView& like, const Extent& size) const {
    const Tensor memory =
        empty_results(call_, count, like.tensor, resized(like.tensor, size, axes_), axes_, scalar_type_of(sums_dtype_));
    Channels channels{{}, memory.stride(0)};
    for (int i = 0; i < count; ++i) {
      const Tensor one = torch::stable::select(memory, 0, i);
      channels.views.push_back({one, *merge_leading(one, sums_dtype_, axes_)});
    }
    return channels;
  }

  void run_windows(const Stage& stage, const Channels& inputs, const Channels& sums, int64_t stride) const {
    for (int i = 0; i < stage.windows; ++i) {
      const ImageView& from = inputs.views[i % inputs.views.size()];
      run_passes(call_, target_, from, axes_,
                 filter_of_window(p_, axes_, stage, i, from.image, sums.views[i].image, stride));
    }
  }

  void run_stage(const Stage& stage, const Channels& inputs, const Channels& outputs, int64_t stride) const {
    if (stage.point == Point::each) return run_windows(stage, inputs, outputs, stride);
    if (stage.point == Point::thin) return run_thin(stage, inputs, outputs, stride);
    const Image& out = outputs.views[0].image;
    const Channels sums = scratch(stage.windows, inputs.views[0], {out.d, out.h, out.w});
    run_windows(stage, inputs, sums, stride);
    Combine problem = combine(stage, sums, outputs);
    if (stage.point == Point::sharpen) {
      const int64_t y = stage.kh / 2, x = stage.kw / 2;
      const Image& in = inputs.views[0].image;
      problem.centre = p_.valid ? cut(in, {y, in.h - y}, {x, in.w - x}) : in;
      if (p_.border == Border::zero_output && !p_.valid) problem.margin_y = y, problem.margin_x = x;
    }
    torch_conv::run(call_, target_, problem);
  }

  // Thinning has an output for every pixel. With 'valid' or a stride, a filter with one tap of 1 copies the result out.
  void run_thin(const Stage& stage, const Channels& inputs, const Channels& outputs, int64_t stride) const {
    if (!p_.valid && stride == 1) return torch_conv::run(call_, target_, combine(stage, inputs, outputs));
    const Image& from = inputs.views[0].image;
    const Channels thinned = scratch(1, inputs.views[0], {from.d, from.h, from.w});
    torch_conv::run(call_, target_, combine(stage, inputs, thinned));
    const int64_t y = p_.valid ? stage.kh / 2 : 0, x = p_.valid ? stage.kw / 2 : 0;
    Stage copy{.windows = 1, .kh = 1, .kw = 1};
    copy.taps_x[0] = copy.taps_y[0] = one_tap(call_, sums_dtype_, target_.cuda());
    const Image part = cut(thinned.views[0].image, {y, from.h - y}, {x, from.w - x});
    torch_conv::run(call_, target_, filter_of_window(p_, axes_, copy, 0, part, outputs.views[0].image, stride));
  }

  Call& call_;
  const Target& target_;
  const int axes_;
  const Fused& p_;
  const Dtype sums_dtype_;
};

}  // namespace

void run_chain(Call& call, const Target& target, const ImageView& in, int axes, const Fused& p, Algorithm asked) {
  if (p.peers.any()) return run_on_shards(call, target, p);
  if (asked != Algorithm::separable && run_in_one_launch(call, target, p)) return;
  UnfusedChain(call, target, axes, p).run(in);
}

}  // namespace torch_conv
