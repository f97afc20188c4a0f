#include "dispatch/filter/filter.h"

#include <algorithm>
#include <cstring>

#include "core/refusals.h"
#include "dispatch/filter/by_fft.h"
#include "dispatch/filter/tuning.h"
#include "kernels/depthwise/plan.h"
#include "sharding/part.h"

namespace torch_conv {

namespace {

// Adds to the graph's guards that the values of a window on the CPU stay as they are.
void depend_on_values(const Call& call, const Tensor& kernel) {
  if (!call.graph) return;
  if (!kernel.is_contiguous()) return call.graph->invalidate();
  const int64_t bytes = kernel.numel() * kernel.element_size();
  std::string values(static_cast<const char*>(kernel.data_ptr()), bytes);
  auto same = [i = call.graph->index_of(kernel), values = std::move(values)](const std::vector<Tensor>& given) {
    return std::memcmp(given[i].data_ptr(), values.data(), values.size()) == 0;
  };
  call.graph->guard(std::move(same), bytes);
}

// Whether the depthwise kernel family may compute the filter: interleaved channels with a window each, zeros outside.
bool is_depthwise(const Direct& p) {
  const bool window_each = p.in.c > 1 && p.in.stride_c == 1 && p.taps.stride_c != 0 && p.taps.stride_n == 0;
  const bool zeros = p.place.border == Border::constant && p.place.value == 0;
  return window_each && zeros && !is_empty(p.out) && p.taps.narrow && p.in.dtype == p.out.dtype;
}

// Host taps have no address yet: the launch uploads them.
Depthwise as_depthwise(const Direct& p, Sums sums) {
  return {.in = p.in,
          .out = p.out,
          .weight = p.taps.on_host ? nullptr : p.taps.data,
          .bias = nullptr,
          .weights = p.in.dtype,
          .kh = p.kh,
          .kw = p.kw,
          .place = p.place,
          .activation = Activation::none,
          .sums = sums};
}

// TORCH_CONV_VARIANT names a variant of the depthwise kernel family, so the pin selects the algorithm.
bool depthwise_pinned() { return std::strcmp(pinned_variant(), depthwise::kVariantOfFilters) == 0; }

// The rank costs a few passes over the taps on the host; small windows and small images are faster without it.
bool rank_may_matter(const FilterSize& size, const Tensor& kernel) {
  constexpr int64_t kLeastOutputs = 64 * 64;
  return size.kh * size.kw >= kLeastLowRankTaps && size.out_h * size.out_w >= kLeastOutputs &&
         !low_rank_refusal(kernel, {.h = size.kh, .w = size.kw}) && passes_seconds(size, 1) < direct_seconds(size);
}

void check_fft_span(const char* op, const FilterSize& size) {
  const int64_t most = largest_fft_span(size);
  check(std::max(size.span_h, size.span_w) <= most, op, "algorithm 'fft' cannot serve this call: the window spans ",
        size.span_h, "x", size.span_w, " pixels, more than ", most, " along an axis");
}

class FilterDispatch {
 public:
  explicit FilterDispatch(const FilterRequest& request)
      : request_(request),
        call_(request.call),
        target_(request.target),
        whole_(shards_of(request.call).whole_footprint),
        p_(request.problem),
        size_(filter_size(p_, target_)),
        mma_only_(p_.sums == Sums::mma || depthwise_pinned()) {
    if (request.axes == 2) decision_.sums = mma_only_ ? Sums::mma : whole_ ? whole_->sums : depthwise_sums(p_);
  }

  FilterDecision decide() {
    const Algorithm asked = request_.asked;
    if (whole_) choose_as_whole_image(*whole_);
    else if (request_.axes == 3) decision_.algorithm = Algorithm::direct;
    else if (asked == Algorithm::automatic) choose_fastest();
    else if (asked == Algorithm::tensor_core) choose_tensor_cores();
    else if (asked == Algorithm::fft) check_fft_span(call_.op, size_), decision_.algorithm = Algorithm::fft;
    else if (asked == Algorithm::low_rank) choose_low_rank();
    if (decision_.algorithm == Algorithm::direct && !call_.only_footprint() && !is_empty(p_.out)) plan_direct();
    return std::move(decision_);
  }

 private:
  // A part may have another layout than the whole image, so the depthwise kernel family may refuse it.
  void choose_as_whole_image(const Footprint& footprint) {
    if (footprint.by_values) factorize();
    if (footprint.algorithm != Algorithm::depthwise) decision_.algorithm = footprint.algorithm;
    else if (is_depthwise(p_)) choose_depthwise(mma_only_);
  }

  void choose_fastest() {
    if (depthwise_pinned()) return choose_tensor_cores();
    if (*pinned_variant() || depthwise_is_faster()) return;
    const bool fft = fft_is_faster(size_);
    if (fft) decision_.algorithm = Algorithm::fft;
    if (!rank_may_matter(size_, request_.kernel)) return;
    factorize();
    // If passes take about as long as FFT, passes are chosen: their bits do not depend on a pixel's position.
    const double others = fft ? 1.25 * fft_tiles(size_).seconds : direct_seconds(size_);
    const auto& factors = decision_.factors;
    if (factors && skip_is_separable() && passes_seconds(size_, factors->rank()) < others)
      decision_.algorithm = Algorithm::low_rank;
  }

  // Direct kernels with 16-bit taps compute by tensor cores. The depthwise kernel family gives the refusal reason.
  void choose_tensor_cores() {
    if (is_depthwise(p_) && !choose_depthwise(false) && !plan_with_narrow_taps()) choose_depthwise(true);
  }

  void choose_low_rank() {
    const char* why = low_rank_refusal(request_.kernel, {.h = size_.kh, .w = size_.kw});
    if (!why) factorize();
    if (!why && !decision_.factors) why = "the window is not of rank 1 to 4";
    if (!why && !skip_is_separable()) why = "border_type 'skip' with normalized needs a window of rank 1";
    if (why) refuse(call_.op, "algorithm 'low_rank' cannot serve this call: ", why);
    decision_.algorithm = Algorithm::low_rank;
  }

  bool depthwise_is_faster() {
    if (!is_depthwise(p_)) return false;
    const char* slower = depthwise_is_slower(p_);
    if (!slower) return choose_depthwise(false);
    note_refusals(call_, {.algorithm = "depthwise", .refused = {{depthwise::kVariantOfFilters, slower}}});
    return false;
  }

  // If the depthwise kernel family does not serve the filter, returns false, or refuses the call if `required`.
  bool choose_depthwise(bool required) {
    Decision<Depthwise> depthwise = dispatch(target_, as_depthwise(p_, decision_.sums));
    if (required) check_serves(call_, depthwise, wanted_by(decision_.sums));
    if (!depthwise.serves()) return note_refusals(call_, *depthwise.plan), false;
    decision_.algorithm = Algorithm::depthwise, decision_.depthwise = std::move(depthwise);
    return true;
  }

  void plan_direct() {
    if (p_.peers.any()) decision_.reads_shards = serves_shards(target_, p_, request_.axes);
    else if (!decision_.narrow && !plan_with_narrow_taps()) decision_.direct = plans(false);
  }

  bool plan_with_narrow_taps() {
    if (!p_.taps.narrow || is_empty(p_.out)) return false;
    decision_.direct = plans(true);
    decision_.narrow = all_serve(decision_.direct);
    if (!decision_.narrow) decision_.direct.clear();
    return decision_.narrow;
  }

  std::vector<Decision<Direct>> plans(bool narrow) const {
    Direct p = p_;
    p.taps = taps_after_upload(request_.window, p.in.dtype, narrow);
    return dispatch(target_, p);
  }

  void factorize() {
    decision_.by_values = true;
    depend_on_values(call_, request_.kernel);
    decision_.factors = LowRank::of(host_taps(request_.kernel, p_.in.dtype, 2, request_.options));
  }

  // Normalized 'skip' divides by the sum of the |taps| inside. This sum is separable for rank 1 only.
  bool skip_is_separable() const { return !p_.place.normalized || decision_.factors->rank() == 1; }

  const FilterRequest& request_;
  Call& call_;
  const Target& target_;
  const Footprint* whole_;  // of the whole image, where the call is for a part
  const Direct& p_;
  const FilterSize size_;
  const bool mma_only_;
  FilterDecision decision_;
};

}  // namespace

FilterDecision dispatch_filter(const FilterRequest& request) { return FilterDispatch(request).decide(); }

void run_filter(const FilterRequest& request) {
  Call& call = request.call;
  const Target& target = request.target;
  FilterDecision d = dispatch_filter(request);
  Direct p = request.problem;
  Window window = request.window;
  if (d.depthwise) {
    upload(call, window, target.input());
    d.depthwise->problem.weight = window.taps.data;
    return launch(call, target, *d.depthwise);
  }
  if (!d.narrow) widen(call, window, target.input(), p.in.dtype);
  p.taps = window.taps;
  if (d.algorithm == Algorithm::low_rank) return run_low_rank(call, target, p, window, *d.factors);
  if (d.algorithm == Algorithm::fft) {
    upload(call, window, target.input());
    p.taps = window.taps;
    return run_by_fft(call, target, p, window);
  }
  if (p.peers.any() && !d.reads_shards) return;  // without an upload
  for (const Decision<Direct>& part : d.direct) check_serves(call, part, wanted_by(p.sums));
  upload_large(call, window, target.input());
  p.taps = window.taps;
  if (p.peers.any()) return run(call, target, p);
  for (Decision<Direct>& part : d.direct) {
    part.problem.taps.data = window.taps.data;
    launch(call, target, part);
  }
}

FilterSize filter_size(const Direct& p, const Target& target) {
  const Placement& s = p.place;
  const bool cuda = target.cuda(), planes = cuda && p.in.stride_w == 1 && s.unit_steps_of_images();
  const bool half = is_half(p.in.dtype) && s.border != Border::skip;
  const bool hwc = cuda && s.unit_steps_of_images() && hwc_channels(p.in, p.out, p.peers) > 1;
  const bool small = p.kh == p.kw && p.kh <= 15 && p.one_window() && tiled_type(p.in.dtype);
  return {.planes = p.in.n * p.in.c,
          .windows = (p.taps.stride_n ? p.in.n : 1) * (p.taps.stride_c ? p.in.c : 1),
          .out_h = p.out.h,
          .out_w = p.out.w,
          .kh = p.kh,
          .kw = p.kw,
          .span_h = (p.kh - 1) * s.dilation_y + 1,
          .span_w = (p.kw - 1) * s.dilation_x + 1,
          .stride_h = s.stride_y,
          .stride_w = s.stride_x,
          .image = p.in.dtype,
          .cuda = cuda,
          .mma = (planes || hwc) && half && target.arch().bulk_copy,
          .one_launch = planes && small && serves_as_stage(p)};
}

}  // namespace torch_conv
