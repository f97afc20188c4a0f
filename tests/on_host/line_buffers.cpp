// fused's LINE_BUFFERS as its plan launches it, on the host: the bits of the filters and steps of a chain one by one, and
// nothing written beside the outputs.
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "cuda.h"
#include "report.h"
using std::fma;
using std::fmaf;
#undef __shared__
#define __shared__
namespace torch_conv {
// Host version of a function that core/point.h writes in PTX.
template <int N>
void square_roots(float (&v)[N]) {
  for (float& x : v) x = std::sqrt(x);
}
namespace fused {
alignas(128) inline unsigned char shared[1 << 18];
}
}  // namespace torch_conv
#include "kernels/fused/line_buffers/kernel.cuh"
#include "kernels/fused/line_buffers/plan.h"

using namespace torch_conv;
using namespace torch_conv::fused;

namespace {

enum class What { gradient, sums, sharpened, gaussian_sobel, structure_tensor, thin_edges };
enum class Layout { planes, channels_inner, apart };

struct Case {
  What what;
  int64_t k;  // taps of the chain's smoothing windows
  int64_t n, c, h, w;
  Border border = Border::reflect;
  double value = 0;
  bool valid = false;
  Layout layout = Layout::planes;
};

const Case kCases[] = {
    {What::gradient, 3, 1, 2, 70, 300},
    {What::gradient, 5, 2, 2, 35, 28, Border::skip},
    {What::sums, 9, 1, 1, 90, 260, Border::symmetric},
    {What::sums, 31, 1, 2, 70, 140, Border::constant, 2.5},
    {What::sums, 63, 1, 1, 100, 200, Border::circular},
    {What::sharpened, 5, 1, 3, 40, 101, Border::replicate, 0, false, Layout::channels_inner},
    {What::sharpened, 21, 2, 1, 70, 130, Border::zero_output},
    {What::sharpened, 7, 1, 2, 50, 64, Border::reflect, 0, true},
    {What::gaussian_sobel, 5, 1, 2, 100, 300},
    {What::gaussian_sobel, 3, 2, 3, 33, 61, Border::replicate, 0, false, Layout::channels_inner},
    {What::gaussian_sobel, 9, 3, 5, 28, 28, Border::symmetric},
    {What::gaussian_sobel, 7, 1, 2, 45, 150, Border::constant, -3},
    {What::gaussian_sobel, 7, 1, 1, 64, 150, Border::circular},
    {What::gaussian_sobel, 7, 1, 2, 45, 150, Border::skip},
    {What::gaussian_sobel, 11, 1, 2, 65, 150, Border::zero_output},
    {What::gaussian_sobel, 5, 1, 4, 80, 141, Border::reflect, 0, true, Layout::channels_inner},
    {What::gaussian_sobel, 5, 1, 7, 20, 41, Border::reflect, 0, false, Layout::apart},
    {What::structure_tensor, 5, 1, 2, 70, 200},
    {What::structure_tensor, 15, 1, 1, 70, 170, Border::replicate},
    {What::structure_tensor, 31, 1, 1, 90, 150, Border::symmetric},
    {What::structure_tensor, 7, 2, 3, 40, 40, Border::constant, 4},
    {What::structure_tensor, 7, 2, 3, 40, 40, Border::skip, 0, false, Layout::channels_inner},
    {What::structure_tensor, 9, 1, 1, 80, 140, Border::reflect, 0, true},
    {What::thin_edges, 5, 1, 2, 70, 200},
    {What::thin_edges, 9, 2, 4, 32, 30, Border::symmetric},
    {What::thin_edges, 7, 1, 3, 50, 97, Border::replicate, 0, false, Layout::channels_inner},
    {What::thin_edges, 5, 1, 1, 50, 150, Border::circular},
    {What::thin_edges, 5, 1, 1, 50, 150, Border::constant, 7},
    {What::thin_edges, 5, 1, 1, 50, 150, Border::zero_output},
    {What::thin_edges, 5, 1, 1, 50, 150, Border::skip},
    {What::thin_edges, 11, 1, 2, 70, 140, Border::reflect, 0, true},
    {What::thin_edges, 3, 1, 1, 9, 9, Border::reflect},
};

// As large as a GPU's, and as small.
constexpr Arch kMachines[] = {{.major = 9, .minor = 0, .multiprocessors = 2, .shared_bytes = 232448},
                              {.major = 8, .minor = 9, .multiprocessors = 1, .shared_bytes = 101376}};

using Kernel = void (*)(LineBuffersParams);
#define KERNEL(T, v) \
  { "fused::fused_line_buffers<" #T ", " #v ">", fused_line_buffers<T, v> }
const std::map<std::string, Kernel> kKernels = {KERNEL(float, 16), KERNEL(float, 8),    KERNEL(half_t, 16),
                                                KERNEL(half_t, 8), KERNEL(uint8_t, 16), KERNEL(uint8_t, 8),
                                                KERNEL(double, 8)};

template <typename T>
constexpr Dtype kDtype = std::is_same_v<T, float>    ? Dtype::f32
                         : std::is_same_v<T, double> ? Dtype::f64
                         : std::is_same_v<T, half_t> ? Dtype::f16
                                                     : Dtype::u8;

// `images` of them, with something between rows and behind.
template <typename T>
struct Memory {
  std::vector<T> elements;
  Image image;
  Memory(const Case& k, int64_t images, int64_t h, int64_t w) {
    const bool inner = k.layout == Layout::channels_inner;
    const int64_t pixel = inner ? k.c : k.layout == Layout::apart ? 2 : 1, pitch = pixel * w + 3;
    const int64_t plane = h * pitch, sample = inner ? plane : k.c * plane;
    T between;
    memset(&between, 0x3b, sizeof(T));
    elements.assign(images * k.n * sample + 16, between);
    image = {elements.data(), kDtype<T>, k.n, k.c, 1, h, w, sample, inner ? 1 : plane, 0, pitch, pixel};
  }
  T& at(int64_t o, int64_t n, int64_t c, int64_t y, int64_t x) const {
    return static_cast<T*>(image.data)[(o * image.n + n) * image.stride_n + c * image.stride_c + y * image.stride_h +
                                       x * image.stride_w];
  }
};

template <typename A>
struct Plane {
  int64_t h, w;
  std::vector<A> v;
  Plane(int64_t h, int64_t w) : h(h), w(w), v(h * w) {}
  A& at(int64_t y, int64_t x) { return v[y * w + x]; }
  A at(int64_t y, int64_t x) const { return v[y * w + x]; }
};

// One window: its row pass over the extended plane, then its column pass.
template <typename A>
Plane<A> filtered(const Fused& p, const Stage& s, int i, const Plane<A>& in) {
  const int64_t ry = p.valid ? 0 : s.kh / 2, rx = p.valid ? 0 : s.kw / 2;
  Plane<A> out(p.valid ? in.h - s.kh + 1 : in.h, p.valid ? in.w - s.kw + 1 : in.w), rows(in.h + 2 * ry, out.w);
  const A *tx = static_cast<const A*>(s.taps_x[i].data), *ty = static_cast<const A*>(s.taps_y[i].data);
  const bool skip = p.border == Border::skip;
  for (int64_t y = 0; y < rows.h; ++y)
    for (int64_t x = 0; x < out.w; ++x)
      for (int64_t j = 0; j < s.kw; ++j) {
        const int64_t from_y = map_index(y - ry, in.h, p.border), from_x = map_index(x - rx + j, in.w, p.border);
        if (skip && from_x < 0) continue;
        const A pixel = from_y < 0 || from_x < 0 ? A(p.border == Border::constant ? p.value : 0) : in.at(from_y, from_x);
        rows.at(y, x) = std::fma(tx[j], pixel, rows.at(y, x));
      }
  for (int64_t y = 0; y < out.h; ++y)
    for (int64_t x = 0; x < out.w; ++x) {
      for (int64_t j = 0; j < s.kh; ++j) {
        const int64_t row = y - ry + j;
        if (skip && (row < 0 || row >= in.h)) continue;
        out.at(y, x) = std::fma(ty[j], rows.at(y + j, x), out.at(y, x));
      }
      const bool inside = y >= ry && y + ry < in.h && x >= rx && x + rx < in.w;
      if (p.border == Border::zero_output && !inside) out.at(y, x) = 0;
    }
  return out;
}

template <typename A>
std::vector<Plane<A>> stage_of(const Fused& p, const Stage& s, const std::vector<Plane<A>>& in) {
  if (s.point == Point::thin) {
    const int64_t less = p.valid ? 1 : 0;
    Plane<A> out(in[0].h - 2 * less, in[0].w - 2 * less);
    for (int64_t y = 0; y < out.h; ++y)
      for (int64_t x = 0; x < out.w; ++x) {
        const auto m = [&](int dy, int dx) {
          const int64_t row = y + less + dy, column = x + less + dx;
          const bool inside = row >= 0 && row < in[0].h && column >= 0 && column < in[0].w;
          return inside ? in[0].at(row, column) : A(0);
        };
        out.at(y, x) = thinned(m, in[1].at(y + less, x + less), in[2].at(y + less, x + less));
      }
    return {out};
  }
  std::vector<Plane<A>> sums;
  for (int i = 0; i < s.windows; ++i) sums.push_back(filtered(p, s, i, in[i % in.size()]));
  if (s.point == Point::each) return sums;
  std::vector<Plane<A>> outs(s.outputs(), Plane<A>(sums[0].h, sums[0].w));
  const int64_t ry = s.kh / 2, rx = s.kw / 2, less_y = p.valid ? ry : 0, less_x = p.valid ? rx : 0;
  for (int64_t y = 0; y < sums[0].h; ++y)
    for (int64_t x = 0; x < sums[0].w; ++x) {
      const auto apply = [&]<Point P, int W>() {
        A v[W], made[count_outputs(P, W)];
        for (int i = 0; i < W; ++i) v[i] = sums[i].at(y, x);
        apply_point<P, W>(v, in[0].at(y + less_y, x + less_x), A(s.number), made);
        const bool inside = y >= ry && y + ry < in[0].h && x >= rx && x + rx < in[0].w;
        if (P == Point::sharpen && p.border == Border::zero_output && !p.valid && !inside) made[0] = 0;
        for (int o = 0; o < count_outputs(P, W); ++o) outs[o].at(y, x) = made[o];
      };
      if (s.point == Point::sum) apply.template operator()<Point::sum, 2>();
      if (s.point == Point::l2) apply.template operator()<Point::l2, 2>();
      if (s.point == Point::products) apply.template operator()<Point::products, 2>();
      if (s.point == Point::polar) apply.template operator()<Point::polar, 2>();
      if (s.point == Point::sharpen) apply.template operator()<Point::sharpen, 1>();
    }
  return outs;
}

// The stages of a chain, with random taps; all windows of one stage as large.
template <typename A>
std::vector<Stage> stages_of(const Case& k, std::vector<std::vector<A>>& taps, std::mt19937& make) {
  taps.reserve(64);
  const auto windows = [&](int count, int64_t kh, int64_t kw, Point point, double number = 0, bool shared = false) {
    Stage s{.windows = count, .kh = kh, .kw = kw, .point = point, .number = number};
    const auto random = [&](int64_t size) {
      std::vector<A>& of = taps.emplace_back(size);
      for (A& tap : of) tap = A(float(make() % 1000) / 3000 - 0.1f);
      return Taps{of.data(), true, 0, 0, 0};
    };
    for (int i = 0; i < count; ++i) {
      s.taps_x[i] = i > 0 && shared ? s.taps_x[0] : random(kw);
      s.taps_y[i] = i > 0 && shared ? s.taps_y[0] : random(kh);
    }
    return s;
  };
  const Stage thin{.windows = 0, .point = Point::thin};
  switch (k.what) {
    case What::gradient: return {windows(2, k.k, k.k, Point::each)};
    case What::sums: return {windows(2, k.k, k.k, Point::sum)};
    case What::sharpened: return {windows(1, k.k, k.k + 2, Point::sharpen, 1.5)};
    case What::gaussian_sobel: return {windows(1, k.k, k.k + 2, Point::each), windows(2, 3, 3, Point::l2, 0.25)};
    case What::structure_tensor:
      return {windows(2, 3, 3, Point::products), windows(3, k.k, k.k, Point::each, 0, true)};
    case What::thin_edges: return {windows(1, k.k, k.k, Point::each), windows(2, 3, 3, Point::polar), thin};
  }
  return {};
}

template <typename T>
std::string wrong_of(const Case& k, const Arch& machine, bool on_host) {
  using A = acc_t<T>;
  std::mt19937 make(1);
  std::vector<std::vector<A>> taps;
  std::vector<Stage> stages = stages_of<A>(k, taps, make);
  int64_t less_y = 0, less_x = 0;
  for (const Stage& s : stages) less_y += s.kh - 1, less_x += s.kw - 1;
  if (!k.valid) less_y = less_x = 0;
  const int outputs = stages.back().outputs();
  Memory<T> in(k, 1, k.h, k.w), out(k, outputs, k.h - less_y, k.w - less_x);
  const Memory<T> want(k, outputs, k.h - less_y, k.w - less_x);
  on_host::each_pixel(in.image, [&](int64_t n, int64_t c, int64_t y, int64_t x) {
    in.at(0, n, c, y, x) = from_acc<T>(sizeof(T) == 1 ? float(make() % 256) : float(make() % 10000) / 300 - 10);
  });
  Fused p{.in = in.image,
          .out = out.image,
          .stride_output = outputs > 1 ? k.n * out.image.stride_n : 0,
          .count = int(stages.size()),
          .stages = {},
          .border = k.border,
          .value = k.value,
          .valid = k.valid,
          .stride = 1};
  std::copy(stages.begin(), stages.end(), p.stages);
  Fused given = p;
  for (int s = 0; s < p.count; ++s)
    for (int i = 0; i < p.stages[s].windows; ++i)
      given.stages[s].taps_x[i].on_host = given.stages[s].taps_y[i].on_host = on_host;

  if (const char* no = line_buffers_refusal(given, machine)) {
    const bool expected = sizeof(A) == 8 && (machine.shared_bytes < 200000 || k.k == 63);
    return expected ? "" : no;
  }
  Plan plan;
  configure_line_buffers(given, machine, plan);
  const auto kernel = kKernels.find(plan.kernels[0].name);
  if (kernel == kKernels.end()) return "no kernel " + plan.kernels[0].name;
  if (plan.shared_bytes > int(sizeof(shared))) return "shared memory";
  on_host::launch_prepared([] { memset(shared, 0xff, sizeof(shared)); }, kernel->second, {unsigned(plan.blocks), 1, 1},
                           {unsigned(plan.threads), 1, 1}, line_buffers_params(given, own_config<LineChain>(plan)));

  for (int64_t n = 0; n < k.n; ++n)
    for (int64_t c = 0; c < k.c; ++c) {
      std::vector<Plane<A>> images{Plane<A>(k.h, k.w)};
      for (int64_t y = 0; y < k.h; ++y)
        for (int64_t x = 0; x < k.w; ++x) images[0].at(y, x) = to_acc<A>(in.at(0, n, c, y, x));
      for (const Stage& s : stages) images = stage_of(p, s, images);
      for (int o = 0; o < outputs; ++o)
        for (int64_t y = 0; y < want.image.h; ++y)
          for (int64_t x = 0; x < want.image.w; ++x) {
            want.at(o, n, c, y, x) = from_acc<T>(images[o].at(y, x));
            const T &a = out.at(o, n, c, y, x), &b = want.at(o, n, c, y, x);
            if (memcmp(&a, &b, sizeof(T)) != 0)
              return "output " + std::to_string(o) + " " +
                     on_host::difference({n, c, y, x}, to_acc<double>(a), to_acc<double>(b));
          }
    }
  const bool clean = memcmp(out.elements.data(), want.elements.data(), out.elements.size() * sizeof(T)) == 0;
  return clean ? "" : "something beside the outputs was written";
}

template <typename T>
bool check(const Case& k) {
  bool right = true;
  for (const Arch& machine : kMachines)
    for (const bool on_host : {true, false})
      right &= on_host::report(wrong_of<T>(k, machine, on_host), "chain %d of %lld taps, %s %lldx%lld %s %g%s, layout %d, %d KB",
                               int(k.what), (long long)k.k, name_of(kDtype<T>), (long long)k.h, (long long)k.w,
                               name_of(k.border), k.value, k.valid ? " valid" : "", int(k.layout),
                               machine.shared_bytes / 1000);
  return right;
}

}  // namespace

int main() {
  return on_host::status_of(kCases, [](const Case& k) {
    return check<float>(k) & check<half_t>(k) & check<uint8_t>(k) & check<double>(k);
  });
}
