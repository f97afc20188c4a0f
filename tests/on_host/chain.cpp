// The kernels of fused chains as their plans launch them, on the host: shards of an image, which read the rows of the
// shards beside them, have the bits of the image that is whole.
#include <random>
#include <string>

#include "cuda.h"
#include "report.h"
using std::fma;
using std::fmaf;
#undef __shared__
#define __shared__
namespace torch_conv {
// What core/point.h has in PTX.
template <int N>
void square_roots(float (&v)[N]) {
  for (float& x : v) x = std::sqrt(x);
}
}  // namespace torch_conv
#include "fused/kernel_march.cuh"
#include "fused/kernel_tile.cuh"
#include "fused/plan.h"

namespace torch_conv::fused {
alignas(128) unsigned char shared[1 << 17];
}

using namespace torch_conv;
using namespace torch_conv::fused;

namespace {

constexpr int64_t kN = 2, kC = 2;

struct Case {
  int64_t w;
  std::vector<int64_t> rows;  // of every shard
  Border border = Border::reflect;
  double value = 0;
  int shift = 0;  // elements that rows start behind 16 bytes
};

const Case kCases[] = {
    {136, {20, 30, 9}},
    {168, {11, 9}, Border::circular},
    {70, {9, 12, 40}, Border::symmetric},
    {34, {40, 9, 11}, Border::replicate},
    {136, {25, 25}, Border::constant},
    {130, {9, 9, 9, 9}, Border::constant, 3},
    {136, {30, 20}, Border::skip},
    {100, {12, 33, 10}, Border::zero_output},
    {133, {17, 30}, Border::reflect, 0, 1},
    {40, {9, 31}, Border::circular, 0, 3},
};

// Images whose rows go on behind their pixels.
template <typename T>
struct Memory {
  std::vector<T> elements;
  Image image;
  Memory(int64_t images, int64_t h, int64_t w, int shift) {
    const int64_t pitch = round_up(w + 1, 16 / int64_t(sizeof(T))) + shift;
    elements.assign(images * kN * kC * h * pitch + 64, from_acc<T>(-7.f));
    T* const start = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(elements.data()) + 15) / 16 * 16) + shift;
    image = {start, sizeof(T) == 4 ? Dtype::f32 : Dtype::f16, kN, kC, 1, h, w, kC * h * pitch, h * pitch, 0, pitch, 1};
  }
  Image part(int64_t first, int64_t rows) const {
    Image x = image;
    x.data = static_cast<T*>(x.data) + first * x.stride_h, x.h = rows;
    return x;
  }
};

constexpr Arch kMachine{.major = 9, .minor = 0, .multiprocessors = 2, .shared_bytes = 232448, .bulk_copy = true};

template <class P, typename T, bool kAligned, bool kBeside>
std::string launch(const Fused& p, const Plan& plan) {
  const Config& config = *std::any_cast<Config>(&plan.config);
  const Args args = args_of(p, plan, config);
  PackedTaps packed{};
  config.pack(p, packed);
  TapsOf<P> taps;
  std::copy_n(packed.v, P::taps, taps.v);
  const int size = sizeof(T), word = size < 4 ? 4 : size;
  const bool marches = config.boxes > 0;
  const int pitch = marches ? config.march.pitch(size) : config.shape.pitch();
  const auto map_of = [&](int rows) {
    return [=](const Image& x) { return tma::map_of(x, pitch * size / word, rows, word); };
  };
  memset(shared, 0xff, sizeof(shared));
  const Index grid{unsigned(plan.blocks), 1, 1};
  const Beside beside = p.beside.nearest(P::reach);
  const auto image = [&](const auto& map) {
    if constexpr (kBeside) return ShardVolume::of_rows(p.in, beside, map);
    else return map(p.in);
  };
  if (!marches) {
    on_host::launch(fused_tile<P, T, T, kAligned, kBeside>, grid, plan.threads, image(map_of(config.shape.box_h())),
                    args, taps);
  } else if constexpr (kMarches<P>) {
    on_host::launch(fused_march<P, T, T, kAligned, kBeside>, grid, plan.threads, map_of(config.march.rows)(p.in),
                    image(map_of(1)), args, taps);
  }
  return "";
}

template <class P, typename T>
std::string run(const Fused& p, const char* pinned) {
  const Plan plan = fused::plan(p, kMachine, pinned);
  if (!plan.variant) return plan.why;
  const std::string& name = plan.kernels[0].name;
  const std::string type = sizeof(T) == 4 ? "float" : "half_t";
  const auto is = [&](const char* flags) {
    return name.ends_with("<" + text_of(P{}) + ", " + type + ", " + type + ", " + flags + ">");
  };
  if (is("true")) return launch<P, T, true, false>(p, plan);
  if (is("false")) return launch<P, T, false, false>(p, plan);
  if (is("true, true")) return launch<P, T, true, true>(p, plan);
  if (is("false, true")) return launch<P, T, false, true>(p, plan);
  return "no kernel " + name;
}

// Stages of a pipeline with taps of their own, or those that it knows.
template <class S>
Stage stage_of(std::vector<std::vector<float>>& memory, std::mt19937& make) {
  Stage s{.windows = S::windows, .kh = S::K, .kw = S::K, .point = S::kind};
  const auto window = [&](int at) {
    std::vector<float>& taps = memory.emplace_back(S::K);
    for (int j = 0; j < S::K; ++j) {
      if constexpr (S::known) taps[j] = S::Known::tap(at + j);
      else taps[j] = float(make() % 1000) / 3000 - 0.1f;
    }
    return Taps{taps.data(), true, 0, 0, 0};
  };
  for (int i = 0; i < S::windows; ++i) {
    const bool first = i == 0 || !S::shared_taps;
    s.taps_x[i] = first ? window(S::of_window(i)) : s.taps_x[0];
    s.taps_y[i] = first ? window(S::of_window(i) + S::K) : s.taps_y[0];
  }
  return s;
}
template <>
Stage stage_of<Thin>(std::vector<std::vector<float>>&, std::mt19937&) {
  return {.windows = 0, .point = Point::thin};
}

template <typename T>
double difference(const Memory<T>& a, const Memory<T>& b) {
  for (size_t i = 0; i < a.elements.size(); ++i)
    if (memcmp(&a.elements[i], &b.elements[i], sizeof(T))) return double(i);
  return -1;
}

template <typename T, class... Stages>
bool check(Pipeline<Stages...>, const Case& k, const char* pinned) {
  using P = Pipeline<Stages...>;
  std::mt19937 make(1);
  int64_t h = 0;
  for (int64_t rows : k.rows) h += rows;
  Memory<T> from(1, h, k.w, k.shift), whole(P::outputs, h, k.w, k.shift), cut(P::outputs, h, k.w, k.shift);
  for (T& x : from.elements) x = from_acc<T>(float(make() % 10000) / 300 - 10);
  std::vector<std::vector<float>> taps;
  taps.reserve(32);
  Fused p{.in = from.image,
          .out = whole.image,
          .stride_output = P::outputs > 1 ? kN * whole.image.stride_n : 0,
          .count = sizeof...(Stages),
          .stages = {stage_of<Stages>(taps, make)...},
          .border = k.border,
          .value = k.value,
          .valid = false,
          .stride = 1,
          .wanted = true};
  std::string wrong = run<P, T>(p, pinned);
  int64_t first = 0;
  for (size_t i = 0; i < k.rows.size() && wrong.empty(); ++i) {
    const int64_t rows = k.rows[i], last = first + rows;
    p.in = from.part(first, rows), p.out = cut.part(first, rows), p.beside = {};
    const int64_t before = k.rows[i ? i - 1 : k.rows.size() - 1], after = k.rows[i + 1 < k.rows.size() ? i + 1 : 0];
    const bool circular = k.border == Border::circular;
    if (i > 0 || circular) p.beside.above = from.part(i ? first - before : h - before, before);
    if (last < h || circular) p.beside.below = from.part(last < h ? last : 0, after);
    wrong = run<P, T>(p, pinned);
    first = last;
  }
  if (wrong.empty())
    if (const double at = difference(whole, cut); at >= 0) wrong = "element " + std::to_string(int64_t(at)) + " differs";
  return on_host::report(wrong, "%s %s %lldx%lld %s %g, %zu shards", text_of(P{}).c_str(), pinned, (long long)h,
                         (long long)k.w, name_of(k.border), k.value, k.rows.size());
}

template <class P, typename T>
bool check_tiles(const Case& k) {
  const bool circular = P::thins && k.border == Border::circular;  // such shards are not served
  return circular || check<T>(P{}, k, "tile");
}

bool check_march(const Case& k) {
  using P = Pipeline<Windows<9, 2, Point::sum>>;
  const bool pixels = k.border != Border::skip && k.border != Border::zero_output;
  return k.shift || !pixels || (check<float>(P{}, k, "march") && check<half_t>(P{}, k, "march"));
}

}  // namespace

int main() {
  using Gradient = Pipeline<Windows<3, 2, Point::each>>;
  using GaussianSobel = Pipeline<Windows<5, 1, Point::each>, Windows<3, 2, Point::l2, Sobel>>;
  using Tensor = Pipeline<Windows<3, 2, Point::products>, Windows<5, 3, Point::each, NotKnown, true>>;
  using Edges = Pipeline<Windows<3, 1, Point::each>, Windows<3, 2, Point::polar, Sobel>, Thin>;
  return on_host::status_of(kCases, check_tiles<Gradient, float>) |
         on_host::status_of(kCases, check_tiles<GaussianSobel, float>) |
         on_host::status_of(kCases, check_tiles<Tensor, float>) |
         on_host::status_of(kCases, check_tiles<Edges, float>) | on_host::status_of(kCases, check_march);
}
