#include "ops/fft_tiles.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/problem.h"

namespace torch_conv {

namespace {

// What a transform of n pixels, forward and back with the product between, takes: n * (per_level * log2(n) +
// per_pixel); and a direct sum.
struct Costs {
  double per_level, per_pixel;  // seconds
  double batch;                 // seconds, of a batch's launches or calls
  double direct;                // flops a second
  double passes, bytes;         // of separable filters: flops and bytes a second
  int64_t cached;               // pixels of a tile beyond which it no longer stays in a cache
  int64_t together;             // pixels that a batch may hold for that
  double window = 0;            // a window's own transform, forward only, in those of a tile
  double side = 0;              // seconds, more for a tile's height and width (side_seconds)
  double start = 0;             // seconds
};

// An AMD EPYC (Zen 4) with torch's MKL; one thread and, after the stroke, two. A pixel's transform forward and back,
// ns, in batches of a few tiles:
//            128^2      288^2      448^2      640^2      1152^2     1536^2     2048^2
//   float32  3.5/1.8    4.0/2.1    4.3/2.2    4.6/2.4    5.5/2.9    6.7/3.5    8.9/4.5
//   float64  6.2/3.3    7.1/3.8    9.2/4.8    10.9/5.2   11.3/6.1   12.7/6.8   14.8/7.9
// Forward alone takes two fifths. Direct sums go twice as fast on two threads, too, so that one core's costs decide for
// any number of them: 1024^2 pixels by 15^2, 23^2 and 31^2 taps took 4.6/2.3, 10.2/5.2 and 18.2/9.3 ms.
// A batch of 2^19 pixels: 2048^2 by 15^2 and 63^2 took 25 and 31 ms, with 2^20 27 and 35, 2^21 34 and 40, 2^22 34
// and 45. Separable filters of 1536 x 1536 float32 pixels, ms, by rank 1, 2, 3, 4 and directly:
// 9x9 2.2, 5.9, 8.6, 11.8, 4.5; 11x11 2.3, 6.6, 9.6, 13.4, 6.5; 15x15 3.2, 7.6, 11.1, 14.8, 11.0;
// 31x31 5.1, 11.5, 17.2, 23.7, 41.6; of 2048 x 2048 by rank 1, 2, 3: 63x63 17.0, 35.9, 59.4; 127x127 33.6, 69.8, 107.
constexpr Costs kCpu{.per_level = 0.245e-9,
                     .per_pixel = 1.3e-9,
                     .batch = 80e-6,
                     .direct = 110e9,
                     .passes = 70e9,
                     .bytes = 16e9,
                     .cached = 1 << 19,
                     .together = 1 << 19,
                     .window = 0.37};
constexpr Costs kCpuWide{.per_level = 0.435e-9,
                         .per_pixel = 2.6e-9,
                         .batch = 80e-6,
                         .direct = 56e9,
                         .passes = 32e9,
                         .bytes = 16e9,
                         .cached = 1 << 18,
                         .together = 1 << 18,
                         .window = 0.37};
// One NVIDIA H200. torch.fft.rfft2, the product and torch.fft.irfft2 without its scaling, in batches of 20 million
// float32 pixels, ps a pixel: one part for memory, one for either side's length (side_seconds). The border and the
// store are one read and one write of memory each, 4 ps more.
//   powers of two   128^2 14.5  256^2 15.1  512^2 15.9  1024^2 15.4  2048^2 18.1  4096^2 20.4  512x1024 14.8
//   others          288^2 20    384^2 20.7  640^2 20    1152^2 24.7  2304^2 27.1  4608^2 26.8
// `start`: the launches that flip and transform the window, and the host's time for all. 4096 x 4096 pixels, us:
//   direct, float32             9x9 63   15x15 149   31x31 692   45x45 4300   63x63 9900
//   direct, float16 products             15x15 36    31x31 224
//   one separable filter        9 39     15 44       31 85       63 145       127 298
//   ... its `ring`, of aligned rows                  31 58       63 105   (`passes` keeps to the slower)
// A sum of two separable filters takes 50 more, up to 15x15 it goes in one launch.
constexpr Costs kCuda{.per_level = 0,
                      .per_pixel = 11e-12,
                      .batch = 15e-6,
                      .direct = 46e12,
                      .passes = 36e12,
                      .bytes = 4e12,
                      .cached = INT64_MAX,
                      .together = INT64_MAX,
                      .side = 4.2e-12,
                      .start = 100e-6};
constexpr Costs twice(Costs c) {
  c.per_pixel *= 2, c.side *= 2, c.direct /= 2, c.passes /= 2;
  return c;
}
constexpr Costs kCudaWide = twice(kCuda);

const Costs& costs_of(const FilterSize& size) {
  const bool wide = size.image == Dtype::f64;
  return size.cuda ? wide ? kCudaWide : kCuda : wide ? kCpuWide : kCpu;
}

// A transform along a side of n pixels: cuFFT's powers of two take least, and what exceeds a multiprocessor's memory
// goes in steps.
double side_seconds(const Costs& costs, int64_t n) {
  const bool power = (n & (n - 1)) == 0;
  const double steps = std::max(0.0, std::log2(double(n) / (power ? 1024 : 512)));
  return costs.side * ((power ? 1 : 1.8) + 0.29 * steps);
}

double transform_seconds(const Costs& costs, int64_t h, int64_t w) {
  const double pixels = double(h) * double(w), levels = std::log2(pixels);
  const double beyond = std::max(0.0, levels - std::log2(double(costs.cached)));
  return pixels * (costs.per_level * levels * (1 + 0.14 * beyond) + costs.per_pixel + side_seconds(costs, h) +
                   side_seconds(costs, w));
}

// Lengths that FFT libraries transform fast: 2^a times 8, 9, 10, 12, 14 or 15. Those from `least` on up to the first
// that is `enough`.
std::vector<int64_t> lengths(int64_t least, int64_t enough) {
  std::vector<int64_t> found;
  for (int64_t scale = 1;; scale *= 2)
    for (int64_t odd : {8, 9, 10, 12, 14, 15}) {
      const int64_t length = odd * scale;
      if (length < least) continue;
      found.push_back(length);
      if (length >= enough) return found;
    }
}

// A row of a tile is a row of a kernel's blocks.
constexpr int64_t kMostGridRows = 65535;

// Tiles along one axis.
struct Cut {
  int64_t length, step, count;
};

// Steps are multiples of `unit`.
std::vector<Cut> cuts(int64_t outputs, int64_t span, int64_t stride, int64_t unit) {
  const int64_t positions = (outputs - 1) * stride + 1;
  std::vector<Cut> all;
  for (int64_t length : lengths(span - 1 + unit, span - 1 + round_up(positions, unit))) {
    const int64_t step = (length - span + 1) / unit * unit;
    all.push_back({length, step, ceil_div(positions, step)});
  }
  return all;
}

}  // namespace

FftTiles fft_tiles(const FilterSize& size) {
  const Costs& costs = costs_of(size);
  const int64_t bytes = kFftCopies * acc_bytes(size.image);
  const int64_t word = size.cuda ? 4 : 1;  // outputs that leave together
  const std::vector<Cut> columns = cuts(size.out_w, size.span_w, size.stride_w, word * size.stride_w);
  FftTiles best{};
  for (const Cut& y : cuts(size.out_h, size.span_h, size.stride_h, size.stride_h)) {
    if (best.h && size.cuda && y.length > kMostGridRows) break;
    for (const Cut& x : columns) {
      const int64_t pixels = y.length * x.length, limit = kFftWorkspace / bytes;
      if (best.h && pixels > limit) break;
      const int64_t most = std::max<int64_t>(1, std::min(limit, costs.together) / pixels);
      const double tiles = double(size.planes) * double(y.count * x.count);
      const double seconds =
          (tiles + costs.window * double(size.windows)) * transform_seconds(costs, y.length, x.length) +
          costs.batch * std::ceil(tiles / double(most)) + costs.start;
      if (!best.h || seconds < best.seconds)
        best = {y.length, x.length, y.step, x.step, y.count, x.count, most, seconds};
    }
  }
  return best;
}

double direct_seconds(const FilterSize& size) {
  const double outputs = double(size.planes) * double(size.out_h) * double(size.out_w);
  const Costs& costs = costs_of(size);
  // The kernels for windows of any size, and products on tensor cores.
  const double speed = !size.cuda ? 1 : std::max(size.kh, size.kw) > 31 ? 1.0 / 3 : size.products ? 2.6 : 1;
  return 2 * double(size.kh) * double(size.kw) * outputs / (speed * costs.direct);
}

double passes_seconds(const FilterSize& size, int rank) {
  const Costs& costs = costs_of(size);
  const double outputs = double(size.planes) * double(size.out_h) * double(size.out_w);
  const double flops = 2 * double(size.kh + size.kw * size.stride_h), bytes = 2 * acc_bytes(size.image);
  if (size.one_launch && rank == 2) return outputs * (rank * flops / costs.passes + bytes / costs.bytes);
  const double sum = rank > 1 ? (rank + 1) * acc_bytes(size.image) / costs.bytes : 0;
  return outputs * (rank * (flops / costs.passes + bytes / costs.bytes) + sum);
}

bool fft_is_faster(const FilterSize& size) {
  constexpr int64_t kMostDirect = 15;  // taps along a side
  if (size.kh * size.kw <= kMostDirect * kMostDirect || std::min(size.kh, size.kw) < 2) return false;
  if (std::max(size.span_h, size.span_w) > kFftLargestSpan) return false;
  return fft_tiles(size).seconds < direct_seconds(size);
}

}  // namespace torch_conv
