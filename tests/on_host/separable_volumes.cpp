// separable3d's STREAMING as its plan launches it, on the host: the bits of the chains along x, y and z, and nothing
// written beside the output. Also of shards that read the planes of others where they lie.
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <type_traits>

#include "cuda.h"
#include "report.h"
using std::fma;
using std::fmaf;
#undef __shared__
#define __shared__
#include "kernels/separable3d/streaming/kernel.cuh"
#include "kernels/separable3d/plan.h"

namespace torch_conv::separable3d {
alignas(128) unsigned char shared[1 << 18];
}

using namespace torch_conv;
using namespace torch_conv::separable3d;

namespace {

template <typename Maps>
using Kernels = std::map<std::string, void (*)(StreamingParams, Maps)>;
#define KERNEL(...) \
  { "separable3d::separable3d_streaming<" #__VA_ARGS__ ">", separable3d_streaming<__VA_ARGS__> }
const Kernels<TensorMap> kKernels = {
    KERNEL(float, 3, false, false),  KERNEL(float, 5, false, false), KERNEL(float, 7, false, false),
    KERNEL(float, 9, false, false),  KERNEL(float, 11, true, false), KERNEL(float, 15, true, false),
    KERNEL(float, 15, false, false), KERNEL(float, 3, false, true),  KERNEL(float, 7, false, true),
    KERNEL(float, 15, true, true),
};
const Kernels<ShardMaps> kOfShards = {
    KERNEL(float, 3, false, true, true),  KERNEL(float, 7, false, true, true),  KERNEL(float, 15, true, true, true),
    KERNEL(float, 3, false, false, true), KERNEL(float, 7, false, false, true), KERNEL(float, 15, true, false, true),
};

struct Case {
  int64_t d, h, w, k;
  Border border = Border::reflect;
  double value = 0;
  int64_t fewer = 0;  // outputs that are not there, along each axis
  int64_t pad = -1;   // in place of k / 2
  int64_t pitch = 0;  // in place of w
  bool own_windows = false, bulk = false;
  int64_t above = 0, below = 0;  // planes of the neighbour shards
};

const Case kCases[] = {
    {6, 20, 37, 3},
    {6, 20, 37, 3, Border::constant},
    {5, 70, 131, 5, Border::circular},
    {9, 41, 67, 7},
    {9, 41, 67, 7, Border::zero_output},
    {9, 72, 70, 7, Border::constant, 2.5},
    {7, 13, 197, 9, Border::symmetric},
    {5, 3, 2, 9, Border::circular},
    {16, 67, 33, 15, Border::circular},
    {7, 33, 45, 15, Border::circular},
    {9, 21, 45, 15, Border::replicate, 0, 0, -1, 47, true},
    {13, 20, 37, 11, Border::constant, 1},
    {1, 1, 1, 7},
    {10, 30, 75, 7, Border::constant, 0, 6, 0},
    {10, 30, 75, 5, Border::reflect, 0, 0, 4},
    {6, 20, 41, 3, Border::reflect, 0, 0, 0, 300, true},
    {6, 20, 36, 3, Border::reflect, 0, 0, -1, 0, false, true},
    {9, 41, 68, 7, Border::constant, 0, 0, -1, 0, false, true},
    {9, 41, 68, 15, Border::circular, 0, 0, 3, 0, false, true},
    // Shards: in the middle, at either end, with one plane, as thin as half a window, with outputs that are not there.
    {9, 41, 68, 7, Border::reflect, 0, 0, -1, 0, false, true, 5, 4},
    {9, 41, 68, 7, Border::symmetric, 0, 0, -1, 0, false, true, 0, 3},
    {9, 41, 68, 7, Border::replicate, 0, 0, -1, 0, false, true, 3, 0},
    {9, 41, 68, 7, Border::constant, 2.5, 0, -1, 0, false, true, 0, 3},
    {9, 41, 68, 7, Border::constant, 0, 0, -1, 0, false, true, 3, 0},
    {9, 41, 68, 7, Border::zero_output, 0, 0, -1, 0, false, true, 4, 0},
    {9, 41, 68, 7, Border::zero_output, 0, 0, -1, 0, false, true, 4, 4},
    {9, 41, 68, 7, Border::circular, 0, 0, -1, 0, false, true, 3, 3},
    {1, 20, 36, 3, Border::reflect, 0, 0, -1, 0, false, true, 1, 1},
    {2, 20, 36, 3, Border::circular, 0, 0, 2, 0, false, true, 2, 1},
    {40, 20, 36, 3, Border::reflect, 0, 0, 0, 0, true, true, 0, 2},
    {8, 21, 44, 15, Border::reflect, 0, 0, -1, 0, false, true, 7, 9},
    {8, 21, 44, 15, Border::constant, 1, 0, 14, 0, false, true, 14, 0},
    {10, 30, 76, 7, Border::constant, 0, 2, 3, 0, false, true, 3, 4},
    {9, 41, 67, 7, Border::reflect, 0, 0, -1, 0, false, false, 5, 4},
    {9, 41, 67, 7, Border::circular, 0, 0, -1, 71, false, false, 3, 3},
    {9, 41, 67, 7, Border::constant, 2.5, 0, -1, 0, false, false, 3, 0},
    {9, 41, 67, 7, Border::zero_output, 0, 0, -1, 0, false, false, 0, 3},
    {1, 20, 37, 3, Border::symmetric, 0, 0, -1, 0, false, false, 1, 1},
    {8, 21, 45, 15, Border::replicate, 0, 0, -1, 0, false, false, 7, 0},
};

constexpr int64_t kC = 2, kSpare = 64;

struct Memory {
  std::vector<float> words;
  Image image;
  // `off` elements behind 32 bytes; `gap` rows between planes.
  Memory(int64_t d, int64_t h, int64_t w, int64_t pitch, int64_t off, int64_t gap = 0)
      : words(kC * d * (h + gap) * pitch + 2 * kSpare, -7) {
    float* const start = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(words.data() + 8) + 31) / 32 * 32) + off;
    const int64_t plane = (h + gap) * pitch;
    image = {start, Dtype::f32, 1, kC, d, h, w, kC * d * plane, d * plane, plane, pitch, 1};
  }
  float& at(int64_t c, int64_t z, int64_t y, int64_t x) {
    return static_cast<float*>(image.data)[c * image.stride_c + z * image.stride_d + y * image.stride_h + x];
  }
};

bool check(const Case& k) {
  std::mt19937 make(1);
  const int64_t off = k.bulk ? 0 : 3, pad = k.pad < 0 ? k.k / 2 : k.pad;
  const int64_t pitch = k.pitch ? k.pitch : k.w;
  Memory from(k.d, k.h, k.w, pitch, off);
  Memory above(k.above, k.h, k.w, pitch, off, 2), below(k.below, k.h, k.w, pitch, off + (k.bulk ? 0 : 1), 1);
  Memory to(k.d - k.fewer, k.h - k.fewer, k.w - k.fewer, k.w + 1, 1);
  for (Memory* memory : {&from, &above, &below}) {
    for (float& x : memory->words) x = NAN;
    for (int64_t c = 0; c < kC; ++c)
      for (int64_t z = 0; z < memory->image.d; ++z)
        for (int64_t y = 0; y < k.h; ++y)
          for (int64_t x = 0; x < k.w; ++x) memory->at(c, z, y, x) = float(make() % 10000) / 300 - 10;
  }
  // Plane z of the shard, or of its neighbours.
  const auto pixel = [&](int64_t c, int64_t z, int64_t y, int64_t x) {
    return z < 0 ? above.at(c, z + k.above, y, x) : z < k.d ? from.at(c, z, y, x) : below.at(c, z - k.d, y, x);
  };
  const int64_t planes = k.above + k.d + k.below;
  const std::vector<float> blank = to.words;
  std::vector<float> windows[3];
  Taps taps[3];
  for (int i = 0; i < 3; ++i) {
    windows[i].resize(k.k * (k.own_windows ? kC : 1));
    for (float& tap : windows[i]) tap = float(make() % 1000) / 3000 - 0.1f;
    taps[i] = {windows[i].data(), !k.own_windows, 0, k.own_windows ? k.k : 0, 0};
  }
  const Separable p{.in = from.image,
                    .out = to.image,
                    .taps_x = taps[0],
                    .taps_y = taps[1],
                    .taps_z = taps[2],
                    .kd = k.k,
                    .kh = k.k,
                    .kw = k.k,
                    .place = {.pad_z = pad, .pad_y = pad, .pad_x = pad, .border = k.border, .value = k.value},
                    .peers = {k.above ? above.image : Image{}, k.below ? below.image : Image{}}};
  const Arch arch{.major = 9, .minor = 0, .multiprocessors = 3, .shared_bytes = 232448, .bulk_copy = true};
  const Plan planned = plan_cuda(p, arch, k.bulk ? "streaming" : "streaming_unaligned");
  std::string wrong = planned.variant ? "" : planned.why;
  const auto launch = [&](const auto& kernels, const auto& maps) {
    const auto kernel = kernels.find(planned.kernels[0].name);
    if (kernel == kernels.end()) {
      wrong = "no kernel " + planned.kernels[0].name;
    } else if (planned.shared_bytes > int(sizeof(shared))) {
      wrong = "too little shared memory here";
    } else {
      memset(shared, 0xff, sizeof(shared));
      on_host::launch(kernel->second, {unsigned(planned.blocks), 1, 1}, planned.threads,
                      streaming_params(p, planned, own_config<StreamingConfig>(planned)), maps);
    }
  };
  if (wrong.empty()) {
    const StreamingConfig& config = own_config<StreamingConfig>(planned);
    const auto map_of = [&](const Image& x) { return tma::map_of(x, config.shape.pitch(), config.shape.box_h()); };
    if (p.peers.any()) launch(kOfShards, ShardMaps::of(p.in, p.peers, map_of));
    else launch(kKernels, map_of(p.in));
  }
  for (int64_t c = 0; c < kC && wrong.empty(); ++c) {
    const auto tap = [&](int axis, int64_t i) { return windows[axis][(k.own_windows ? c * k.k : 0) + i]; };
    // Sums along x of the extended volume, then along y, each with the rows and planes that the next axis needs.
    const int64_t d = p.out.d + k.k - 1, h = p.out.h + k.k - 1, w = p.out.w;
    std::vector<float> across(d * h * w), down(d * p.out.h * w);
    for (int64_t z = 0; z < d; ++z)
      for (int64_t y = 0; y < h; ++y)
        for (int64_t x = 0; x < w; ++x) {
          const int64_t mz = map_index(z - pad + k.above, planes, k.border), my = map_index(y - pad, k.h, k.border);
          float sum = 0;
          for (int64_t j = 0; j < k.k; ++j) {
            const int64_t mx = map_index(x + j - pad, k.w, k.border);
            sum =
                std::fma(tap(0, j), mz < 0 || my < 0 || mx < 0 ? float(k.value) : pixel(c, mz - k.above, my, mx), sum);
          }
          across[(z * h + y) * w + x] = sum;
        }
    for (int64_t z = 0; z < d; ++z)
      for (int64_t y = 0; y < p.out.h; ++y)
        for (int64_t x = 0; x < w; ++x) {
          float sum = 0;
          for (int64_t i = 0; i < k.k; ++i) sum = std::fma(tap(1, i), across[(z * h + y + i) * w + x], sum);
          down[(z * p.out.h + y) * w + x] = sum;
        }
    const auto fits = [&](int64_t at, int64_t size) { return at >= pad && at - pad + k.k <= size; };
    for (int64_t z = 0; z < p.out.d; ++z)
      for (int64_t y = 0; y < p.out.h; ++y)
        for (int64_t x = 0; x < w && wrong.empty(); ++x) {
          float want = 0;
          for (int64_t l = 0; l < k.k; ++l) want = std::fma(tap(2, l), down[((z + l) * p.out.h + y) * w + x], want);
          if (k.border == Border::zero_output && !(fits(z + k.above, planes) && fits(y, k.h) && fits(x, k.w))) want = 0;
          float& got = to.at(c, z, y, x);
          if (got != want) wrong = on_host::difference({c, z, y, x}, got, want);
          got = -7;
        }
  }
  // All other bytes are as before.
  if (wrong.empty() && memcmp(to.words.data(), blank.data(), blank.size() * 4) != 0)
    wrong = "something beside the output was written";
  return on_host::report(wrong, "%s %lldx%lldx%lld %s, beside %lld and %lld planes",
                         planned.kernels.empty() ? "" : planned.kernels[0].name.c_str(), (long long)k.d, (long long)k.h,
                         (long long)k.w, name_of(k.border), (long long)k.above, (long long)k.below);
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
