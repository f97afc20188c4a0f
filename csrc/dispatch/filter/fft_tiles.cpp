#include "dispatch/filter/fft_tiles.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/problem.h"

namespace torch_conv {

namespace {

// A transform of n pixels, forward and back with the product between, takes n * (per_level * log2(n) + per_pixel).
struct Costs {
  double per_level, per_pixel;  // seconds
  double batch;                 // seconds, of a batch's launches or calls
  double direct;                // flops a second of a direct sum
  double passes, bytes;         // of separable filters: flops and bytes a second
  int64_t cached;               // pixels of the largest tile that stays in a cache
  int64_t together;             // pixels of the largest batch that stays in a cache
  double window = 0;            // a window's transform, forward only, as a part of a tile's
  double side = 0;              // seconds, more for a tile's height and width (side_seconds)
  double start = 0;             // seconds
};

// clang-format off
// An AMD EPYC (Zen 4) with torch's MKL; one thread and, after the slash, two. A pixel's transform forward and back,
// ns, in batches of a few tiles:
//
//              128^2      288^2      448^2      640^2      1152^2     1536^2     2048^2
//     float32  3.5/1.8    4.0/2.1    4.3/2.2    4.6/2.4    5.5/2.9    6.7/3.5    8.9/4.5
//     float64  6.2/3.3    7.1/3.8    9.2/4.8    10.9/5.2   11.3/6.1   12.7/6.8   14.8/7.9
//
// Forward alone takes two fifths. Direct sums are twice as fast on two threads too, so the costs of one core decide for
// any number of them.
// Images of 1024^2 pixels by 15^2, 23^2 and 31^2 taps took 4.6/2.3, 10.2/5.2 and 18.2/9.3 ms.
//
// 2048^2 pixels by 15^2 and 63^2 taps, ms, by the pixels of a batch:
//
//     2^19  25, 31    2^20  27, 35    2^21  34, 40    2^22  34, 45
//
// Separable filters of float32 pixels, ms, by rank 1, 2, 3, 4 and directly:
//
//     1536^2  9x9 2.2, 5.9, 8.6, 11.8, 4.5     11x11 2.3, 6.6, 9.6, 13.4, 6.5
//             15x15 3.2, 7.6, 11.1, 14.8, 11.0  31x31 5.1, 11.5, 17.2, 23.7, 41.6
//     2048^2  63x63 17.0, 35.9, 59.4            127x127 33.6, 69.8, 107
constexpr Costs kCpu{.per_level = 0.245e-9, .per_pixel = 1.3e-9, .batch = 80e-6, .direct = 110e9, .passes = 70e9,
    .bytes = 16e9, .cached = 1 << 19, .together = 1 << 19, .window = 0.37};
constexpr Costs kCpuWide{.per_level = 0.435e-9, .per_pixel = 2.6e-9, .batch = 80e-6, .direct = 56e9, .passes = 32e9,
    .bytes = 16e9, .cached = 1 << 18, .together = 1 << 18, .window = 0.37};
// Tiles of one row. An Intel Xeon (AMX), one thread: direct sums take 1.7 times as long as above, so these costs
// are the measurements divided by that. A pixel's transform forward and back, ns, by length:
//
//              2^10   2^12   2^13   2^14   2^15   2^16   2^18   2^20
//     float32  1.7    2.1    2.8    3.7    4.7    7.1    7.5    31
//     float64  3.9    4.3    5.6    7.0    8.2    11.6   12.7   40
//
// Reading, noting and writing a pixel takes 3.7 and 5.4. Where columns are the rows, a pixel takes 4 ns more, and 10 to
// 14 where the image's rows are 2^k bytes apart. A call, ms, by taps: directly / by FFT / scipy.signal.oaconvolve.
//
//                   226              501              1001             3001             10001
//     8 x 65536     15.9/16.2/42.8   33.6/16.1/42.6   60.0/14.2/44.9   202/24.4/62.5    185/8.5/16.5
//     1024 x 1024   8.1/7.3/10.2     20.9/7.2/12.8    32.5/9.6/21.0    97/18/39         419/84/154
//     2^20          7.5/5.9/14.4     19.4/7.1/10.5    31.0/7.8/12.6    112/13.7/16.9    431/25/26
//     columns of 1024 x 1024         17.6/23.3/21.9   50.8/29.9/38.1
//     ... 1024 x 1000                16.2/11.4/21.8   40.7/14.4/28.7
constexpr Costs kCpuRows{.per_level = 0.1e-9, .per_pixel = 2.2e-9, .batch = 40e-6, .direct = 110e9, .passes = 70e9,
    .bytes = 16e9, .cached = 1 << 12, .together = 1 << 18, .window = 0.4, .start = 50e-6};
constexpr Costs kCpuRowsWide{.per_level = 0.22e-9, .per_pixel = 3.2e-9, .batch = 40e-6, .direct = 56e9, .passes = 32e9,
    .bytes = 16e9, .cached = 1 << 12, .together = 1 << 17, .window = 0.4, .start = 50e-6};
constexpr double kTransposed = 6e-9;  // seconds more for a pixel, where columns are the rows
// One NVIDIA H200. torch.fft.rfft2, the product and torch.fft.irfft2 without its scaling, in batches of 20 million
// float32 pixels, ps a pixel: one part for memory, one for either side's length (side_seconds). The border and the
// store are one read and one write of memory each, 4 ps more.
//
//     powers of two   128^2 14.5  256^2 15.1  512^2 15.9  1024^2 15.4  2048^2 18.1  4096^2 20.4  512x1024 14.8
//     others          288^2 20    384^2 20.7  640^2 20    1152^2 24.7  2304^2 27.1  4608^2 26.8
//
// `start`: the launches that flip and transform the window, and the host's time for all. 4096 x 4096 pixels, us:
//
//     direct, float32             9x9 63   15x15 149   31x31 692   45x45 4300   63x63 9900
//     direct, float16 mma                  15x15 36    31x31 224
//     one separable filter        9 39     15 44       31 85       63 145       127 298
//     ... its `ring`, of aligned rows                  31 58       63 105   (`passes` keeps to the slower)
//
// A sum of two separable filters takes 50 more; up to 15x15 it is one launch.
constexpr Costs kCuda{.per_level = 0, .per_pixel = 11e-12, .batch = 15e-6, .direct = 46e12, .passes = 36e12,
    .bytes = 4e12, .cached = INT64_MAX, .together = INT64_MAX, .side = 4.2e-12, .start = 100e-6};
// clang-format on
constexpr Costs twice(Costs c) {
  c.per_pixel *= 2, c.side *= 2, c.direct /= 2, c.passes /= 2;
  return c;
}
constexpr Costs kCudaWide = twice(kCuda);

const Costs& costs_of(const FilterSize& size) {
  const bool wide = size.image == Dtype::f64;
  if (fft_by_rows(size)) return wide ? kCpuRowsWide : kCpuRows;
  return size.cuda ? wide ? kCudaWide : kCuda : wide ? kCpuWide : kCpu;
}

// A transform along a side of n pixels. In cuFFT powers of two are the fastest, and lengths beyond a multiprocessor's
// memory take several steps.
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

// The lengths of 2^a times 8, 9, 10, 12, 14 or 15, which FFT libraries transform fast: from `least` to the first that
// is at least `enough`.
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

constexpr int64_t kMostGridRows = 65535;  // of blocks, one for each row of a tile

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

// The size with rows and columns exchanged.
FilterSize transposed(FilterSize size) {
  std::swap(size.out_h, size.out_w), std::swap(size.kh, size.kw);
  std::swap(size.span_h, size.span_w), std::swap(size.stride_h, size.stride_w);
  return size;
}

}  // namespace

bool fft_by_rows(const FilterSize& size) {
  return !size.cuda && ((size.kh == 1 && size.stride_h == 1) || (size.kw == 1 && size.stride_w == 1));
}

int64_t largest_fft_span(const FilterSize& size) { return fft_by_rows(size) ? kFftLargestSpanOfRows : kFftLargestSpan; }

FftTiles fft_tiles(const FilterSize& size) {
  const bool rows = fft_by_rows(size);
  if (rows && size.kh > 1) {
    FftTiles tiles = fft_tiles(transposed(size));
    tiles.seconds += kTransposed * double(size.planes) * double(tiles.count()) * double(tiles.w);
    return tiles;
  }
  const Costs& costs = costs_of(size);
  const int64_t bytes = kFftCopies * acc_bytes(size.image);
  const int64_t vector = size.cuda ? 4 : 1;  // outputs of one store
  const std::vector<Cut> columns = cuts(size.out_w, size.span_w, size.stride_w, vector * size.stride_w);
  FftTiles best{};
  const std::vector<Cut> lines =
      rows ? std::vector<Cut>{{1, 1, size.out_h}} : cuts(size.out_h, size.span_h, size.stride_h, size.stride_h);
  for (const Cut& y : lines) {
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
  // Beyond 31 taps a side the kernels for any window size serve the sum.
  const double speed = !size.cuda ? 1 : std::max(size.kh, size.kw) > 31 ? 1.0 / 3 : size.mma ? 2.6 : 1;
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
  if (size.kh * size.kw <= kMostDirect * kMostDirect) return false;
  if (std::min(size.kh, size.kw) < 2 && !fft_by_rows(size)) return false;
  if (std::max(size.span_h, size.span_w) > largest_fft_span(size)) return false;
  return fft_tiles(size).seconds < direct_seconds(size);
}

}  // namespace torch_conv
