// The variants of depthwise convolutions on tensor cores and their general variants, as their plans launch them, on the
// host: sums within a rounding, and the same bits even if every product rounds a sum to few bits. Nothing is read behind
// an image or written beside outputs.
#include <random>

#include "cuda.h"
#include "guarded.h"
#include "report.h"
// Both of a block's static arrays and its dynamic one, `extern`, are storage of the only thread of the host.
#undef __shared__
#define __shared__ thread_local
#include "kernels/depthwise/channels_mma/launch.cpp"
#include "kernels/depthwise/channels_mma_general/launch.cpp"
#include "kernels/depthwise/large_mma/launch.cpp"
#include "kernels/depthwise/large_mma_general/launch.cpp"
#include "kernels/depthwise/mma_general/launch.cpp"
#include "kernels/depthwise/planes_mma/launch.cpp"
#include "kernels/depthwise/rows_mma/launch.cpp"
// These need the headers above.
#include "kernels/depthwise/channels_mma/kernel.cuh"
#include "kernels/depthwise/channels_mma_general/kernel.cuh"
#include "kernels/depthwise/large_mma/kernel.cuh"
#include "kernels/depthwise/large_mma_general/kernel.cuh"
#include "kernels/depthwise/mma_general/kernel.cuh"
#include "kernels/depthwise/planes_mma/kernel.cuh"
#include "kernels/depthwise/rows_mma/kernel.cuh"
#include "kernels/depthwise/plan.h"

namespace torch_conv::depthwise {
constexpr int kSharedBytes = 232448;
// A kernel's dynamic array. Where kernels declare it, the compiler calls the function that would initialise it. Its name
// has the array's name and the number of letters.
#define DYNAMIC_ARRAY(Type, name, letters)                                 \
  alignas(1024) thread_local Type name[kSharedBytes / sizeof(Type)];       \
  void initialize_##name() asm("_ZTHN10torch_conv9depthwise" #letters #name "E"); \
  void initialize_##name() {}
DYNAMIC_ARRAY(unsigned char, mma_stages, 10)
DYNAMIC_ARRAY(unsigned char, channels_mma_stages, 19)
DYNAMIC_ARRAY(unsigned char, large_shared, 12)
DYNAMIC_ARRAY(uint4, channels_general_weights, 24)
}  // namespace torch_conv::depthwise

using namespace torch_conv;
using namespace torch_conv::depthwise;

namespace {

using T = bhalf_t;

void list_kernels() {
// The kernel's name has its template argument as the plan spells it.
#define ADD(name, Function, ...) kernels_on_host["depthwise::" name] = static_cast<Function>(&__VA_ARGS__)
#define PLANES(kind, ...)                                                                                              \
  ADD("depthwise_planes_mma<bhalf_t, depthwise::PlanesMmaPolicy{" #__VA_ARGS__ "}, Activation::" #kind ">",            \
      void (*)(PlanesMmaArgs), depthwise_planes_mma<T, PlanesMmaPolicy{__VA_ARGS__}, Activation::kind>)
#define LARGE(kind, ...)                                                                                               \
  ADD("depthwise_large_mma<bhalf_t, depthwise::LargeMmaPolicy{" #__VA_ARGS__ "}, Activation::" #kind ">",              \
      void (*)(LargeMmaArgs), depthwise_large_mma<T, LargeMmaPolicy{__VA_ARGS__}, Activation::kind>)
#define CHANNELS(kind, ...)                                                                                            \
  ADD("depthwise_channels_mma<bhalf_t, depthwise::ChannelsMmaPolicy{" #__VA_ARGS__ "}, Activation::" #kind ">",        \
      void (*)(ChannelsMmaArgs, TensorMap, TensorMap, TensorMap, TensorMap),                                           \
      depthwise_channels_mma<T, ChannelsMmaPolicy{__VA_ARGS__}, Activation::kind>)
#define ROWS(...)                                                                                                      \
  ADD("depthwise_rows_mma<bhalf_t, " #__VA_ARGS__ ">", void (*)(RowsMmaArgs), depthwise_rows_mma<T, __VA_ARGS__>)
  CHANNELS(none, 1, 3, 1, 16, 2, 3);
  CHANNELS(none, 3, 3, 4, 32, 3, 1);
  CHANNELS(none, 3, 8, 5, 16, 2, 3);
  CHANNELS(relu, 5, 5, 8, 16, 2, 3);
  CHANNELS(none, 5, 1, 1, 16, 2, 3);
  CHANNELS(none, 7, 7, 2, 16, 2, 3);
  CHANNELS(none, 9, 9, 1, 16, 2, 1);
  LARGE(none, 1, 2, 5, 0, 1, 0, 3, true);
  LARGE(none, 1, 4, 5, 2, 2, 2, 4, false);
  LARGE(none, 2, 2, 3, 1, 1, 0, 3, true);
  LARGE(none, 2, 2, 3, 1, 1, 1, 2, false);
  LARGE(relu, 2, 2, 3, 1, 1, 1, 2, false);
  LARGE(none, 3, 2, 3, 1, 1, 1, 2, false);
  LARGE(none, 2, 2, 6, 1, 1, 0, 4, true);
  PLANES(relu, 3, 10, depthwise::MmaRows::inner, 1, false, false, true, 8, 2, 1);
  PLANES(none, 4, 9, depthwise::MmaRows::inner, 4, false, false, false, 4, 1, 6);
  PLANES(none, 5, 4, depthwise::MmaRows::inner, 4, true, false, false, 2, 1, 6);
  PLANES(none, 5, 12, depthwise::MmaRows::whole, 4, true, false, false, 4, 1, 6);
  PLANES(none, 7, 28, depthwise::MmaRows::whole, 4, true, false, false, 3, 1, 4);
  PLANES(none, 7, 7, depthwise::MmaRows::inner, 2, true, false, false, 2, 1, 6);
  PLANES(none, 9, 15, depthwise::MmaRows::any, 4, true, false, false, 1, 2, 6);
  PLANES(none, 9, 2, depthwise::MmaRows::inner, 1, false, false, true, 8, 1, 3);
  ROWS(2, 1, 2, Activation::none);
  ROWS(3, 1, 2, Activation::none);
  ROWS(4, 4, 1, Activation::none);
  ROWS(5, 2, 2, Activation::hardswish);
  kernels_on_host["depthwise::depthwise_mma_general<bhalf_t>"] = &depthwise_mma_general<T>;
  kernels_on_host["depthwise::depthwise_channels_mma_general<bhalf_t>"] = &depthwise_channels_mma_general<T>;
  kernels_on_host["depthwise::depthwise_large_mma_general<bhalf_t>"] = &depthwise_large_mma_general<T>;
}

struct Case {
  const char* variant;
  int64_t n, c, h, w, kh, kw, pad_y, pad_x;
  int64_t fewer_h = 0, fewer_w = 0;  // outputs that are not there
  Activation activation = Activation::none;
  int64_t multiplier = 1;
  int64_t in_gap = 0, out_gap = 0, offset = 0;  // elements between rows, and before the first
};

const Case kCases[] = {
    {"planes_mma", 2, 4, 14, 14, 7, 7, 3, 3},                              // pairs of pixels
    {"planes_mma", 1, 8, 16, 16, 5, 5, 2, 2},                              // fours of pixels
    {"planes_mma", 9, 3, 28, 28, 7, 7, 3, 3},                              // whole planes
    {"planes_mma", 1, 8, 19, 37, 3, 3, 1, 1, 0, 0, Activation::relu},      // single pixels, strips that overlap
    {"planes_mma", 2, 8, 21, 24, 4, 4, 1, 2, 2, 0},                        // any rows
    {"planes_mma", 3, 8, 7, 7, 9, 9, 4, 4},
    {"planes_mma", 17, 6, 12, 12, 5, 5, 2, 2},
    {"planes_mma", 1, 4, 38, 40, 9, 3, 0, 1},
    {"rows_mma", 2, 2, 1, 202, 1, 31, 0, 15},
    {"rows_mma", 1, 2, 1, 1024, 1, 63, 0, 62, 0, 0, Activation::hardswish},
    {"rows_mma", 3, 4, 1, 333, 1, 9, 0, 4, 0, 0, Activation::none, 1, 3, 1, 1},
    {"rows_mma", 5, 2, 1, 64, 1, 16, 0, 3, 0, 2, Activation::none, 2, 0, 0, 3},
    {"large_mma", 16, 1, 32, 32, 31, 31, 15, 15},
    {"large_mma", 2, 2, 32, 32, 31, 31, 15, 15},
    {"large_mma", 17, 2, 14, 14, 13, 13, 6, 6, 0, 0, Activation::relu},
    {"large_mma", 1, 3, 33, 75, 12, 30, 5, 20, 0, 0, Activation::none, 1, 5, 3, 1},
    {"large_mma", 1, 1, 20, 140, 21, 5, 10, 2, 0, 3, Activation::none, 2},
    {"large_mma", 4, 40, 9, 11, 11, 11, 5, 5},  // several channels a block
    {"channels_mma", 2, 24, 14, 14, 7, 7, 3, 3},
    {"channels_mma", 1, 40, 20, 61, 5, 5, 2, 2, 0, 0, Activation::relu},
    {"channels_mma", 9, 5, 7, 7, 9, 9, 4, 4},
    {"channels_mma", 9, 8, 10, 7, 5, 1, 2, 0},  // footprints that end behind the next image's row
    {"channels_mma", 3, 16, 11, 30, 3, 8, 0, 5, 0, 1},
    {"channels_mma", 1, 33, 3, 5, 1, 3, 0, 1},
    {"channels_mma", 2, 40, 70, 61, 3, 3, 1, 1},  // blocks of 32 channels
};

enum class Special { none, pixels, infinite_tap, nan_tap, bias };

constexpr uint16_t kUntouched = 0x7fc1;  // NaN

struct Memory {
  std::span<char> bytes;
  Image image;
};

// Planes of rows, or channels innermost in pixels that start on 16 bytes.
Memory image_of(int64_t n, int64_t c, int64_t h, int64_t w, bool channels, int64_t gap, int64_t offset) {
  const int64_t pixel = channels ? round_up(c, 8) : 1, row = w * pixel + gap;
  const int64_t count = n * (channels ? 1 : c) * h * row - gap + offset;
  const std::span<char> bytes = on_host::guarded_memory(2 * count, kUntouched);
  void* const data = bytes.data() + (bytes.size() - 2 * (count - offset));
  return {bytes,
          channels ? Image{data, Dtype::bf16, n, c, 1, h, w, h * row, 1, 0, row, pixel}
                   : Image{data, Dtype::bf16, n, c, 1, h, w, c * h * row, h * row, 0, row, 1}};
}

T& at(const Image& x, int64_t n, int64_t c, int64_t h, int64_t w) {
  return static_cast<T*>(x.data)[n * x.stride_n + c * x.stride_c + h * x.stride_h + w * x.stride_w];
}

const Arch kArch{.major = 9, .minor = 0, .multiprocessors = 4, .shared_bytes = kSharedBytes, .bulk_copy = true};

// Where only general kernels are there, the chosen variant's general one takes its place. Returns what is wrong.
std::string other_stand_in(const Depthwise& p) {
  Arch arch = kArch;
  arch.offers = [](const Kernel& kernel, const Arch&) { return kernel.name.find("_general") != kernel.name.npos; };
  const Plan wanted = plan_cuda(p, kArch, ""), ready = plan_cuda(p, arch, "");
  const std::string got = ready.variant ? ready.variant : "none";
  const std::string right = wanted.variant ? wanted.variant + std::string("_general") : "none";
  return got == right ? "" : "the stand-in is " + got + ", not " + right;
}

// Runs a variant, and returns what is wrong.
std::string run(const char* variant, const Depthwise& p, std::string& kernel) {
  const Plan plan = plan_cuda(p, kArch, variant);
  if (!plan.variant) return std::string(variant) + ": " + plan.why;
  kernel = plan.kernels[0].name;
  if (!kernels_on_host.contains(kernel)) return "no such kernel here: " + kernel;
  for (unsigned char* shared : {mma_stages, channels_mma_stages, large_shared}) memset(shared, 0xff, kSharedBytes);
  memset(channels_general_weights, 0xff, kSharedBytes);
  run_plan(p, plan, Site{});
  return "";
}

// The exact sum of an output and of magnitudes.
std::pair<double, double> exact(const Depthwise& p, int64_t n, int64_t c, int64_t y, int64_t x) {
  double sum = to_acc<float>(static_cast<const T*>(p.bias)[c]), size = std::abs(sum);
  for (int64_t i = 0; i < p.kh; ++i)
    for (int64_t j = 0; j < p.kw; ++j) {
      const int64_t h = y + i - p.place.pad_y, w = x + j - p.place.pad_x;
      const bool inside = h >= 0 && h < p.in.h && w >= 0 && w < p.in.w;
      const double product = double(inside ? to_acc<float>(at(p.in, n, c / p.multiplier(), h, w)) : 0.f) *
                             to_acc<float>(static_cast<const T*>(p.weight)[(c * p.kh + i) * p.kw + j]);
      sum += product, size += std::abs(product);
    }
  return {sum, size};
}

// An output that is not within a rounding of the exact one.
std::string other_than_exact(const Depthwise& p) {
  std::string wrong;
  on_host::each_pixel(p.out, [&](int64_t n, int64_t c, int64_t y, int64_t x) {
    const auto [sum, size] = exact(p, n, c, y, x);
    const double wanted = with_activation(p.activation, [&](auto kind) { return activated<kind.value>(sum); });
    const double got = to_acc<float>(at(p.out, n, c, y, x));
    const bool close = std::isfinite(wanted) ? std::abs(got - wanted) <= std::abs(wanted) / 256 + 1e-6 * size
                                             : std::isnan(wanted) ? std::isnan(got) : got == wanted;
    if (!close) wrong = on_host::difference({n, c, y, x}, got, wanted);
  });
  return wrong;
}

// All NaN are the same, except for memory that is not written.
std::string other_bits(const std::vector<char>& wanted, std::span<const char> got) {
  for (size_t i = 0; i < wanted.size(); i += 2) {
    T one, other;
    memcpy(&one, &wanted[i], 2), memcpy(&other, &got[i], 2);
    const bool both = std::isnan(to_acc<float>(one)) && std::isnan(to_acc<float>(other)) &&
                      (one.bits == kUntouched) == (other.bits == kUntouched);
    if (one.bits != other.bits && !both)
      return on_host::difference({int64_t(i / 2)}, to_acc<float>(other), to_acc<float>(one));
  }
  return "";
}

bool check(const Case& k, Special special) {
  const bool channels = std::string(k.variant) == "channels_mma";
  const int64_t out_c = k.c * k.multiplier;
  const Memory in = image_of(k.n, k.c, k.h, k.w, channels, k.in_gap, k.offset);
  const int64_t h = k.h + 2 * k.pad_y - k.kh + 1 - k.fewer_h, w = k.w + 2 * k.pad_x - k.kw + 1 - k.fewer_w;
  std::mt19937 make(1);
  std::normal_distribution<float> normal;
  const auto number = [&](auto&&...) { return from_acc<T>(normal(make)); };
  on_host::each_pixel(in.image, [&](auto... where) { at(in.image, where...) = number(); });
  std::vector<T> weight(out_c * k.kh * k.kw), bias(out_c);
  for (T& tap : weight) tap = number();
  for (T& one : bias) one = number();
  if (special == Special::pixels)
    on_host::each_pixel(in.image, [&](auto... where) {
      const unsigned drawn = make() % 300;
      if (drawn < 2) at(in.image, where...) = from_acc<T>(drawn ? INFINITY : NAN);
    });
  if (special == Special::infinite_tap) weight[k.kh * k.kw / 3] = from_acc<T>(-INFINITY);
  if (special == Special::nan_tap) weight[weight.size() - 1] = from_acc<T>(NAN);
  if (special == Special::bias) bias[0] = from_acc<T>(NAN), bias[out_c - 1] = from_acc<T>(INFINITY);

  std::string wrong, kernel = "no kernel";
  std::vector<char> first;
  const std::string fast = k.variant, general = fast + "_general";
  for (const bool coarse : {false, true})
    for (const std::string& variant : {fast, general}) {
      if (!wrong.empty()) break;
      const Memory out = image_of(k.n, out_c, h, w, channels, k.out_gap, k.offset);
      const Depthwise p{.in = in.image,
                        .out = out.image,
                        .weight = weight.data(),
                        .bias = bias.data(),
                        .weights = Dtype::bf16,
                        .kh = k.kh,
                        .kw = k.kw,
                        .place = {.pad_y = k.pad_y, .pad_x = k.pad_x},
                        .activation = k.activation,
                        .sums = Sums::mma};
      coarse_sums = coarse;
      std::string name;
      wrong = run(variant.c_str(), p, name);
      if (!wrong.empty()) break;
      if (variant == fast) kernel = name;
      if (!coarse) wrong = other_stand_in(p);
      if (!wrong.empty()) break;
      if (!coarse) wrong = other_than_exact(p);
      else if (variant == fast) first.assign(out.bytes.begin(), out.bytes.end());
      else wrong = other_bits(first, out.bytes);  // of all memory around the outputs too
    }
  constexpr const char* kSpecials[] = {"", ", pixels that are not finite", ", an infinite tap", ", a NaN tap",
                                       ", biases that are not finite"};
  return on_host::report(wrong, "%s %lldx%lldx%lldx%lld by %lldx%lld%s", kernel.c_str(), (long long)k.n,
                         (long long)k.c, (long long)k.h, (long long)k.w, (long long)k.kh, (long long)k.kw,
                         kSpecials[int(special)]);
}

}  // namespace

int main() {
  list_kernels();
  return on_host::status_of(kCases, [](const Case& k) {
    bool right = true;
    for (const Special special :
         {Special::none, Special::pixels, Special::infinite_tap, Special::nan_tap, Special::bias})
      right = check(k, special) && right;
    return right;
  });
}
