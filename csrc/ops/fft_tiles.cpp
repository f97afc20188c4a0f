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
// One NVIDIA H200: torch.fft of 4096 x 4096 float32 pixels with a window of 200 x 200 (4295 x 4295 with its border) 964
// us by hand; direct sums by the room's kernels for windows of any size 40 TFLOP/s in float32. Twice the bytes in
// float64, and half the operations a second. The border and the store are one read and one write of memory each.
// Separable filters of k = 15, 31 and 63 took 42, 90 and 146 us at 4096 x 4096: 8 bytes a pixel and 36 TFLOP/s make 61,
// 90 and 150 of them.
constexpr Costs kCuda{.per_level = 2.2e-12,
                      .per_pixel = 10e-12,
                      .batch = 60e-6,
                      .direct = 40e12,
                      .passes = 36e12,
                      .bytes = 4e12,
                      .cached = INT64_MAX,
                      .together = INT64_MAX};
constexpr Costs twice(Costs c) {
  c.per_level *= 2, c.per_pixel *= 2, c.direct /= 2, c.passes /= 2;
  return c;
}
constexpr Costs kCudaWide = twice(kCuda);

const Costs& costs_of(const FilterSize& size) {
  const bool wide = size.image == Dtype::f64;
  return size.cuda ? wide ? kCudaWide : kCuda : wide ? kCpuWide : kCpu;
}

double transform_seconds(const Costs& costs, double pixels) {
  const double beyond = std::max(0.0, std::log2(pixels) - std::log2(double(costs.cached)));
  return pixels * (costs.per_level * std::log2(pixels) * (1 + 0.14 * beyond) + costs.per_pixel);
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

std::vector<Cut> cuts(int64_t outputs, int64_t span, int64_t stride) {
  const int64_t positions = (outputs - 1) * stride + 1;
  std::vector<Cut> all;
  for (int64_t length : lengths(span - 1 + stride, span - 1 + round_up(positions, stride))) {
    const int64_t step = (length - span + 1) / stride * stride;
    all.push_back({length, step, ceil_div(positions, step)});
  }
  return all;
}

}  // namespace

FftTiles fft_tiles(const FilterSize& size) {
  const Costs& costs = costs_of(size);
  const int64_t bytes = kFftCopies * acc_bytes(size.image);
  const std::vector<Cut> columns = cuts(size.out_w, size.span_w, size.stride_w);
  FftTiles best{};
  for (const Cut& y : cuts(size.out_h, size.span_h, size.stride_h)) {
    if (best.h && size.cuda && y.length > kMostGridRows) break;
    for (const Cut& x : columns) {
      const int64_t pixels = y.length * x.length, limit = kFftWorkspace / bytes;
      if (best.h && pixels > limit) break;
      const int64_t most = std::max<int64_t>(1, std::min(limit, costs.together) / pixels);
      const double tiles = double(size.planes) * double(y.count * x.count);
      const double seconds = (tiles + costs.window * double(size.windows)) * transform_seconds(costs, double(pixels)) +
                             costs.batch * std::ceil(tiles / double(most));
      if (!best.h || seconds < best.seconds)
        best = {y.length, x.length, y.step, x.step, y.count, x.count, most, seconds};
    }
  }
  return best;
}

double direct_seconds(const FilterSize& size) {
  const double outputs = double(size.planes) * double(size.out_h) * double(size.out_w);
  return 2 * double(size.kh) * double(size.kw) * outputs / costs_of(size).direct;
}

double passes_seconds(const FilterSize& size, int rank) {
  const Costs& costs = costs_of(size);
  const double outputs = double(size.planes) * double(size.out_h) * double(size.out_w);
  const double flops = 2 * double(size.kh + size.kw * size.stride_h), bytes = 2 * acc_bytes(size.image);
  const double sum = rank > 1 ? (rank + 1) * acc_bytes(size.image) / costs.bytes : 0;
  return outputs * (rank * (flops / costs.passes + bytes / costs.bytes) + sum);
}

bool fft_is_faster(const FilterSize& size) {
  const int64_t most_direct = size.cuda ? 31 : 15;  // taps along a side
  if (size.kh * size.kw <= most_direct * most_direct || std::min(size.kh, size.kw) < 2) return false;
  if (std::max(size.span_h, size.span_w) > kFftLargestSpan) return false;
  return fft_tiles(size).seconds < direct_seconds(size);
}

}  // namespace torch_conv
