// The ladder's rungs over signals and volumes, on the host: the bits of one chain of fused multiply-adds an output, and
// nothing read or written beside a signal or a volume.
#include <random>
#include <string>
#include <utility>

#include "cuda.h"
#include "guarded.h"
#include "report.h"
using std::fmaf;
#undef __shared__
#define __shared__
#include "core/problem.h"
#define __CUDACC__  // what is a kernel's in it
#include "kernels/ladder/params.h"
#undef __CUDACC__

namespace torch_conv::ladder {
float tile[1 << 14];  // the block's shared memory
}

#include "kernels/ladder/constant.cuh"
#include "kernels/ladder/l2_halo.cuh"
#include "kernels/ladder/naive.cuh"
#include "kernels/ladder/separable3d.cuh"
#include "kernels/ladder/tiled.cuh"

using namespace torch_conv;
using namespace torch_conv::ladder;

namespace {

unsigned blocks_along(int n, unsigned block) { return (unsigned(n) + block - 1) / block; }

template <typename Kernel, typename... Args>
void launch_block(Kernel kernel, Index grid, Index threads, const Args&... args) {
  const auto spoil = [] { std::fill(std::begin(tile), std::end(tile), NAN); };  // what is read too early spreads
  on_host::launch_prepared(spoil, kernel, grid, threads, args...);
}

// Numbers followed by a page without access.
float* numbers(int64_t count) {
  const std::span<char> memory = on_host::guarded_memory(count * 4, -7.0f);
  return reinterpret_cast<float*>(memory.data() + memory.size()) - count;
}

float* noise(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  float* const drawn = numbers(count);
  for (int64_t i = 0; i < count; ++i) drawn[i] = std::uniform_real_distribution<float>(-1, 1)(random);
  return drawn;
}

struct Case {
  int volumes, d, h, w, kd, kh, kw;
  Index block;
  bool signals = false;  // rows of w numbers
};

const Case kCases[] = {
    {1, 1, 1, 7, 1, 1, 5, {4, 1, 1}, true},   {3, 1, 1, 33, 1, 1, 7, {8, 1, 1}, true},
    {2, 1, 1, 5, 1, 1, 31, {16, 1, 1}, true}, {1, 1, 1, 40, 1, 1, 1, {32, 1, 1}, true},
    {1, 5, 9, 17, 3, 3, 3, {8, 4, 2}},        {2, 3, 4, 10, 3, 5, 1, {4, 2, 4}},
    {1, 2, 3, 3, 5, 7, 9, {4, 4, 1}},         {2, 6, 5, 9, 1, 1, 5, {3, 2, 5}},
};

// The chain of one output.
float chain(const Case& k, const float* in, const float* tap, int z, int y, int x) {
  float sum = 0;
  for (int l = z - k.kd / 2; l < z - k.kd / 2 + k.kd; ++l)
    for (int i = y - k.kh / 2; i < y - k.kh / 2 + k.kh; ++i)
      for (int j = x - k.kw / 2; j < x - k.kw / 2 + k.kw; ++j) {
        const bool inside = l >= 0 && l < k.d && i >= 0 && i < k.h && j >= 0 && j < k.w;
        sum = fmaf(*tap++, inside ? in[(int64_t(l) * k.h + i) * k.w + j] : 0.0f, sum);
      }
  return sum;
}

std::string difference(const Case& k, const float* in, const float* taps, const float* out) {
  for (int n = 0; n < k.volumes; ++n, in += int64_t(k.d) * k.h * k.w)
    for (int z = 0; z < k.d; ++z)
      for (int y = 0; y < k.h; ++y)
        for (int x = 0; x < k.w; ++x) {
          const float expected = chain(k, in, taps, z, y, x), got = *out++;
          if (std::memcmp(&expected, &got, 4) != 0) return on_host::difference({n, z, y, x}, got, expected);
        }
  return "";
}

bool check(const Case& k) {
  const int taps = k.kd * k.kh * k.kw, layers = int(blocks_along(k.d, k.block.z));
  const int64_t count = int64_t(k.volumes) * k.d * k.h * k.w;
  const float *in = noise(count, 1), *window = noise(taps, 2);
  const auto constant = ConstantWindow<kMaxTaps>::from(window, taps);
  const Index grid{blocks_along(k.w, k.block.x), blocks_along(k.h, k.block.y), unsigned(k.volumes * layers)};
  bool right = true;

  const auto judge = [&](const char* rung, const auto& run) {
    float* const out = numbers(count);
    run(out);
    const std::string wrong = difference(k, in, window, out);
    right = on_host::report(wrong, "%s %dx%dx%dx%d, window %dx%dx%d, block %ux%ux%u", rung, k.volumes, k.d, k.h, k.w,
                            k.kd, k.kh, k.kw, k.block.x, k.block.y, k.block.z) &&
            right;
  };
  if (k.signals) {
    using Rung = void (*)(Rows, int, ConstantWindow<kMaxTaps>);
    for (const auto& [name, rung] : {std::pair<const char*, Rung>{"naive1d", ladder1d_naive},
                                     {"constant1d", ladder1d_constant},
                                     {"tiled1d", ladder1d_tiled},
                                     {"l2_halo1d", ladder1d_l2_halo}})
      judge(name, [&, rung = rung](float* out) {
        const Index rows{grid.x, unsigned(k.volumes), 1};
        launch_block(rung, rows, k.block, Rows{.in = in, .out = out, .w = k.w}, k.kw, constant);
      });
  }
  const auto volumes = [&](float* out) { return Volumes{in, out, k.d, k.h, k.w, layers}; };
  using Rung = void (*)(Volumes, int, int, int, ConstantWindow<kMaxTaps>);
  for (const auto& [name, rung] : {std::pair<const char*, Rung>{"naive3d", ladder3d_naive<kMaxTaps>},
                                   {"constant3d", ladder3d_constant<kMaxTaps>},
                                   {"tiled3d", ladder3d_tiled<kMaxTaps>},
                                   {"l2_halo3d", ladder3d_l2_halo<kMaxTaps>}})
    judge(name, [&, rung = rung](float* out) {
      launch_block(rung, grid, k.block, volumes(out), k.kd, k.kh, k.kw, constant);
    });
  if (k.kd == 1 && k.kh == 1)
    judge("separable3d, x",
          [&](float* out) { launch_block(ladder3d_pass<'x', kMaxTaps>, grid, k.block, volumes(out), k.kw, constant); });
  return right;
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
