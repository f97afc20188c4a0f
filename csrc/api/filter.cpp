// filter2d and filter3d: any window, directly; over images also by FFT, or as a few separable filters.
#include <algorithm>
#include <cstring>

#include "api/filters.h"
#include "api/float64.h"
#include "api/operator.h"
#include "dispatch/dispatch.h"
#include "dispatch/filter_fft.h"
#include "dispatch/filter_low_rank.h"
#include "dispatch/plan_calls.h"
#include "graph/launch_graph.h"
#include "tensors/windows.h"

namespace torch_conv {

namespace {

Sums order_of_sums(const std::string& algorithm) {
  return algorithm == "direct" ? Sums::chain : algorithm == "tensor_core" ? Sums::products : Sums::any;
}

void check_words(const char* op, const std::string& algorithm, int axes) {
  static constexpr const char* images[] = {"auto", "direct", "tensor_core", "fft", "low_rank"};
  static constexpr const char* volumes[] = {"auto", "direct"};
  if (axes == 2) check_algorithm(op, algorithm, images);
  else check_algorithm(op, algorithm, volumes);
}

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

// A filter with windows in the images' dtype, one for each of many channels side by side, and zeros outside: a
// depthwise convolution.
std::optional<Depthwise> as_depthwise(const Direct& p, Sums sums = Sums::products) {
  const bool own = p.in.c > 1 && p.in.stride_c == 1 && p.taps.stride_c != 0 && p.taps.stride_n == 0;
  const bool zeros = p.place.border == Border::constant && p.place.value == 0;
  const bool nothing = p.out.n * p.out.h * p.out.w == 0;  // rooms plan no empty results
  if (!own || !zeros || nothing || !p.taps.narrow || p.in.dtype != p.out.dtype) return std::nullopt;
  return Depthwise{.in = p.in,
                   .out = p.out,
                   .weight = p.taps.data,
                   .bias = nullptr,
                   .weights = p.in.dtype,
                   .kh = p.kh,
                   .kw = p.kw,
                   .place = p.place,
                   .activation = Activation::none,
                   .sums = sums};
}

// How that room sums: products on tensor cores, or the chains of multiply-adds that are a filter's own. float16, us of
// the filters' kernels, the room's chains and its products (F.conv2d), one NVIDIA H200:
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
  return taps <= 9 || (taps <= 25 && p.in.c % 16 != 0) ? Sums::chain : Sums::products;
}
bool worth_channels(const Direct& p) {
  const int64_t taps = p.kh * p.kw;
  return std::min(p.kh, p.kw) > 1 && p.in.c % 4 == 0 && p.in.c >= (taps > 9 && taps <= 25 ? 12 : 8);
}

// Is the kernel pinned that makes such filters? No room of filters has one of that name.
bool channels_pinned() { return std::strcmp(environment("TORCH_CONV_VARIANT"), "channels_mma") == 0; }

// False: the room does not take it, and nothing ran. Where only tensor cores or the pinned kernel will do, that makes a
// refusal. The room is asked once more: a part may lie otherwise than the whole that `Choice` saw, a result otherwise
// than the images. Calls with the same signature replay their graph without this question.
bool run_as_depthwise(Call& call, const Place& place, const Tensor& input, const Direct& p, Window& window) {
  const bool only = p.sums == Sums::products || channels_pinned();
  auto channels = as_depthwise(p, call.reach.sums);
  if (!channels || (!only && !serves_depthwise(call, place, *channels))) return false;
  upload(call, window, input);
  channels->weight = window.taps.data;
  return run_depthwise(call, place, input, *channels);
}

// How a filter of images is made. What serves the whole serves its parts.
class Choice {
 public:
  Choice(Call& call, const Tensor& kernel, const WindowOptions& options, const Direct& p, const Place& place)
      : call_(call), kernel_(kernel), options_(options), p_(p), place_(place), size_(filter_size(p, place)) {}

  Way way(const std::string& algorithm) {
    if (const Reach* whole = call_.whole) {
      if (whole->by_values) factor();
      return whole->way;
    }
    if (algorithm == "auto") return fastest();
    if (algorithm == "tensor_core") return by_products();
    if (algorithm == "fft") check_fft();
    if (algorithm == "low_rank") check_low_rank();
    return algorithm == "fft" ? Way::fft : algorithm == "low_rank" ? Way::low_rank : Way::direct;
  }
  bool by_values() const { return by_values_; }
  // How the room for depthwise convolutions adds up: in a part, which may have fewer channels, as in the whole.
  Sums sums() const {
    if (p_.sums == Sums::products || channels_pinned()) return Sums::products;
    return call_.whole ? call_.whole->sums : sums_of_channels(p_);
  }
  const std::optional<LowRank>& factors() const { return factors_; }

 private:
  // Looking at a window takes its own few passes over the taps; smaller ones and small images never pay for that.
  bool worth_a_look() const {
    constexpr int64_t kLeastTaps = 81, kLeastOutputs = 64 * 64;
    return size_.kh * size_.kw >= kLeastTaps && size_.out_h * size_.out_w >= kLeastOutputs &&
           !low_rank_refusal(kernel_, {.h = size_.kh, .w = size_.kw}) &&
           passes_seconds(size_, 1) < direct_seconds(size_);
  }

  // `direct` makes products of planes. Where neither room takes the filter, that for depthwise convolutions says why.
  Way by_products() {
    const auto channels = as_depthwise(p_);
    if (!channels) return Way::direct;
    const bool refused = !serves_depthwise(call_, place_, *channels);
    return refused && takes_narrow_taps(place_, p_) ? Way::direct : Way::depthwise;
  }

  bool channels_are_faster() {
    const auto channels = as_depthwise(p_, sums());
    if (!channels) return false;
    if (worth_channels(p_)) return serves_depthwise(call_, place_, *channels);
    pass_on(call_, {.algorithm = "depthwise",
                    .refused = {{"channels_mma", "few taps or channels: multiply-adds are as fast"}}});
    return false;
  }

  Way fastest() {
    if (channels_pinned()) return by_products();
    if (*environment("TORCH_CONV_VARIANT")) return Way::direct;
    if (channels_are_faster()) return Way::depthwise;
    const bool fft = fft_is_faster(size_);
    if (worth_a_look()) {
      factor();
      // Where passes and FFT take about as long, passes have the same bits wherever a pixel lies.
      const double others = fft ? 1.25 * fft_tiles(size_).seconds : direct_seconds(size_);
      if (factors_ && divides_alike() && passes_seconds(size_, factors_->rank()) < others) return Way::low_rank;
    }
    return fft ? Way::fft : Way::direct;
  }

  void factor() {
    by_values_ = true;
    depend_on_values(call_, kernel_);
    factors_ = LowRank::of(host_taps(kernel_, p_.in.dtype, 2, options_));
  }

  // Normalized 'skip' divides by the sum of the |taps| inside, which is a product of sums for one term only.
  bool divides_alike() const { return !p_.place.normalized || factors_->rank() == 1; }

  void check_fft() const {
    const int64_t most = largest_fft_span(size_);
    check(std::max(size_.span_h, size_.span_w) <= most, call_.op,
          "algorithm 'fft' cannot serve this call: the window spans ", size_.span_h, "x", size_.span_w,
          " pixels, more than ", most, " along an axis");
  }

  void check_low_rank() {
    const char* why = low_rank_refusal(kernel_, {.h = size_.kh, .w = size_.kw});
    if (!why) factor();
    if (!why && !factors_) why = "the window is not of rank 1 to 4";
    if (!why && !divides_alike()) why = "border_type 'skip' with normalized needs a window of rank 1";
    if (why) refuse(call_.op, "algorithm 'low_rank' cannot serve this call: ", why);
  }

  Call& call_;
  const Tensor& kernel_;
  const WindowOptions& options_;
  const Direct& p_;
  const Place& place_;
  const FilterSize size_;
  bool by_values_ = false;
  std::optional<LowRank> factors_;
};

// The result before `produce` has it: the caller's, or one that lies as the images do.
Image expected_result(const Call& call, const Tensor& input, const Image& in, int axes, const Geometry& g,
                      const FilterOptions& o) {
  Image out = in;
  out.d = g.out.d, out.h = g.out.h, out.w = g.out.w;
  if (o.output_type) out.dtype = dtype_of(call.op, "output_dtype", *o.output_type);
  if (!call.out || sizes_of(*call.out) != resized(input, g.out, axes)) return out;  // `produce` refuses other sizes
  out.dtype = dtype_of(call.op, "out", call.out->scalar_type());
  return merge_leading(*call.out, out.dtype, axes).value_or(out);
}

Tensor filter(Call& call, int axes, const Tensor& input, const Tensor& kernel, const std::string& behaviour,
              const FilterOptions& o) {
  check_input(call.op, input, axes);
  check_words(call.op, o.algorithm, axes);
  check(behaviour == "corr" || behaviour == "conv", call.op, "behaviour must be 'corr' or 'conv', got '", behaviour,
        "'");
  if (call.out) check_no_overlap(call.op, *call.out, "kernel", kernel);
  ImageView in = view_input(call, input, axes);
  const Dtype element = in.image.dtype;
  if (o.in_float64) in.image.dtype = Dtype::f64;
  const Sums sums = axes == 2 ? order_of_sums(o.algorithm) : Sums::chain;
  // Whether kernels take narrow taps is asked of the tensor at hand, without the shards beside it: parts that may read
  // those have wide taps, which all kernels take. Where the whole is a depthwise convolution no part reads other
  // shards, and the room takes narrow taps only.
  const bool alone = !call.part || (call.whole && call.whole->way == Way::depthwise);
  WindowOptions options{.flip = behaviour == "conv",
                        .normalized = normalize_taps(call.op, o),
                        .narrow = sums != Sums::chain && on_cuda(call, input) && alone};
  const auto prepare = [&] { return prepare_window(call, "kernel", kernel, axes, input, in.image, axes, options); };
  Window window = prepare();
  const Geometry g = place_window(call, in.image, window.size, axes, o);
  Direct p{.in = in.image,
           .out = expected_result(call, input, in.image, axes, g, o),
           .taps = window.taps,
           .kd = window.size.d,
           .kh = window.size.h,
           .kw = window.size.w,
           .place = g.place,
           .groups = in.image.c,
           .bias = nullptr,
           .sums = sums};
  const Place place(call, input);
  Choice choice(call, kernel, options, p, place);
  const Way way = axes == 2 ? choice.way(o.algorithm) : Way::direct;
  call.reach.way = way, call.reach.sums = choice.sums(), call.reach.by_values = choice.by_values();
  call.reach.direct = way == Way::direct;
  return produce(call, input, in, axes, g, o, [&](const Image& image) {
    p.out = image;
    if (o.in_float64) return run_in_float64(p, element);
    if (way == Way::depthwise && run_as_depthwise(call, place, input, p, window)) return;
    const bool by_passes_or_fft = way == Way::low_rank || way == Way::fft;
    if (p.taps.narrow && (by_passes_or_fft || !takes_narrow_taps(place, p))) {
      options.narrow = false;  // whoever serves reads the taps in the accumulation dtype
      window = prepare();
      p.taps = window.taps;
    }
    if (way == Way::low_rank) return run_low_rank(call, place, input, p, window, *choice.factors());
    if (way == Way::fft) {
      upload(call, window, input);
      p.taps = window.taps;
      return run_by_fft(call, place, input, p, window);
    }
    p.beside = beside_of(call, in.image, axes);
    if (axes == 3 && p.beside.any() && !serves_shards(place, p)) return;  // before a window is uploaded in vain
    upload_large(call, window, input);
    p.taps = window.taps;
    run(call, place, input, p);
  });
}

Tensor filter2d(Call& call, const Tensor& input, const Tensor& kernel, const std::string& border_type,
                const bool& normalized, const std::string& padding, const std::string& behaviour, const double& value,
                const Anchor& anchor, const Sizes& stride, const Sizes& dilation, const Type& output_dtype,
                const std::string& algorithm) {
  return filter(call, 2, input, kernel, behaviour,
                {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm});
}

Tensor filter3d(Call& call, const Tensor& input, const Tensor& kernel, const std::string& border_type,
                const bool& normalized, const std::string& behaviour, const std::string& padding, const double& value,
                const Anchor& anchor, const Sizes& stride, const Sizes& dilation, const Type& output_dtype,
                const std::string& algorithm) {
  return filter(call, 3, input, kernel, behaviour,
                {border_type, normalized, padding, value, anchor, stride, dilation, output_dtype, algorithm});
}

void filter2d_in_float64(Tensor input, Tensor kernel, std::string border_type, int64_t anchor_y, int64_t anchor_x,
                         Tensor out) {
  Call call{.op = "filter2d", .out = out};
  filter(call, 2, input, kernel, "corr", in_float64(border_type, "direct", anchor_y, anchor_x));
}

// Does 'auto' make this filter, its other arguments at their defaults, as separable passes?
bool filter2d_by_passes(Tensor input, Tensor kernel) {
  Call call{.op = "filter2d", .purpose = Purpose::reach};
  filter2d(call, input, kernel, "reflect", false, "same", "corr", 0, std::nullopt, {1, 1}, {1, 1}, std::nullopt,
           "auto");
  return call.reach.way == Way::low_rank;
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  Operator<"filter2d", 2, 2, filter2d>::implement_with_out(m);
  Operator<"filter3d", 3, 3, filter3d>::implement_with_out(m);
  m.impl("_filter2d_by_passes", boxed<&filter2d_by_passes, "_filter2d_by_passes">);
}

}  // namespace

// One function serves both: the rooms part by device.
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) {
  register_operators(m);
  implement_in_float64<&filter2d_in_float64, "_filter2d_in_float64">(m);
}
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
