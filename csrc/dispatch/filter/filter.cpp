#include "dispatch/filter/filter.h"

#include <algorithm>
#include <cstring>

#include "core/refusals.h"
#include "dispatch/filter/by_fft.h"

namespace torch_conv {

namespace {

// What was decided by the values of a window on the CPU holds while they stay.
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

// How the family for depthwise convolutions sums: products on tensor cores, or the chains of multiply-adds that are a
// filter's own. float16, us of the filters' kernels, that family's chains and its products (F.conv2d), one NVIDIA H200:
//
//   3x3  8x1080x1920 of 8: 215, 190, 526 (205); 24x112 of 64: 50, 31, 39 (38); 40x56: 29, 16, 19 (20);
//        64x224 of 16: 70, 64, 61 (89); 96x56 of 64: 33, 25, 26 (38); 480x14: 18, 12, 11 (16);
//        48x56 of 1: 5.7, 2.6, 4.5 (3.3)
//   5x5  8x1080x1920 of 8: 287, 319, 528 (365); 24x56 of 64: 23, 16, 16 (20); 24x112: 58, 55, 40 (65);
//        40x56: 33, 26, 20 (29); one NVIDIA H100, 24x1080x1920 of 4: 533, 465, 569 (701)
//
// Larger windows, the filters' kernels and products, one NVIDIA H100: 7x7 64x224 of 16: 466, 81 (326); 512x56 of 8:
// 262, 43 (170); 8x1080x1920 of 8: 1164, 799 (813); 6x6 1066, 817; 24x1080x1920 of 4: 1325, 605. bfloat16 is the same
// to 5 %. Channels that are no multiple of four were not measured.
Sums sums_of_channels(const Direct& p) {
  const int64_t taps = p.kh * p.kw;
  return taps <= 9 || (taps <= 25 && p.in.c % 16 != 0) ? Sums::chain : Sums::mma;
}
bool worth_channels(const Direct& p) {
  const int64_t taps = p.kh * p.kw;
  return std::min(p.kh, p.kw) > 1 && p.in.c % 4 == 0 && p.in.c >= (taps > 9 && taps <= 25 ? 12 : 8);
}

// Is the variant pinned that makes such filters? No family of filters has one of that name.
bool channels_pinned() { return std::strcmp(environment("TORCH_CONV_VARIANT"), "channels_mma") == 0; }

bool is_empty(const Image& x) { return x.n * x.c * x.d * x.h * x.w == 0; }  // families plan no empty results

class FilterDispatch {
 public:
  FilterDispatch(Call& call, const Target& target, int axes, const Tensor& kernel, const WindowOptions& options,
                 const Window& window, const Direct& p)
      : call_(call),
        target_(target),
        axes_(axes),
        kernel_(kernel),
        options_(options),
        window_(window),
        p_(p),
        size_(filter_size(p, target)) {
    if (axes == 2)
      made_.sums = p.sums == Sums::mma || channels_pinned() ? Sums::mma
                   : call.whole                             ? call.whole->sums
                                                            : sums_of_channels(p);
  }

  FilterDecision decide(Algorithm asked) {
    if (const Footprint* whole = call_.whole) as_the_whole(*whole);
    else if (axes_ == 3) made_.algorithm = Algorithm::direct;
    else if (asked == Algorithm::automatic) fastest();
    else if (asked == Algorithm::tensor_core) by_products();
    else if (asked == Algorithm::fft) check_fft();
    else if (asked == Algorithm::low_rank) check_low_rank();
    if (made_.algorithm == Algorithm::direct && !call_.only_footprint() && !made_.narrow && !keep_narrow() &&
        !is_empty(p_.out) && !p_.peers.any())
      made_.direct = direct(false);
    return std::move(made_);
  }

 private:
  // A filter with windows in the images' dtype, one for each of many interleaved channels, and zeros outside is a
  // depthwise convolution.
  bool is_depthwise() const {
    const bool own = p_.in.c > 1 && p_.in.stride_c == 1 && p_.taps.stride_c != 0 && p_.taps.stride_n == 0;
    const bool zeros = p_.place.border == Border::constant && p_.place.value == 0;
    return own && zeros && !is_empty(p_.out) && p_.taps.narrow && p_.in.dtype == p_.out.dtype;
  }
  // Windows of the host will be brought to fresh memory, where all vectors start.
  std::optional<Decision<Depthwise>> channels() const {
    if (!is_depthwise()) return std::nullopt;
    return dispatch(target_, Depthwise{.in = p_.in,
                                       .out = p_.out,
                                       .weight = p_.taps.on_host ? nullptr : p_.taps.data,
                                       .bias = nullptr,
                                       .weights = p_.in.dtype,
                                       .kh = p_.kh,
                                       .kw = p_.kw,
                                       .place = p_.place,
                                       .activation = Activation::none,
                                       .sums = made_.sums});
  }
  bool take(Decision<Depthwise> depthwise) {
    if (!depthwise.serves()) return pass_on(call_, *depthwise.plan), false;
    made_.algorithm = Algorithm::depthwise, made_.depthwise = std::move(depthwise);
    return true;
  }

  std::vector<Decision<Direct>> direct(bool narrow) const {
    Direct p = p_;
    p.taps = taps_after_upload(window_, p.in.dtype, narrow);
    return dispatch(target_, p);
  }
  // Kernels on tensor cores read 16-bit taps without a conversion.
  bool keep_narrow() {
    if (!p_.taps.narrow || is_empty(p_.out)) return false;
    made_.direct = direct(true);
    made_.narrow = all_serve(made_.direct);
    if (!made_.narrow) made_.direct.clear();
    return made_.narrow;
  }

  // What serves the whole serves its parts, but a part may lie otherwise.
  void as_the_whole(const Footprint& whole) {
    if (whole.by_values) factor();
    if (whole.algorithm != Algorithm::depthwise) return void(made_.algorithm = whole.algorithm);
    auto depthwise = channels();
    if (!depthwise) return;
    if (p_.sums == Sums::mma || channels_pinned()) check_serves(call_, *depthwise, wanted_by(made_.sums));
    take(std::move(*depthwise));
  }

  // `direct` makes products of planes. Where neither family takes the filter, that for depthwise convolutions says why.
  void by_products() {
    auto depthwise = channels();
    if (!depthwise || take(*depthwise) || keep_narrow()) return;
    check_serves(call_, *depthwise, wanted_by(made_.sums));
  }

  bool channels_are_faster() {
    if (worth_channels(p_)) {
      auto depthwise = channels();
      return depthwise && take(std::move(*depthwise));
    }
    if (is_depthwise())
      pass_on(call_, {.algorithm = "depthwise",
                      .refused = {{"channels_mma", "few taps or channels: multiply-adds are as fast"}}});
    return false;
  }

  void fastest() {
    if (channels_pinned()) return by_products();
    if (*environment("TORCH_CONV_VARIANT") || channels_are_faster()) return;
    const bool fft = fft_is_faster(size_);
    if (fft) made_.algorithm = Algorithm::fft;
    if (!worth_a_look()) return;
    factor();
    // Where passes and FFT take about as long, passes have the same bits wherever a pixel lies.
    const double others = fft ? 1.25 * fft_tiles(size_).seconds : direct_seconds(size_);
    const auto& factors = made_.factors;
    if (factors && divides_alike() && passes_seconds(size_, factors->rank()) < others)
      made_.algorithm = Algorithm::low_rank;
  }

  // Small images never pay for a look at the window either.
  bool worth_a_look() const {
    constexpr int64_t kLeastOutputs = 64 * 64;
    return size_.kh * size_.kw >= kLeastTaps && size_.out_h * size_.out_w >= kLeastOutputs &&
           !low_rank_refusal(kernel_, {.h = size_.kh, .w = size_.kw}) &&
           passes_seconds(size_, 1) < direct_seconds(size_);
  }

  void factor() {
    made_.by_values = true;
    depend_on_values(call_, kernel_);
    made_.factors = LowRank::of(host_taps(kernel_, p_.in.dtype, 2, options_));
  }

  // Normalized 'skip' divides by the sum of the |taps| inside, which is a product of sums for one term only.
  bool divides_alike() const { return !p_.place.normalized || made_.factors->rank() == 1; }

  void check_fft() {
    const int64_t most = largest_fft_span(size_);
    check(std::max(size_.span_h, size_.span_w) <= most, call_.op,
          "algorithm 'fft' cannot serve this call: the window spans ", size_.span_h, "x", size_.span_w,
          " pixels, more than ", most, " along an axis");
    made_.algorithm = Algorithm::fft;
  }

  void check_low_rank() {
    const char* why = low_rank_refusal(kernel_, {.h = size_.kh, .w = size_.kw});
    if (!why) factor();
    if (!why && !made_.factors) why = "the window is not of rank 1 to 4";
    if (!why && !divides_alike()) why = "border_type 'skip' with normalized needs a window of rank 1";
    if (why) refuse(call_.op, "algorithm 'low_rank' cannot serve this call: ", why);
    made_.algorithm = Algorithm::low_rank;
  }

  Call& call_;
  const Target& target_;
  const int axes_;
  const Tensor& kernel_;
  const WindowOptions& options_;
  const Window& window_;
  const Direct& p_;
  const FilterSize size_;
  FilterDecision made_;
};

}  // namespace

FilterDecision dispatch_filter(Call& call, const Target& target, int axes, Algorithm asked, const Tensor& kernel,
                               const WindowOptions& options, const Window& window, const Direct& problem) {
  return FilterDispatch(call, target, axes, kernel, options, window, problem).decide(asked);
}

void run_filter(Call& call, const Target& target, int axes, FilterDecision d, Direct p, Window window) {
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
  if (axes == 3 && p.peers.any() && !serves_shards(target, p)) return;  // without an upload
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
  // What kernels ask for, but for what hardly ever fails.
  const bool cuda = target.cuda(), planes = cuda && p.in.stride_w == 1 && s.unit_steps_of_images();
  const bool half = is_half(p.in.dtype) && s.border != Border::skip;
  const bool photos = cuda && s.unit_steps_of_images() && hwc_channels(p.in, p.out, p.peers) > 1;
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
          .products = (planes || photos) && half && target.arch().bulk_copy,
          .one_launch = planes && small && is_stage(p)};
}

}  // namespace torch_conv
