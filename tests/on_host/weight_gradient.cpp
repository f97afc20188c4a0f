// The kernels of csrc/kernels/weight_gradient as their plans launch them, on the host, against plain sums. The general
// kernel gives the bits of the other.
#include <map>
#include <random>
#include <string>

#include "cuda.h"
#include "report.h"
#include "kernels/weight_gradient/general/kernel.cuh"
#include "kernels/weight_gradient/streaming/kernel.cuh"
#include "kernels/weight_gradient/streaming/kernel_finish.cuh"
#include "kernels/weight_gradient/plan.h"

using namespace torch_conv;
using namespace torch_conv::weight_gradient;

namespace {

using Kernel = void (*)(SumsArgs);
const std::map<std::string, Kernel> kKernels = {
#define KERNEL(...) \
  { "weight_gradient::weight_gradient_streaming<" #__VA_ARGS__ ">", weight_gradient_streaming<__VA_ARGS__> }
    KERNEL(float, weight_gradient::StreamingPolicy{3, 3, 1, 1, 8, 1, 0, true, 3}),
    KERNEL(float, weight_gradient::StreamingPolicy{3, 3, 1, 1, 4, 1, 0, false, 4}),
    KERNEL(float, weight_gradient::StreamingPolicy{3, 3, 1, 1, 8, 4, 3, false, 4}),
    KERNEL(float, weight_gradient::StreamingPolicy{3, 3, 2, 2, 8, 1, 0, true, 3}),
    KERNEL(float, weight_gradient::StreamingPolicy{3, 3, 2, 2, 4, 2, 1, false, 4}),
    KERNEL(float, weight_gradient::StreamingPolicy{7, 7, 1, 1, 4, 4, 1, false, 3}),
    KERNEL(float, weight_gradient::StreamingPolicy{7, 7, 1, 1, 4, 1, 0, true, 3}),
    KERNEL(float, weight_gradient::StreamingPolicy{5, 9, 1, 1, 4, 4, 0, false, 3}),
    KERNEL(float, weight_gradient::StreamingPolicy{1, 5, 1, 3, 4, 2, 0, false, 4}),
    KERNEL(float, weight_gradient::StreamingPolicy{4, 1, 1, 1, 1, 1, 0, true, 3}),
    KERNEL(float, weight_gradient::StreamingPolicy{2, 4, 4, 3, 8, 1, 0, true, 3}),
    KERNEL(float, weight_gradient::StreamingPolicy{2, 31, 1, 1, 4, 4, 1, false, 3}),
#undef KERNEL
};

struct Case {
  int64_t n, c, multiplier, h, w, kh, kw, stride_y, stride_x, pad_y, pad_x;
  bool inner;
  int64_t fewer_rows = 0, fewer_columns = 0;  // outputs that are not there
};

const Case kCases[] = {
    {2, 33, 1, 9, 11, 3, 3, 1, 1, 1, 1, true},      {3, 40, 1, 5, 8, 3, 3, 1, 1, 0, 2, true, 1, 2},
    {2, 2, 2, 9, 11, 3, 3, 1, 1, 1, 1, false},      {1, 2, 1, 21, 7, 3, 3, 1, 1, 2, 0, false, 3, 0},
    {3, 1, 1, 10, 16, 3, 3, 1, 1, 1, 1, false},     {2, 3, 1, 9, 10, 3, 3, 2, 2, 1, 1, true},
    {2, 1, 1, 13, 20, 3, 3, 2, 2, 0, 1, false},     {2, 2, 1, 16, 24, 7, 7, 1, 1, 3, 3, false},
    {1, 1, 1, 4, 8, 7, 7, 1, 1, 6, 3, false, 2, 0}, {2, 5, 1, 14, 14, 7, 7, 1, 1, 3, 3, true},
    {1, 1, 1, 12, 16, 9, 9, 1, 1, 4, 4, false},     {2, 2, 1, 1, 50, 1, 5, 1, 3, 0, 4, false},
    {2, 7, 1, 40, 1, 4, 1, 1, 1, 3, 0, true, 3, 0}, {1, 3, 1, 15, 17, 2, 4, 4, 3, 1, 2, true},
    {1, 1, 1, 6, 32, 31, 31, 1, 1, 15, 15, false},
};

// Dense planes, or channels innermost.
Image image_of(std::vector<float>& data, int64_t n, int64_t c, int64_t h, int64_t w, bool inner) {
  data.resize(n * c * h * w);
  Image image{.data = data.data(), .dtype = Dtype::f32, .n = n, .c = c, .d = 1, .h = h, .w = w};
  image.stride_n = c * h * w, image.stride_c = inner ? 1 : h * w, image.stride_d = 0;
  image.stride_h = inner ? w * c : w, image.stride_w = inner ? c : 1;
  return image;
}

float& at(const Image& x, int64_t n, int64_t c, int64_t h, int64_t w) {
  return static_cast<float*>(x.data)[n * x.stride_n + c * x.stride_c + h * x.stride_h + w * x.stride_w];
}

// Sums of what lies inside; then of its magnitudes.
std::vector<double> plain(const WeightGradient& p, bool magnitudes) {
  std::vector<double> sums;
  const Placement& s = p.place;
  for (int64_t c = 0; c < p.grad.c; ++c)
    for (int64_t i = 0; i < p.kh; ++i)
      for (int64_t j = 0; j < p.kw; ++j) {
        double sum = 0;
        for (int64_t n = 0; n < p.grad.n; ++n)
          for (int64_t y = 0; y < p.grad.h; ++y)
            for (int64_t x = 0; x < p.grad.w; ++x) {
              const int64_t h = y * s.stride_y + i - s.pad_y, w = x * s.stride_x + j - s.pad_x;
              if (h < 0 || h >= p.in.h || w < 0 || w >= p.in.w) continue;
              const double product = double(at(p.in, n, c / p.multiplier(), h, w)) * at(p.grad, n, c, y, x);
              sum += magnitudes ? std::abs(product) : product;
            }
        sums.push_back(sum);
      }
  return sums;
}

// launch.cpp on the host.
void run(const WeightGradient& p, const Plan& plan) {
  const auto& c = own_config<GradientConfig>(plan);
  std::vector<float> sums(plan.scratch_bytes / 4, NAN);
  const Index grid{unsigned(c.splits), unsigned(c.groups), unsigned(c.rounds)};
  if (kKernels.contains(plan.kernels[0].name)) {
    on_host::launch(kKernels.at(plan.kernels[0].name), grid, kThreads, sums_args(p, c, sums.data()));
  } else {
    // Fewer blocks than parts: a block takes several.
    const unsigned parts = std::min<unsigned>(general_parts(p), 7);
    on_host::launch(weight_gradient_general<float>, {grid.x, grid.y, parts}, kThreads, general_args(p, c, sums.data()));
  }
  const FinishArgs finish = finish_args(p, c, sums.data());
  on_host::launch(weight_gradient_finish<float>, {unsigned(ceil_div(finish.count, 32)), 1, 1}, 32 * kPartials, finish);
}

bool check(const Case& k, int multiprocessors, bool infinite) {
  std::mt19937 make(1);
  std::normal_distribution<float> normal;
  std::vector<float> pixels, numbers, weight(k.c * k.multiplier * k.kh * k.kw, NAN), bias(k.c * k.multiplier, NAN);
  const Image in = image_of(pixels, k.n, k.c, k.h, k.w, k.inner);
  const int64_t rows = (k.h + 2 * k.pad_y - k.kh) / k.stride_y + 1, columns = (k.w + 2 * k.pad_x - k.kw) / k.stride_x + 1;
  const Image grad =
      image_of(numbers, k.n, k.c * k.multiplier, rows - k.fewer_rows, columns - k.fewer_columns, k.inner);
  for (float& x : pixels) x = normal(make);
  for (float& x : numbers) x = normal(make);
  if (infinite) at(in, 0, k.c - 1, 0, 0) = INFINITY;
  const Placement place{.pad_y = k.pad_y, .pad_x = k.pad_x, .stride_y = k.stride_y, .stride_x = k.stride_x};
  const WeightGradient p{in, grad, weight.data(), bias.data(), k.kh, k.kw, place};
  const Arch arch{.major = 9, .minor = 0, .multiprocessors = multiprocessors};
  const Plan plan = choose(kCandidates, p, arch, "streaming", Plan{.algorithm = "weight_gradient"});
  const std::string name = plan.variant ? plan.kernels[0].name : plan.why;
  std::string wrong;
  if (!plan.variant || !kKernels.contains(name)) {
    wrong = "no such kernel here";
  } else {
    run(p, plan);
    const std::vector<double> exact = plain(p, false), bounds = plain(p, true);
    for (size_t i = 0; i < exact.size(); ++i) {
      const bool close = std::isfinite(exact[i]) ? std::abs(weight[i] - exact[i]) <= 1e-6 * bounds[i] + 1e-6
                                                 : !std::isfinite(weight[i]);
      if (!close) wrong = "tap " + std::to_string(i) + " is " + std::to_string(weight[i]);
    }
    for (int64_t c = 0; c < grad.c; ++c) {
      double sum = 0;
      for (int64_t n = 0; n < grad.n; ++n)
        for (int64_t y = 0; y < grad.h; ++y)
          for (int64_t x = 0; x < grad.w; ++x) sum += at(grad, n, c, y, x);
      if (!(std::abs(bias[c] - sum) <= 1e-4)) wrong = "bias " + std::to_string(c) + " is " + std::to_string(bias[c]);
    }
    const std::vector<float> weight_bits = weight, bias_bits = bias;
    weight.assign(weight.size(), NAN), bias.assign(bias.size(), NAN);
    run(p, choose(kCandidates, p, arch, "general", Plan{.algorithm = "weight_gradient"}));
    const auto same = [](float a, float b) { return (std::isnan(a) && std::isnan(b)) || memcmp(&a, &b, 4) == 0; };
    for (size_t i = 0; i < weight.size(); ++i)
      if (!same(weight[i], weight_bits[i])) wrong = "other bits of tap " + std::to_string(i);
    for (size_t i = 0; i < bias.size(); ++i)
      if (!same(bias[i], bias_bits[i])) wrong = "other bits of bias " + std::to_string(i);
  }
  return on_host::report(wrong, "%s %lldx%lldx%lldx%lld%s%s", name.c_str(), (long long)k.n, (long long)k.c,
                         (long long)k.h, (long long)k.w, k.inner ? " channels innermost" : "",
                         infinite ? " with an infinite pixel" : "");
}

}  // namespace

int main() {
  return on_host::status_of(kCases, [](const Case& k) {
    const bool finite = check(k, 1, false);
    return check(k, 8, true) && finite;
  });
}
