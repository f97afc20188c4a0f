#include "dispatch/filter/by_low_rank.h"

#include <algorithm>

#include "graph/launch_graph.h"

namespace torch_conv {

std::optional<LowRank> LowRank::of(const Tensor& taps) {
  const int64_t kh = taps.size(taps.dim() - 2), kw = taps.size(taps.dim() - 1), windows = taps.numel() / (kh * kw);
  const auto factored = [&](auto zero) -> std::optional<LowRank> {
    using A = decltype(zero);
    auto found = factors_of(static_cast<const A*>(taps.data_ptr()), windows, kh, kw);
    if (!found) return std::nullopt;
    const auto kept = std::make_shared<const Factors<A>>(std::move(*found));
    LowRank low(taps);
    for (int r = 0; r < kMostRank; ++r) low.factors_[0][r] = kept->y[r].data(), low.factors_[1][r] = kept->x[r].data();
    low.owner_ = kept, low.windows_ = windows, low.rank_ = kept->rank;
    return low;
  };
  return taps.scalar_type() == ScalarType::Double ? factored(double{}) : factored(float{});
}

Window LowRank::along(const Call& call, int r, bool x, const Window& window, bool on_host) const {
  const int64_t k = x ? window.size.w : window.size.h, taps = window.size.h * window.size.w;
  void* const data = const_cast<void*>(factors_[x][r]);
  const Sizes sizes{windows_ * k};
  if (call.graph) call.graph->keep(owner_, data, windows_ * k * int64_t(taps_.element_size()));
  return {torch::stable::from_blob(data, sizes, contiguous_strides(sizes), taps_.device(), taps_.scalar_type()),
          Taps{.data = data,
               .on_host = on_host,
               .stride_n = window.taps.stride_n / taps * k,
               .stride_c = window.taps.stride_c / taps * k,
               .stride_ci = 0},
          {.d = 1, .h = 1, .w = k}};
}

const char* low_rank_refusal(const Tensor& kernel, const Extent& window) {
  if (!kernel.is_cpu())
    return "the window lies on the GPU, where its values are not looked at; see torch_conv.kernels.prepare";
  if (std::min(window.h, window.w) == 1) return "the window has one row or one column";
  return nullptr;
}

bool serves_as_stage(const Direct& p) {
  const auto same = [](int64_t in, int64_t out, int64_t k, int64_t pad) { return pad == k / 2 && out == in; };
  const auto valid = [](int64_t in, int64_t out, int64_t k, int64_t pad) { return pad == 0 && out == in - k + 1; };
  const auto along_both = [&](const auto& rule) {
    return rule(p.in.h, p.out.h, p.kh, p.place.pad_y) && rule(p.in.w, p.out.w, p.kw, p.place.pad_x);
  };
  return p.kh % 2 == 1 && p.kw % 2 == 1 && p.place.unit_steps_of_images() && (along_both(same) || along_both(valid));
}

namespace {

struct Term {
  Window y, x;
};

// The terms and their sum in one launch, where a kernel family serves it.
bool run_as_stage(Call& call, const Target& target, const Direct& p, const std::vector<Term>& terms) {
  const int count = int(terms.size());
  if (count == 1 || count > Stage::kMost || !serves_as_stage(p)) return false;
  Stage stage{.windows = count, .kh = p.kh, .kw = p.kw, .point = Point::sum};
  for (int r = 0; r < count; ++r) stage.taps_y[r] = terms[r].y.taps, stage.taps_x[r] = terms[r].x.taps;
  return run_in_one_launch(call, target, Fused::of(stage, p.in, p.out, p.place, p.out.h < p.in.h));
}

}  // namespace

void run_low_rank(Call& call, const Target& target, const Direct& p, const Window& window, const LowRank& factors) {
  const int rank = factors.rank();
  if (call.lines)
    call.explain("low_rank/passes (the window is of rank " + std::to_string(rank) +
                 "); as many separable filters, and their sum");
  std::vector<Term> terms;
  for (int r = 0; r < rank; ++r) {
    terms.push_back(
        {factors.along(call, r, false, window, target.cuda()), factors.along(call, r, true, window, target.cuda())});
    upload_large(call, terms[r].y, target.input());
    upload_large(call, terms[r].x, target.input());
  }
  if (run_as_stage(call, target, p, terms)) return;

  const Dtype dtype = accumulation_dtype(p.in.dtype);
  std::vector<Image> sums{p.out};
  std::optional<Tensor> scratch;
  if (rank > 1) {
    scratch = empty_results(call, rank, target.input(),
                            resized(target.input(), {.d = 1, .h = p.out.h, .w = p.out.w}, 2), 2, scalar_type_of(dtype));
    sums.clear();
    for (int r = 0; r < rank; ++r) sums.push_back(*merge_leading(torch::stable::select(*scratch, 0, r), dtype, 2));
  }
  for (int r = 0; r < rank; ++r)
    run(call, target,
        Separable{.in = p.in,
                  .out = sums[r],
                  .taps_x = terms[r].x.taps,
                  .taps_y = terms[r].y.taps,
                  .taps_z = {},
                  .kh = p.kh,
                  .kw = p.kw,
                  .place = p.place});
  // ((term 0 + term 1) + term 2) + term 3
  for (int from = 0; from + 1 < rank;) {
    const int count = std::min(rank - from, Stage::kMost);
    const bool last = from + count == rank;
    Combine combine{.windows = count,
                    .centre = {},
                    .out = last ? p.out : sums[from + count - 1],
                    .stride_output = 0,
                    .point = Point::sum,
                    .number = 0,
                    .margin_y = 0,
                    .margin_x = 0};
    for (int i = 0; i < count; ++i) combine.sums[i] = sums[from + i];
    run(call, target, combine);
    from += last ? rank : count - 1;
  }
}

}  // namespace torch_conv
