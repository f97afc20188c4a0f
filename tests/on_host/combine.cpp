// The pointwise end of a stage as its plan launches it, on the host, against the step of every pixel by itself.
#include <map>
#include <random>
#include <string>

#include "cuda.h"
#include "report.h"
#include "kernels/fused/combine/plan.h"
#include "kernels/fused/combine/kernel.cuh"

using namespace torch_conv;
using namespace torch_conv::fused;

namespace {

using Kernel = void (*)(Combine, int64_t);
const std::map<std::string, Kernel> kKernels = {
    {"fused::fused_combine<float, 4>", fused_combine<float, 4>},
    {"fused::fused_combine<float, 1>", fused_combine<float, 1>},
    {"fused::fused_combine<double, 2>", fused_combine<double, 2>},
    {"fused::fused_combine<double, 1>", fused_combine<double, 1>},
};

enum class Lie { planes, channels_inner, output_is_a_crop, output_is_odd };

struct Case {
  const char* variant;
  Point point;
  int windows;
  Dtype in, out;
  int64_t n, c, d, h, w;
  Lie lie = Lie::planes;
  int64_t margin = 0;
};

const Dtype F = Dtype::f32, H = Dtype::f16, B = Dtype::bf16, D = Dtype::f64, U = Dtype::u8, I = Dtype::i16;
const Case kCases[] = {
    {"vectors", Point::sum, 2, F, F, 1, 1, 1, 9, 36},
    {"vectors", Point::sum, 3, F, F, 2, 3, 1, 6, 7},  // one row of 252 pixels
    {"pixels", Point::sum, 2, F, F, 1, 1, 1, 7, 9},
    {"vectors", Point::sum, 2, F, U, 1, 3, 1, 5, 8, Lie::channels_inner},
    {"pixels", Point::sum, 2, F, F, 1, 3, 1, 5, 9, Lie::channels_inner},
    {"vectors", Point::l1, 2, F, H, 2, 2, 1, 9, 136, Lie::output_is_a_crop},
    {"pixels", Point::l1, 3, F, F, 1, 2, 3, 4, 30, Lie::output_is_a_crop},
    {"pixels", Point::sum, 1, F, F, 1, 1, 1, 8, 32, Lie::output_is_odd},
    {"vectors", Point::l2, 3, B, B, 1, 2, 4, 5, 12},
    {"pixels", Point::l2, 2, F, D, 1, 2, 1, 5, 12},
    {"vectors", Point::l2, 2, D, D, 1, 2, 1, 5, 6},
    {"vectors", Point::l2, 2, D, U, 1, 2, 1, 5, 6, Lie::output_is_a_crop},
    {"pixels", Point::l2, 2, D, I, 1, 1, 1, 5, 5},
    {"vectors", Point::products, 2, F, F, 2, 1, 1, 9, 20},
    {"vectors", Point::products, 2, F, F, 2, 1, 1, 9, 20, Lie::output_is_a_crop},
    {"vectors", Point::polar, 2, F, F, 1, 1, 1, 33, 44},
    {"vectors", Point::sharpen, 1, U, U, 1, 3, 1, 8, 11},
    {"vectors", Point::sharpen, 1, U, U, 1, 3, 1, 8, 12, Lie::planes, 3},
    {"pixels", Point::sharpen, 1, U, U, 1, 3, 1, 8, 11, Lie::planes, 3},
    {"vectors", Point::sharpen, 1, H, F, 1, 3, 1, 9, 12, Lie::output_is_a_crop, 2},
    {"vectors", Point::thin, 3, F, F, 2, 1, 1, 9, 20},
    {"pixels", Point::thin, 3, F, F, 1, 2, 1, 9, 19},
    {"vectors", Point::thin, 3, F, U, 1, 2, 1, 9, 20, Lie::output_is_a_crop},
};

// Memory for several images one behind the other, and a margin around them.
struct Memory {
  std::vector<double> words;
  Image image;

  Memory(const Case& k, Dtype dtype, int count, bool out) {
    const int64_t pitch = k.w + (out && k.lie == Lie::output_is_a_crop ? 16 : 0);
    words.assign(count * k.n * k.c * k.d * (k.h + 1) * pitch + 64, -7);
    const uintptr_t start = (reinterpret_cast<uintptr_t>(words.data()) + 63) / 64 * 64;
    const int64_t aside = out && k.lie == Lie::output_is_odd ? size_of(dtype) : 0;
    image = {.data = reinterpret_cast<void*>(start + aside),
             .dtype = dtype,
             .n = k.n,
             .c = k.c,
             .d = k.d,
             .h = k.h,
             .w = k.w};
    const bool inner = k.lie == Lie::channels_inner;
    image.stride_w = inner ? k.c : 1;
    image.stride_h = inner ? k.c * pitch : pitch;
    image.stride_d = image.stride_h * k.h;
    image.stride_c = inner ? 1 : image.stride_d * k.d;
    image.stride_n = image.stride_d * k.d * (inner ? 1 : k.c);
  }
  int64_t elements() const { return image.n * image.stride_n; }
};

double get(const Image& x, int64_t i) {
  return with_type(x.dtype, [&](auto zero) { return to_acc<double>(static_cast<decltype(zero)*>(x.data)[i]); });
}
void set(const Image& x, int64_t i, double value) {
  with_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    static_cast<T*>(x.data)[i] = from_acc<T>(value);
  });
}

template <Point P, int Windows, typename A>
std::vector<A> made(const Combine& p, const Pixel& at) {
  A s[Windows], pixel = 0, out[count_outputs(P, Windows)];
  for (int i = 0; i < Windows; ++i) s[i] = A(get(p.sums[i], offset(p.sums[i], at)));
  if constexpr (P == Point::thin) {
    const auto m = [&](int dy, int dx) {
      const Pixel near{at.n, at.c, at.z, at.y + dy, at.x + dx};
      const bool inside = near.y >= 0 && near.y < p.out.h && near.x >= 0 && near.x < p.out.w;
      return inside ? A(get(p.sums[0], offset(p.sums[0], near))) : A(0);
    };
    out[0] = thinned(m, s[1], s[2]);
  } else {
    if (P == Point::sharpen) pixel = A(get(p.centre, offset(p.centre, at)));
    apply_point<P, Windows>(s, pixel, A(p.number), out);
    const auto near = [](int64_t i, int64_t n, int64_t margin) { return i < margin || i >= n - margin; };
    if (P == Point::sharpen && (near(at.y, p.out.h, p.margin_y) || near(at.x, p.out.w, p.margin_x))) out[0] = 0;
  }
  return {std::begin(out), std::end(out)};
}

template <typename A>
std::vector<A> made(const Combine& p, const Pixel& at) {
  switch (p.point) {
    case Point::sum:
      return p.windows == 1   ? made<Point::sum, 1, A>(p, at)
             : p.windows == 2 ? made<Point::sum, 2, A>(p, at)
                              : made<Point::sum, 3, A>(p, at);
    case Point::l1: return p.windows == 2 ? made<Point::l1, 2, A>(p, at) : made<Point::l1, 3, A>(p, at);
    case Point::l2: return p.windows == 2 ? made<Point::l2, 2, A>(p, at) : made<Point::l2, 3, A>(p, at);
    case Point::products: return made<Point::products, 2, A>(p, at);
    case Point::polar: return made<Point::polar, 2, A>(p, at);
    case Point::sharpen: return made<Point::sharpen, 1, A>(p, at);
    case Point::thin: return made<Point::thin, 3, A>(p, at);
    case Point::each: return {};
  }
  return {};
}

template <typename A>
std::string wrong_of(const Case& k) {
  std::mt19937 make(1);
  std::normal_distribution<double> normal(40, 60);
  const int outputs = count_outputs(k.point, k.windows);
  std::vector<Memory> sums;
  for (int i = 0; i < k.windows; ++i) {
    sums.emplace_back(k, k.in == D ? D : F, 1, false);
    for (int64_t e = 0; e < sums[i].elements(); ++e) set(sums[i].image, e, normal(make));
  }
  Memory centre(k, k.in, 1, false), out(k, k.out, outputs, true), expected(k, k.out, outputs, true);
  for (int64_t e = 0; e < centre.elements(); ++e) set(centre.image, e, normal(make));
  Combine p{.windows = k.windows,
            .centre = centre.image,
            .out = out.image,
            .stride_output = out.elements(),
            .point = k.point,
            .number = 0.5,
            .margin_y = k.margin,
            .margin_x = k.margin};
  for (int i = 0; i < k.windows; ++i) p.sums[i] = sums[i].image;

  const Plan plan = plan_cuda(p, Arch{.major = 9, .minor = 0, .multiprocessors = 132}, "");
  if (std::string(plan.variant) != k.variant) return std::string("goes by ") + plan.variant;
  const int vector = own_config<CombineConfig>(plan).vector;
  on_host::launch(kKernels.at(plan.kernels[0].name), {unsigned(plan.blocks), 1, 1}, plan.threads, in_rows(p),
                  count_pixels(p.out) / vector);
  for (int64_t n = 0; n < k.n; ++n)
    for (int64_t c = 0; c < k.c; ++c)
      for (int64_t z = 0; z < k.d; ++z)
        for (int64_t y = 0; y < k.h; ++y)
          for (int64_t x = 0; x < k.w; ++x) {
            const Pixel at{n, c, z, y, x};
            const std::vector<A> all = made<A>(p, at);
            for (int o = 0; o < outputs; ++o) set(expected.image, o * p.stride_output + offset(p.out, at), all[o]);
          }
  // Also what lies beside crops, and behind all.
  const size_t bytes = outputs * out.elements() * size_of(k.out) + 16;
  return memcmp(out.image.data, expected.image.data, bytes) == 0 ? "" : "an output";
}

}  // namespace

int main() {
  return on_host::status_of(kCases, [](const Case& k) {
    const std::string wrong = k.in == D ? wrong_of<double>(k) : wrong_of<float>(k);
    return on_host::report(wrong, "point %d of %d sums, %s to %s, %lldx%lld", int(k.point), k.windows, name_of(k.in),
                           name_of(k.out), (long long)k.h, (long long)k.w);
  });
}
