// The kernels of fused chains as their plans launch them, on the host: shards of an image, which read the rows of the
// neighbour shards, have the bits of the image that is whole. Each lies in memory of its own, under its own strides.
#include <random>
#include <string>

#include "cuda.h"
#include "report.h"
using std::fma;
using std::fmaf;
#undef __shared__
#define __shared__
namespace torch_conv {
// Host versions of functions that core/point.h writes in PTX.
template <int N>
void square_roots(float (&v)[N]) {
  for (float& x : v) x = std::sqrt(x);
}
}  // namespace torch_conv
#include "kernels/fused/streaming/kernel.cuh"
// The kernel's includes come first. Below them, its only uint64_t is a barrier in shared memory, static on the host.
#include "core/cuda/extend.cuh"
#include "kernels/fused/tile/edge.cuh"
#define uint64_t static uint64_t
#include "kernels/fused/tile/kernel.cuh"
#undef uint64_t
#include "kernels/fused/plan.h"

namespace torch_conv::fused {
alignas(128) unsigned char shared[1 << 17];
}

using namespace torch_conv;
using namespace torch_conv::fused;

namespace {

constexpr int64_t kC = 2;

struct Case {
  int64_t w;
  std::vector<int64_t> rows;  // of every shard
  Border border = Border::reflect;
  double value = 0;
  int shift = 0;  // elements that rows start behind 16 bytes
  int64_t n = 1;
};

const Case kCases[] = {
    {136, {20, 30, 9}, Border::reflect, 0, 0, 2},
    {168, {11, 9}, Border::circular},
    {70, {9, 12, 40}, Border::symmetric},
    {34, {40, 9, 11}, Border::replicate},
    {136, {25, 25}, Border::constant},
    {130, {9, 9, 9, 9}, Border::constant, 3},
    {136, {30, 20}, Border::skip},
    {100, {12, 33, 10}, Border::zero_output},
    {133, {17, 30}, Border::reflect, 0, 1, 2},
    {40, {9, 31}, Border::circular, 0, 3},
};

template <typename T>
constexpr Dtype kDtype = std::is_same_v<T, float>      ? Dtype::f32
                         : std::is_same_v<T, half_t>   ? Dtype::f16
                         : std::is_same_v<T, int16_t>  ? Dtype::i16
                         : std::is_same_v<T, uint16_t> ? Dtype::u16
                                                       : Dtype::u8;

// Images whose rows, planes and samples lie apart, `more` pieces of 16 bytes further than they must; NaN between them,
// or the largest byte.
template <typename T>
struct Memory {
  std::vector<T> elements;
  Image image;
  Memory(const Case& k, int64_t images, int64_t h, int64_t more = 0) {
    const int64_t piece = 16 / int64_t(sizeof(T));
    const int64_t pitch = round_up(k.w + 1, piece) + more * piece + k.shift;
    const int64_t plane = h * pitch + more * piece, sample = kC * plane + 3 * more * piece;
    T between;
    memset(&between, 0xff, sizeof(T));
    elements.assign(images * k.n * sample + 64, between);
    T* const start = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(elements.data()) + 15) / 16 * 16) + k.shift;
    image = {start, kDtype<T>, k.n, kC, 1, h, k.w, sample, plane, 0, pitch, 1};
  }
  // Pixel x of row y, of the o-th of several images.
  T& at(int64_t o, int64_t n, int64_t c, int64_t y, int64_t x) const {
    const int64_t plane = (o * image.n + n) * image.stride_n + c * image.stride_c;
    return static_cast<T*>(image.data)[plane + y * image.stride_h + x];
  }
};

constexpr Arch kMachine{.major = 9, .minor = 0, .multiprocessors = 2, .shared_bytes = 232448, .bulk_copy = true};

template <class P, typename T, bool kAligned, bool kPeers>
std::string launch(const Fused& p, const Plan& plan) {
  const auto& config = own_config<ChainConfig>(plan);
  const auto& [tile, streaming] = std::tie(config.chain.shape, config.chain.streaming);
  const Args args = args_of(p, plan, config);
  PackedTaps packed{};
  config.chain.pack(p, packed);
  TapsOf<P> taps;
  std::copy_n(packed.v, P::taps, taps.v);
  constexpr int size = sizeof(T), word = size * tma::pack_of(size);
  const bool streams = config.boxes > 0;
  const int pitch = streams ? streaming.pitch(size) : tile.pitch();
  const auto map_of = [&](int rows) {
    return [=](const Image& x) { return tma::map_of(x, pitch * size / word, rows, word); };
  };
  memset(shared, 0xff, sizeof(shared));
  const Index grid{unsigned(plan.blocks), 1, 1};
  const Peers peers = p.peers.nearest(streams ? streaming.radius : tile.halo);
  const auto image = [&](const auto& map) {
    if constexpr (kPeers) return ShardMaps::of_rows(p.in, peers, map);
    else return map(p.in);
  };
  if (!streams) {
    on_host::launch(fused_tile<P, T, T, kAligned, kPeers>, grid, plan.threads, image(map_of(tile.box_h())), args, taps);
  } else if constexpr (kFitsStreaming<P>) {
    on_host::launch(fused_streaming<P, T, T, kAligned, kPeers>, grid, plan.threads, map_of(streaming.rows)(p.in),
                    image(map_of(1)), args, taps);
  }
  return "";
}

template <class P, typename T>
std::string run(const Fused& p, const char* pinned) {
  const Plan plan = fused::plan_cuda(p, kMachine, pinned);
  if (!plan.variant) return plan.why;
  const std::string& name = plan.kernels[0].name;
  const std::string type = type_name(kDtype<T>);
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
    s.taps_x[i] = first ? window(S::first_tap(i)) : s.taps_x[0];
    s.taps_y[i] = first ? window(S::first_tap(i) + S::K) : s.taps_y[0];
  }
  return s;
}
template <>
Stage stage_of<Thin>(std::vector<std::vector<float>>&, std::mt19937&) {
  return {.windows = 0, .point = Point::thin};
}

// The first fault of a shard's outputs or of the elements between them. These elements get their old value again.
template <typename T>
std::string difference(const Memory<T>& whole, int64_t first, Memory<T>& part, int outputs) {
  const T between = part.elements.back();
  const auto same = [](const T& a, const T& b) { return memcmp(&a, &b, sizeof(T)) == 0; };
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t n = 0; n < part.image.n; ++n)
      for (int64_t c = 0; c < kC; ++c)
        for (int64_t y = 0; y < part.image.h; ++y)
          for (int64_t x = 0; x < part.image.w; ++x) {
            T& got = part.at(o, n, c, y, x);
            if (!same(got, whole.at(o, n, c, first + y, x)))
              return "output " + std::to_string(o) + " at (" + std::to_string(n) + ", " + std::to_string(c) + ", " +
                     std::to_string(first + y) + ", " + std::to_string(x) + ") differs";
            got = between;
          }
  for (const T& x : part.elements)
    if (!same(x, between)) return "something beside the output was written";
  return "";
}

// The problem of a pipeline on whole images.
template <class... Stages>
Fused problem_of(const Case& k, const Image& in, const Image& out, std::vector<std::vector<float>>& taps,
                 std::mt19937& make) {
  taps.reserve(32);
  return {.in = in,
          .out = out,
          .stride_output = Pipeline<Stages...>::outputs > 1 ? k.n * out.stride_n : 0,
          .count = sizeof...(Stages),
          .stages = {stage_of<Stages>(taps, make)...},
          .border = k.border,
          .value = k.value,
          .valid = false,
          .stride = 1,
          .wanted = true};
}

template <typename T, class... Stages>
bool check(Pipeline<Stages...>, const Case& k, const char* pinned) {
  using P = Pipeline<Stages...>;
  std::mt19937 make(1);
  int64_t h = 0;
  for (int64_t rows : k.rows) h += rows;
  Memory<T> from(k, 1, h), whole(k, P::outputs, h);
  std::vector<Memory<T>> shards;
  for (int64_t first = 0, i = 0; i < int64_t(k.rows.size()); first += k.rows[i++]) {
    shards.emplace_back(k, 1, k.rows[i], i + 1);
    for (int64_t n = 0; n < k.n; ++n)
      for (int64_t c = 0; c < kC; ++c)
        for (int64_t y = 0; y < k.rows[i]; ++y)
          for (int64_t x = 0; x < k.w; ++x) {
            const float pixel = sizeof(T) == 1        ? float(make() % 256)
                                : std::is_integral_v<T> ? float(make() % 60000) - (std::is_signed_v<T> ? 30000 : 0)
                                                        : float(make() % 10000) / 300 - 10;
            from.at(0, n, c, first + y, x) = shards[i].at(0, n, c, y, x) = from_acc<T>(pixel);
          }
  }
  std::vector<std::vector<float>> taps;
  Fused p = problem_of<Stages...>(k, from.image, whole.image, taps, make);
  std::string wrong = run<P, T>(p, pinned);
  const size_t count = shards.size();
  const bool circular = k.border == Border::circular;
  for (size_t i = 0, first = 0; i < count && wrong.empty(); first += k.rows[i++]) {
    Memory<T> part(k, P::outputs, k.rows[i], 3 - int64_t(i));
    p.in = shards[i].image, p.out = part.image, p.peers = {};
    if (P::outputs > 1) p.stride_output = k.n * part.image.stride_n;
    if (i > 0 || circular) p.peers.above = shards[(i + count - 1) % count].image;
    if (i + 1 < count || circular) p.peers.below = shards[(i + 1) % count].image;
    wrong = run<P, T>(p, pinned);
    if (wrong.empty()) wrong = difference(whole, first, part, P::outputs);
  }
  return on_host::report(wrong, "%s %s %s %lldx%lld %s %g, %zu shards", text_of(P{}).c_str(), name_of(kDtype<T>),
                         pinned, (long long)h, (long long)k.w, name_of(k.border), k.value, k.rows.size());
}

// Integers: the results are those of the same numbers in float32, rounded.
template <typename T, class... Stages>
bool check_rounded(Pipeline<Stages...>, const Case& k, const char* pinned) {
  using P = Pipeline<Stages...>;
  std::mt19937 make(1);
  const int64_t h = k.rows[0];
  Memory<T> from(k, 1, h), to(k, P::outputs, h);
  Memory<float> wide_from(k, 1, h), wide_to(k, P::outputs, h);
  for (int64_t n = 0; n < k.n; ++n)
    for (int64_t c = 0; c < kC; ++c)
      for (int64_t y = 0; y < h; ++y)
        for (int64_t x = 0; x < k.w; ++x)
          wide_from.at(0, n, c, y, x) = from.at(0, n, c, y, x) = T(make() % (sizeof(T) == 1 ? 256 : 30000));
  std::vector<std::vector<float>> taps;
  const Fused p = problem_of<Stages...>(k, from.image, to.image, taps, make);
  Fused wide = p;
  wide.in = wide_from.image, wide.out = wide_to.image;
  if (P::outputs > 1) wide.stride_output = k.n * wide_to.image.stride_n;
  std::string wrong = run<P, T>(p, pinned) + run<P, float>(wide, "tile");
  for (int64_t o = 0; o < P::outputs && wrong.empty(); ++o)
    for (int64_t n = 0; n < k.n; ++n)
      for (int64_t c = 0; c < kC; ++c)
        for (int64_t y = 0; y < h; ++y)
          for (int64_t x = 0; x < k.w; ++x)
            if (to.at(o, n, c, y, x) != from_acc<T>(wide_to.at(o, n, c, y, x)))
              wrong = "output " + std::to_string(o) + " at (" + std::to_string(y) + ", " + std::to_string(x) + ")";
  return on_host::report(wrong, "%s of %s and of float, %s %lldx%lld %s %g", text_of(P{}).c_str(), type_name(kDtype<T>),
                         pinned, (long long)h, (long long)k.w, name_of(k.border), k.value);
}

template <class P, typename T>
bool check_integers(const Case& k) {
  const bool bulk = k.shift == 0 && k.w % tma::pack_of(sizeof(T)) == 0;
  return (!bulk || check_rounded<T>(P{}, k, "tile_tma")) && check_rounded<T>(P{}, k, "tile");
}

// With boxes by bulk copies where rows allow it.
template <class P, typename T>
bool check_tile(const Case& k) {
  if (P::thins && k.border == Border::circular) return true;  // such shards are not served
  const bool bulk = k.shift == 0 && k.w % tma::pack_of(sizeof(T)) == 0;
  return check<T>(P{}, k, bulk ? "tile_tma" : "tile");
}

// Also with plain loads of rows that allow more.
template <class P, typename T>
bool check_tiles(const Case& k) {
  return check_tile<P, T>(k) && (k.shift > 0 || check<T>(P{}, k, "tile"));
}

bool check_streaming(const Case& k) {
  using P = Pipeline<Windows<9, 2, Point::sum>>;
  const bool pixels = k.border != Border::skip && k.border != Border::zero_output;
  return k.shift || !pixels || (check<float>(P{}, k, "streaming") && check<half_t>(P{}, k, "streaming"));
}

}  // namespace

int main() {
  using Gradient = Pipeline<Windows<3, 2, Point::each>>;
  using GaussianSobel = Pipeline<Windows<5, 1, Point::each>, Windows<3, 2, Point::l2, Sobel>>;
  using Tensor = Pipeline<Windows<3, 2, Point::products>, Windows<5, 3, Point::each, NotKnown, true>>;
  using Edges = Pipeline<Windows<3, 1, Point::each>, Windows<3, 2, Point::polar, Sobel>, Thin>;
  const auto all = [](const auto&... check) { return (on_host::status_of(kCases, check) | ...); };
  return all(check_tile<Gradient, float>, check_tiles<GaussianSobel, float>, check_tile<Tensor, float>,
             check_tile<Edges, float>, check_tile<GaussianSobel, half_t>, check_tile<Gradient, uint8_t>,
             check_tiles<GaussianSobel, uint16_t>, check_tile<Gradient, int16_t>, check_tile<Tensor, int16_t>,
             check_tile<Edges, uint16_t>, check_integers<GaussianSobel, uint16_t>, check_integers<Gradient, int16_t>,
             check_integers<Tensor, uint16_t>, check_integers<Edges, int16_t>, check_integers<Gradient, uint8_t>,
             check_streaming);
}
