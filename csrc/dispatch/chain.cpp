#include "dispatch/chain.h"

#include "dispatch/passes.h"
#include "dispatch/volumes.h"
#include "dispatch/windows.h"

namespace torch_conv {

namespace {

// What a stage reads and what it makes: an image for every channel, as many elements apart.
struct Channels {
  std::vector<ImageView> views;
  int64_t stride = 0;
};

class Chain {
 public:
  Chain(Call& call, const Target& target, int axes, const Fused& p)
      : call_(call), target_(target), axes_(axes), p_(p), sums_(accumulation_dtype(p.in.dtype)) {}

  void run(const ImageView& in) {
    Channels read{{in}};
    for (int i = 0; i < p_.count; ++i) {
      const Stage& stage = p_.stages[i];
      const Image& from = read.views[0].image;
      const bool last = i + 1 == p_.count;
      const Extent size = last ? Extent{p_.out.d, p_.out.h, p_.out.w} : size_after(stage, from);
      Channels made = last ? results(stage.outputs(), read.views[0]) : scratch(stage.outputs(), read.views[0], size);
      run_stage(stage, read, made, last ? p_.stride : 1);
      read = std::move(made);
    }
  }

 private:
  Extent size_after(const Stage& s, const Image& x) const {
    if (!p_.valid) return {x.d, x.h, x.w};
    return {x.d - s.kd + 1, x.h - s.kh + 1, x.w - s.kw + 1};
  }

  // The parts of the result; no stage reads their tensor.
  Channels results(int count, const ImageView& any) const {
    Channels made{{}, p_.stride_output};
    for (int i = 0; i < count; ++i) {
      Image image = p_.out;
      image.data = static_cast<char*>(image.data) + i * p_.stride_output * size_of(image.dtype);
      made.views.push_back({any.tensor, image});
    }
    return made;
  }

  // Memory of the accumulation dtype in the order of `like`.
  Channels scratch(int count, const ImageView& like, const Extent& size) const {
    const Tensor memory =
        empty_results(call_, count, like.tensor, resized(like.tensor, size, axes_), axes_, scalar_type_of(sums_));
    Channels made{{}, memory.stride(0)};
    for (int i = 0; i < count; ++i) {
      const Tensor one = torch::stable::select(memory, 0, i);
      made.views.push_back({one, *merge_leading(one, sums_, axes_)});
    }
    return made;
  }

  void run_stage(const Stage& stage, const Channels& read, const Channels& made, int64_t stride) const {
    const auto filter = [&](const Channels& sums) {
      for (int i = 0; i < stage.windows; ++i) {
        const ImageView& from = read.views[i % read.views.size()];
        run_passes(call_, target_, from, axes_, window(stage, i, from.image, sums.views[i].image, stride));
      }
    };
    if (stage.point == Point::each) return filter(made);
    if (stage.point == Point::thin) return thin(stage, read, made, stride);
    const Image& out = made.views[0].image;
    const Channels sums = scratch(stage.windows, read.views[0], {out.d, out.h, out.w});
    filter(sums);
    Combine problem = combine(stage, sums, made);
    if (stage.point == Point::sharpen) {
      const int64_t y = stage.kh / 2, x = stage.kw / 2;
      const Image& whole = read.views[0].image;
      problem.centre = p_.valid ? cut(whole, {y, whole.h - y}, {x, whole.w - x}) : whole;
      if (p_.border == Border::zero_output && !p_.valid) problem.margin_y = y, problem.margin_x = x;
    }
    torch_conv::run(call_, target_, problem);
  }

  Separable window(const Stage& s, int i, const Image& in, const Image& out, int64_t stride) const {
    const auto pad = [&](int64_t k) { return p_.valid ? 0 : k / 2; };
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
                      .stride_z = axes_ == 3 ? stride : 1,
                      .stride_y = stride,
                      .stride_x = stride,
                      .border = p_.border,
                      .value = p_.value}};
  }

  Combine combine(const Stage& stage, const Channels& sums, const Channels& made) const {
    Combine problem{.windows = int(sums.views.size()),
                    .centre = {},
                    .out = made.views[0].image,
                    .stride_output = made.stride,
                    .point = stage.point,
                    .number = stage.number,
                    .margin_y = 0,
                    .margin_x = 0};
    for (size_t i = 0; i < sums.views.size(); ++i) problem.sums[i] = sums.views[i].image;
    return problem;
  }

  // Thinning makes an image as large as what it reads; with 'valid' or a stride a part of it is the result, copied by a
  // tap of 1.
  void thin(const Stage& stage, const Channels& read, const Channels& made, int64_t stride) const {
    if (!p_.valid && stride == 1) return torch_conv::run(call_, target_, combine(stage, read, made));
    const Image& from = read.views[0].image;
    const Channels whole = scratch(1, read.views[0], {from.d, from.h, from.w});
    torch_conv::run(call_, target_, combine(stage, read, whole));
    const int64_t y = p_.valid ? stage.kh / 2 : 0, x = p_.valid ? stage.kw / 2 : 0;
    Stage copy{.windows = 1, .kh = 1, .kw = 1};
    copy.taps_x[0] = copy.taps_y[0] = one_tap(call_, sums_, target_.cuda());
    const Image part = cut(whole.views[0].image, {y, from.h - y}, {x, from.w - x});
    torch_conv::run(call_, target_, window(copy, 0, part, made.views[0].image, stride));
  }

  Call& call_;
  const Target& target_;
  int axes_;
  const Fused& p_;
  Dtype sums_;
};

}  // namespace

void run_chain(Call& call, const Target& target, const ImageView& in, int axes, const Fused& p) {
  Chain(call, target, axes, p).run(in);
}

}  // namespace torch_conv
