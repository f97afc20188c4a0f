// direct2d's MMA as its plan launches it, on the host: the bits do not depend on where rows start nor on the layout.
#include "direct_mma.h"

namespace {

// A kernel for each alignment of images and of results.
#define KERNELS(packed, ...)                                                                                       \
  KERNEL(half_t, __VA_ARGS__, true, true, packed, false), KERNEL(half_t, __VA_ARGS__, true, false, packed, false), \
      KERNEL(half_t, __VA_ARGS__, false, true, false, false), KERNEL(half_t, __VA_ARGS__, false, false, false, false)
const Kernels kKernels = {
    KERNELS(false, 5, 5, 1, 1),
    KERNELS(true, 7, 7, 1, 1),
    KERNELS(false, 4, 4, 1, 1),
    KERNELS(false, 9, 9, 1, 1),
    // HWC images.
    KERNELS(false, 5, 5, 2, 1),
    KERNELS(false, 4, 4, 2, 1),
    KERNELS(true, 7, 7, 3, 1),
    KERNELS(false, 9, 9, 4, 1),
    // ... whose channels have a window each.
    KERNELS(false, 9, 9, 4, 4),
};

// The bits do not depend on where rows start nor on the layout: images and results on 16 bytes, or with three elements
// more to a row; in planes and as HWC images.
bool check_same_bits(Case k) {
  const int64_t taps = k.kh * k.kw;
  std::vector<float> window(taps * (k.own_windows ? k.c : 1));
  std::vector<uint16_t> first;
  bool right = true;
  for (const int64_t layout : {0, 1, 2, 3, 4, 5, 6, 7}) {
    k.in_gap = layout % 2 * 3, k.out_gap = layout / 2 % 2 * 3, k.hwc = layout / 4;
    if (k.hwc && k.c == 1) break;
    std::mt19937 make(1);
    std::normal_distribution<float> normal;
    const Image in = image_of(k.dtype, k.n, k.c, k.h, k.w, k.in_gap, k.hwc);
    const Image out = image_of(k.dtype, k.n, k.c, k.h, k.w, k.out_gap, k.hwc);
    for (size_t i = 0; i < window.size(); ++i) window[i] = normal(make) / 1000 * std::exp2f(float(i / taps) * 5);
    on_host::each_pixel(in, [&](auto... at) { set(in, at..., normal(make)); });
    if (k.special) set(in, 0, 0, in.h / 3, in.w / 2, float(k.special)), set(in, 0, 0, 0, 0, float(k.special));
    const Direct p{.in = in,
                   .out = out,
                   .taps = {window.data(), window.size() * 4 <= kInlineTapBytes, 0, k.own_windows ? taps : 0, 0, false},
                   .kh = k.kh,
                   .kw = k.kw,
                   .place = {.pad_y = k.pad_y, .pad_x = k.pad_x, .border = k.border, .value = k.value},
                   .groups = in.c,
                   .bias = nullptr,
                   .sums = Sums::mma};
    std::string name = "no kernel", wrong = launch(kKernels, p, name);
    if (wrong.empty() && !k.special && on_host::votes > 0) wrong = "sums that are not finite";
    std::vector<uint16_t> bits;
    on_host::each_pixel(out, [&](int64_t n, int64_t c, int64_t y, int64_t x) {
      const uint16_t one = static_cast<uint16_t*>(out.data)[c * out.stride_c + y * out.stride_h + x * out.stride_w];
      bits.push_back(std::isnan(get(out, n, c, y, x)) ? kUntouched : one);
    });
    if (first.empty()) first = bits;
    if (wrong.empty() && bits != first) wrong = "other bits than on 16 bytes";
    right = report(name, k, wrong) && right;
  }
  return right;
}

}  // namespace

int main() {
  bool right = true;
  for (const double special : {0.0, double(INFINITY)}) {
    right = check_same_bits({F, 1, 2, 30, 504, 5, 5, 2, 2, 0, 0, Border::reflect, 0, false, false, special}) && right;
    right = check_same_bits({F, 1, 1, 30, 264, 7, 7, 3, 3, 0, 0, Border::constant, 0, false, false, special}) && right;
    right = check_same_bits({F, 1, 1, 30, 264, 9, 9, 4, 3, 0, 0, Border::circular, 0, false, false, special}) && right;
    right = check_same_bits({F, 1, 2, 30, 264, 4, 4, 1, 1, 0, 0, Border::replicate, 0, false, false, special}) && right;
    right = check_same_bits({F, 1, 3, 30, 136, 7, 7, 3, 3, 0, 0, Border::symmetric, 0, false, false, special}) && right;
    right = check_same_bits({F, 1, 4, 30, 136, 9, 9, 4, 4, 0, 0, Border::constant, 3, false, false, special}) && right;
    right = check_same_bits({F, 1, 4, 30, 136, 9, 9, 4, 4, 0, 0, Border::reflect, 3, true, false, special}) && right;
  }
  return right ? 0 : 1;
}
