// Sums in a given order, for compat.scipy_ndimage: checks, then problems of csrc/kernels/stepwise.
#include <cmath>
#include <numeric>
#include <optional>

#include "kernels/stepwise/problem.h"
#include "tensors/boxed.h"
#include "tensors/checks.h"

namespace torch_conv {

namespace {

using stepwise::Axis;
using stepwise::Element;
using stepwise::Problem;

constexpr int64_t kFewChannels = 32;  // fewer last elements are channels of a pixel, others are an axis

Element element_of(const char* op, const char* argument, ScalarType type) {
  switch (type) {
    case ScalarType::Byte: return Element::u8;
    case ScalarType::Char: return Element::i8;
    case ScalarType::UInt16: return Element::u16;
    case ScalarType::Short: return Element::i16;
    case ScalarType::UInt32: return Element::u32;
    case ScalarType::Int: return Element::i32;
    case ScalarType::UInt64: return Element::u64;
    case ScalarType::Long: return Element::i64;
    case ScalarType::Float: return Element::f32;
    case ScalarType::Double: return Element::f64;
    default: refuse(op, argument, " must have dtype float32, float64 or an integer, got ", dtype_text(type));
  }
}

// Integers of up to 32 bits: float64 holds the sums of a million of them.
bool is_short(ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::UInt16:
    case ScalarType::Short:
    case ScalarType::UInt32:
    case ScalarType::Int: return true;
    default: return false;
  }
}

Border border_at(const char* op, int64_t border) {
  check(border >= 0 && border < kBorders && extends(Border(border)), op, "border must be 0 to 4, got ", border);
  return Border(border);
}

const double* doubles_of(const char* op, const char* argument, const Tensor& t, int64_t dims) {
  check(t.scalar_type() == ScalarType::Double && t.dim() == dims && t.is_contiguous() && t.numel() > 0, op, argument,
        " must be contiguous, of float64, with ", dims, " dimensions");
  return static_cast<const double*>(t.data_ptr());
}

// One pass or several over an image.
class Passes {
 public:
  Passes(const char* op, const Tensor& input, ScalarType dtype) : op_(op), image_(input), dtype_(dtype) {
    check(input.is_contiguous(), op, "input must be contiguous");
    element_of(op, "input", input.scalar_type());
    element_of(op, "output_dtype", dtype);
  }

  // Runs a problem without its images.
  void run(Problem p) {
    // Lines of which a block of 16 fits the second-level cache are filtered in place.
    constexpr int64_t kLongest = 1 << 12;
    const Axis& down = p.axes[p.axes.size() - 2];
    const int64_t line = down.k > 1 ? down.n + down.k : (p.axes.back().n + p.axes.back().k) * p.channels / 16;
    p.whole_lines = result_ && line <= kLongest;
    const Tensor from = result_ ? *result_ : image_;
    if (!p.whole_lines) {
      const Sizes sizes = sizes_of(image_);
      result_ = empty_strided(device_of(image_), sizes, contiguous_strides(sizes), dtype_);
    }
    p.in = from.data_ptr(), p.in_type = element_of(op_, "input", from.scalar_type());
    p.out = result_->data_ptr(), p.out_type = element_of(op_, "output_dtype", dtype_);
    if (image_.numel() > 0) stepwise::run_cpu(p);
  }

  Tensor result() const { return *result_; }

 private:
  const char* op_;
  const Tensor& image_;
  ScalarType dtype_;
  std::optional<Tensor> result_;
};

// A window of k taps along one dimension. The dimensions before it are one axis. Those behind it are one axis, or the
// channels of a pixel where they are few.
Problem along(const char* op, const Tensor& input, int64_t dim, int64_t k, int64_t anchor, int64_t border,
              double value) {
  check(dim >= 0 && dim < input.dim(), op, "dims must be 0 to ", input.dim() - 1, ", got ", dim);
  check(k >= 1 && k <= kLargest && anchor >= 0 && anchor < k, op, "anchors must lie in the window, got ", anchor);
  const Sizes sizes = sizes_of(input);
  const auto product = [](auto begin, auto end) { return std::accumulate(begin, end, int64_t(1), std::multiplies()); };
  const int64_t before = product(sizes.begin(), sizes.begin() + dim);
  const int64_t behind = product(sizes.begin() + dim + 1, sizes.end());
  const Axis line{sizes[dim], k, anchor};
  Problem p{.border = border_at(op, border), .value = value, .start = -0.0};
  p.axes = behind < kFewChannels ? std::vector<Axis>{{before}, line} : std::vector<Axis>{{before}, line, {behind}};
  p.channels = behind < kFewChannels ? behind : 1;
  return p;
}

// A term of one tap along that dimension.
void add_term(Problem& p, double weight, int64_t tap) {
  p.weights.push_back(weight);
  p.taps.insert(p.taps.end(), p.axes.size(), 0);
  p.taps[p.taps.size() - (p.axes.size() == 2 ? 1 : 2)] = tap;
}

void check_lengths(const char* op, size_t passes, std::initializer_list<size_t> others) {
  for (const size_t other : others)
    check(passes > 0 && other == passes, op, "every pass must have a dim, an anchor and a border");
}

Tensor passes(Tensor input, std::vector<Tensor> taps, Sizes twins, Sizes dims, Sizes anchors, Sizes borders,
              double value, ScalarType dtype) {
  const char* op = "_stepwise_passes";
  check_lengths(op, taps.size(), {twins.size(), dims.size(), anchors.size(), borders.size()});
  Passes passes(op, input, dtype);
  for (size_t i = 0; i < taps.size(); ++i) {
    const double* weights = doubles_of(op, "taps", taps[i], 1);
    const int64_t k = taps[i].size(0);
    Problem p = along(op, input, dims[i], k, anchors[i], borders[i], value);
    check(twins[i] == 0 || (k % 2 == 1 && (twins[i] == 1 || twins[i] == -1)), op, "twins must be 0 for an even window");
    p.twins = int(twins[i]);
    // scipy's order: the middle and then pairs, or the last tap and then all from the first on.
    const int64_t first = p.twins ? k / 2 : k - 1;
    add_term(p, weights[first], first);
    for (int64_t tap = 0; tap < first; ++tap) add_term(p, weights[tap], tap);
    passes.run(std::move(p));
  }
  return passes.result();
}

Tensor means(Tensor input, Sizes sizes, Sizes dims, Sizes anchors, Sizes borders, double value, ScalarType dtype) {
  const char* op = "_stepwise_means";
  const bool integral = is_short(input.scalar_type()) && is_short(dtype) && std::trunc(value) == value &&
                        std::fabs(value) <= double(kLargest);
  check_lengths(op, sizes.size(), {dims.size(), anchors.size(), borders.size()});
  Passes passes(op, input, dtype);
  for (size_t i = 0; i < sizes.size(); ++i) {
    Problem p = along(op, input, dims[i], sizes[i], anchors[i], borders[i], value);
    p.mean_of = sizes[i], p.whole_numbers = integral && sizes[i] < (1 << 20);
    // Smaller windows are the fastest term by term; larger ones by running sums of integers, or sums of sums of floats.
    const int64_t by_terms = !integral ? 32 : p.axes.size() == 2 ? 24 : 8;
    for (int64_t tap = 0; tap < sizes[i] && sizes[i] < by_terms; ++tap) add_term(p, 1.0, tap);
    passes.run(std::move(p));
  }
  return passes.result();
}

Tensor window(Tensor input, Tensor window, Sizes anchor, int64_t border, double value, ScalarType dtype) {
  const char* op = "_stepwise_window";
  const int64_t dims = input.dim();
  const double* weights = doubles_of(op, "window", window, dims);
  check(int64_t(anchor.size()) == dims, op, "anchor must have ", dims, " values, got ", anchor.size());
  Problem p{.axes = {{1}, {1}}, .border = border_at(op, border), .value = value, .by_magnitude = true};
  for (int64_t a = 0; a < dims; ++a) {
    const Axis axis{input.size(a), window.size(a), anchor[a]};
    check(axis.anchor >= 0 && axis.anchor < axis.k, op, "anchor must lie in the window, got ", axis.anchor);
    Axis& last = p.axes.back();  // adjacent dimensions with one tap are one axis
    if (axis.k == 1 && last.k == 1) last.n *= axis.n;
    else p.axes.push_back(axis);
  }
  if (p.axes.size() > 3 && p.axes.back().k == 1 && p.axes.back().n < kFewChannels) {
    p.channels = p.axes.back().n;
    p.axes.pop_back();
  }
  // Taps of zero are left out.
  for (int64_t i = 0; i < window.numel(); ++i) {
    if (weights[i] == 0) continue;
    p.weights.push_back(weights[i]);
    p.taps.resize(p.taps.size() + p.axes.size());
    int64_t left = i;
    for (size_t a = p.axes.size(); a-- > 0; left /= p.axes[a].k)
      p.taps.end()[int64_t(a) - int64_t(p.axes.size())] = left % p.axes[a].k;
  }
  Passes passes(op, input, dtype);
  passes.run(std::move(p));
  return passes.result();
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  m.impl("_stepwise_passes", boxed<&passes, "_stepwise_passes">);
  m.impl("_stepwise_means", boxed<&means, "_stepwise_means">);
  m.impl("_stepwise_window", boxed<&window, "_stepwise_window">);
}

}  // namespace

// Sums in float64 in scipy's order, stored as C converts them, for compat.scipy_ndimage on the CPU. `passes` and
// `means` filter along each of `dims`; `twins` of 1 or -1 says that the taps are even or odd. `window` filters along
// all axes.
STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  m.def(
      "_stepwise_passes(Tensor input, Tensor[] taps, int[] twins, int[] dims, int[] anchors, int[] borders, "
      "float value, ScalarType output_dtype) -> Tensor");
  m.def(
      "_stepwise_means(Tensor input, int[] sizes, int[] dims, int[] anchors, int[] borders, float value, "
      "ScalarType output_dtype) -> Tensor");
  m.def(
      "_stepwise_window(Tensor input, Tensor window, int[] anchor, int border, float value, "
      "ScalarType output_dtype) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }

}  // namespace torch_conv
