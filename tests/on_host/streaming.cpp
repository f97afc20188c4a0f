// The fused family's STREAMING as its plan launches it, on the host: the bits of the sums one by one, and nothing
// written beside the output.
#include <map>
#include <random>
#include <string>

#include "cuda.h"
#include "report.h"
#undef __shared__
#define __shared__
#include "kernels/fused/streaming/kernel.cuh"
#include "kernels/fused/plan.h"

namespace torch_conv::fused {
alignas(128) unsigned char shared[1 << 17];
}

using namespace torch_conv;
using namespace torch_conv::fused;

namespace {

template <int K>
using Sum = Pipeline<Windows<K, 2, Point::sum>>;

// Taps are kernels' own parameter: as the launch does, its first part is copied.
template <int K, typename T, typename O, bool kAligned>
void run(const Plan& plan, TensorMap map, TensorMap rows, Args args, const PackedTaps& packed) {
  TapsOf<Sum<K>> taps;
  memcpy(&taps, &packed, sizeof(taps));
  on_host::launch(fused_streaming<Sum<K>, T, O, kAligned>, {unsigned(plan.blocks), 1, 1}, plan.threads, map, rows, args,
                  taps);
}

using Run = void (*)(const Plan&, TensorMap, TensorMap, Args, const PackedTaps&);
template <int K, typename T, typename O, bool kAligned>
std::pair<const std::string, Run> kernel(const char* in, const char* out) {
  const std::string name = "fused::fused_streaming<" + text_of(Sum<K>{}) + ", " + in + ", " + out + ", ";
  return {name + (kAligned ? "true>" : "false>"), run<K, T, O, kAligned>};
}
const std::map<std::string, Run> kKernels = {
    kernel<9, float, float, true>("float", "float"),          kernel<9, float, float, false>("float", "float"),
    kernel<11, float, float, true>("float", "float"),         kernel<13, float, float, true>("float", "float"),
    kernel<13, float, float, false>("float", "float"),        kernel<15, float, float, true>("float", "float"),
    kernel<9, uint8_t, float, true>("uint8_t", "float"),      kernel<13, uint8_t, uint8_t, true>("uint8_t", "uint8_t"),
    kernel<9, half_t, half_t, true>("half_t", "half_t"),      kernel<13, half_t, half_t, false>("half_t", "half_t"),
    kernel<13, bhalf_t, bhalf_t, true>("bhalf_t", "bhalf_t"),
};

struct Case {
  Dtype in, out;
  int64_t h, w, k;
  Border border;
  double value = 3;
  bool valid = false;
  int multiprocessors = 1;
};

const Dtype F = Dtype::f32, H = Dtype::f16, B = Dtype::bf16, U = Dtype::u8;
const Case kCases[] = {
    {F, F, 40, 136, 9, Border::reflect},
    {F, F, 40, 256, 13, Border::reflect},
    {F, F, 90, 132, 13, Border::reflect, 0, false, 2},
    {F, F, 61, 132, 15, Border::circular},
    {F, F, 61, 388, 13, Border::circular},
    {F, F, 33, 260, 11, Border::symmetric},
    {F, F, 33, 128, 9, Border::replicate},
    {F, F, 70, 132, 13, Border::constant, 0},
    {F, F, 70, 132, 13, Border::constant},
    {F, F, 5, 8, 13, Border::reflect},
    {F, F, 1, 4, 9, Border::reflect},
    {F, F, 2, 4, 13, Border::circular},
    {F, F, 3, 4, 15, Border::symmetric},
    {F, F, 1, 4, 13, Border::constant},
    {F, F, 40, 140, 13, Border::reflect, 3, true},
    {F, F, 40, 264, 9, Border::constant, 3, true},
    {U, F, 40, 136, 9, Border::reflect},
    {U, U, 40, 132, 13, Border::circular},
    {U, U, 40, 260, 13, Border::constant, 7},
    {H, H, 40, 136, 9, Border::symmetric},
    {H, H, 30, 138, 13, Border::reflect},
    {B, B, 30, 264, 13, Border::replicate},
};

constexpr int kSpare = 64;  // elements on either side of the output, which no kernel may write

struct Memory {
  std::vector<double> words;
  Image image;
  Memory(Dtype dtype, int64_t h, int64_t w) : words(2 * h * round_up(w, 16) + 3 * kSpare, -7) {
    const uintptr_t start = (reinterpret_cast<uintptr_t>(words.data()) + 127) / 128 * 128 + kSpare * 4;
    const int64_t pitch = round_up(w, 16);
    image = {reinterpret_cast<void*>(start), dtype, 1, 2, 1, h, w, 2 * h * pitch, h * pitch, 0, pitch, 1};
  }
};

template <typename F>
auto with_pixel(const Image& x, int64_t c, int64_t y, int64_t at, const F& f) {
  return with_type(x.dtype, [&](auto zero) {
    return f(static_cast<decltype(zero)*>(x.data)[c * x.stride_c + y * x.stride_h + at]);
  });
}
float get(const Image& x, int64_t c, int64_t y, int64_t at) {
  return with_pixel(x, c, y, at, [](auto& pixel) { return to_acc<float>(pixel); });
}

float chain(const Fused& p, int64_t c, int64_t y, int64_t x) {
  const Stage& s = p.stages[0];
  const int64_t k = s.kh, pad = p.valid ? 0 : k / 2;
  float total = 0;
  for (int i = 0; i < 2; ++i) {
    float sum = 0;
    for (int64_t r = 0; r < k; ++r) {
      float across = 0;
      for (int64_t j = 0; j < k; ++j) {
        const int64_t row = map_index(y + r - pad, p.in.h, p.border), column = map_index(x + j - pad, p.in.w, p.border);
        const float v = row < 0 || column < 0 ? float(p.value) : get(p.in, c, row, column);
        across = std::fma(tap(s.taps_x[i], j), v, across);
      }
      sum = std::fma(tap(s.taps_y[i], r), across, sum);
    }
    total = i == 0 ? sum : total + sum;
  }
  return with_type(p.out.dtype, [&](auto zero) { return to_acc<float>(from_acc<decltype(zero)>(total)); });
}

bool check(const Case& k) {
  std::mt19937 make(1);
  const int64_t lost = k.valid ? k.k - 1 : 0;
  Memory from(k.in, k.h, k.w), to(k.out, k.h - lost, k.w - lost);
  on_host::each_pixel(from.image, [&](int64_t, auto... at) {
    with_pixel(from.image, at..., [&](auto& p) { p = from_acc<std::decay_t<decltype(p)>>(float(make() % 256)); });
  });
  std::vector<float> taps(4 * k.k);
  for (float& tap : taps) tap = float(make() % 1000) / 1000 / k.k;
  Stage stage{.windows = 2, .kd = 1, .kh = k.k, .kw = k.k, .point = Point::sum};
  for (int i = 0; i < 2; ++i) {
    stage.taps_x[i] = {taps.data() + 2 * i * k.k, true, 0, 0, 0};
    stage.taps_y[i] = {taps.data() + (2 * i + 1) * k.k, true, 0, 0, 0};
  }
  Fused p{.in = from.image,
          .out = to.image,
          .stride_output = 0,
          .count = 1,
          .stages = {stage},
          .border = k.border,
          .value = k.value,
          .valid = k.valid,
          .stride = 1,
          .wanted = false};
  const Arch arch{
      .major = 9, .minor = 0, .multiprocessors = k.multiprocessors, .shared_bytes = 232448, .bulk_copy = true};
  const Plan planned = plan_cuda(p, arch, "streaming");
  std::string wrong = planned.variant ? "" : planned.why;
  const std::string name = wrong.empty() ? planned.kernels[0].name : "no kernel";
  if (wrong.empty() && !kKernels.contains(name)) wrong = "no such kernel here";
  if (wrong.empty()) {
    const auto& config = own_config<ChainConfig>(planned);
    const StreamingStrip& s = config.chain.streaming;
    const int bytes = size_of(p.in.dtype);
    PackedTaps packed{};
    config.chain.pack(p, packed);
    memset(shared, 0xff, sizeof(shared));
    kKernels.at(name)(planned, tma::map_of(p.in, s.pitch(bytes) * bytes / 4, s.rows),
                      tma::map_of(p.in, s.pitch(bytes) * bytes / 4, 1), args_of(p, planned, config), packed);
    on_host::each_pixel(p.out, [&](int64_t, int64_t c, int64_t y, int64_t x) {
      const float want = chain(p, c, y, x), got = get(p.out, c, y, x);
      if (want != got && wrong.empty()) wrong = on_host::difference({c, y, x}, got, want);
      with_pixel(p.out, c, y, x, [](auto& pixel) { memset(&pixel, 0, sizeof(pixel)); });
    });
    // All bytes but the results are as before.
    Memory blank(k.out, p.out.h, p.out.w);
    const char* was = static_cast<const char*>(blank.image.data);
    const char* is = static_cast<const char*>(p.out.data);
    const int64_t size = size_of(k.out), all = 2 * p.out.stride_c * size;
    for (int64_t i = -kSpare * 4; i < all + kSpare * 4 && wrong.empty(); ++i) {
      const bool result = i >= 0 && i < all && i / size % p.out.stride_h < p.out.w;
      if (!result && was[i] != is[i]) wrong = "byte " + std::to_string(i) + " beside the output was written";
    }
  }
  return on_host::report(wrong, "%s %lldx%lld %s", name.c_str(), (long long)k.h, (long long)k.w, name_of(k.border));
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
