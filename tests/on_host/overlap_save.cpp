// The kernels of csrc/kernels/overlap_save as their plans launch them, on the host: tiles against the border map, and
// the outputs of tiles whose sums are made here, against direct sums. Some sums are not finite; all others are off by a
// part of the tile's largest pixel, as those of a transform are.
#include "cuda.h"
#include "report.h"

using std::abs;

#include <limits>
#include <random>
#include <string>

inline int atomicMax(int* at, int value) {
  const int before = *at;
  *at = std::max(before, value);
  return before;
}

#include "kernels/overlap_save/kernel_directly.cuh"
#include "kernels/overlap_save/kernel_mark.cuh"
#include "kernels/overlap_save/kernel_read.cuh"
#include "kernels/overlap_save/kernel_write.cuh"
#include "kernels/overlap_save/plan.h"

using namespace torch_conv;
using namespace torch_conv::overlap_save;

namespace {

struct Case {
  Border border;
  bool normalized, inner;
  int64_t kh, kw, stride_y, stride_x, dilation_y, dilation_x, pad_y, pad_x;
  int64_t first, count;  // tiles of a batch
  int64_t w = 17;
  float far = 0;  // a pixel in the corner
};

const Case kCases[] = {
    {Border::constant, false, false, 5, 7, 1, 1, 1, 1, 2, 3, 0, 6},
    {Border::reflect, false, true, 5, 7, 1, 1, 1, 1, 4, 0, 0, 6},
    {Border::circular, false, false, 4, 3, 2, 3, 1, 2, 1, 2, 1, 3},
    {Border::skip, true, false, 5, 7, 1, 1, 1, 1, 0, 6, 0, 6},
    {Border::skip, true, true, 3, 3, 1, 2, 2, 1, 2, 1, 2, 4},
    {Border::zero_output, false, false, 5, 7, 1, 1, 1, 1, 2, 3, 0, 6},
    {Border::reflect, false, false, 5, 7, 1, 1, 1, 1, 2, 3, 0, 6, 250, 1e20f},
    {Border::constant, false, false, 3, 3, 2, 3, 1, 2, 1, 2, 0, 6, 250, -1e12f},
    {Border::reflect, false, false, 3, 5, 1, 20, 1, 1, 1, 2, 0, 6, 250, 1e20f},  // cells without outputs
};
constexpr int kReadRows[] = {1, 4, 16};  // more than one on images that fill a GPU
constexpr int64_t kN = 1, kC = 2, kH = 12;

Image image_of(std::vector<float>& data, int64_t h, int64_t w, bool inner) {
  data.assign(kN * kC * h * w, -7);
  Image image{.data = data.data(), .dtype = Dtype::f32, .n = kN, .c = kC, .d = 1, .h = h, .w = w};
  image.stride_n = kC * h * w, image.stride_c = inner ? 1 : h * w, image.stride_d = 0;
  image.stride_h = inner ? w * kC : w, image.stride_w = inner ? kC : 1;
  return image;
}

float& at(const Image& x, int64_t n, int64_t c, int64_t y, int64_t w) {
  return static_cast<float*>(x.data)[n * x.stride_n + c * x.stride_c + y * x.stride_h + w * x.stride_w];
}

// An output as the direct kernels make it.
float direct(const Direct& f, int64_t n, int64_t c, int64_t y, int64_t x) {
  const Placement& s = f.place;
  const float* taps = static_cast<const float*>(f.taps.data) + c * f.taps.stride_c;
  float sum = 0, inside = 0;
  for (int64_t i = 0; i < f.kh; ++i)
    for (int64_t j = 0; j < f.kw; ++j) {
      const int64_t row = map_index(y * s.stride_y + i * s.dilation_y - s.pad_y, f.in.h, s.border);
      const int64_t column = map_index(x * s.stride_x + j * s.dilation_x - s.pad_x, f.in.w, s.border);
      const bool stands = row >= 0 && column >= 0;
      if (stands || s.border == Border::constant)
        sum = std::fma(taps[i * f.kw + j], stands ? at(f.in, n, c, row, column) : float(s.value), sum);
      if (stands) inside += std::abs(taps[i * f.kw + j]);
    }
  if (s.border == Border::zero_output && !fits(f, y, x)) return 0;
  return s.normalized ? sum / inside : sum;
}

std::string wrong_of(const Case& k, int read_rows) {
  std::mt19937 make(1);
  std::normal_distribution<float> normal;
  std::vector<float> pixels, results, taps(kC * k.kh * k.kw);
  const int64_t out_h = ceil_div(kH, k.stride_y), out_w = ceil_div(k.w, k.stride_x);
  Direct f{.in = image_of(pixels, kH, k.w, k.inner),
           .out = image_of(results, out_h, out_w, k.inner),
           .taps = {.data = taps.data(), .on_host = false, .stride_n = 0, .stride_c = k.kh * k.kw, .stride_ci = 0},
           .kh = k.kh,
           .kw = k.kw,
           .place = {.pad_y = k.pad_y,
                     .pad_x = k.pad_x,
                     .stride_y = k.stride_y,
                     .stride_x = k.stride_x,
                     .dilation_y = k.dilation_y,
                     .dilation_x = k.dilation_x,
                     .border = k.border,
                     .value = 2.5,
                     .normalized = k.normalized},
           .groups = kC,
           .bias = nullptr};
  for (float& x : pixels) x = normal(make);
  for (float& x : taps) x = normal(make);
  if (k.far) at(f.in, 0, 0, 0, 0) = k.far;
  at(f.in, 0, 1, 2, 14) = std::numeric_limits<float>::quiet_NaN();  // no tile of the other channel feels it
  std::vector<double> corners(kC * (k.kh + 1) * (k.kw + 1));
  for (int64_t c = 0; c < kC; ++c)
    for (int64_t i = 1; i <= k.kh; ++i)
      for (int64_t j = 1; j <= k.kw; ++j) {
        const int64_t row = k.kw + 1;
        double* s = corners.data() + c * (k.kh + 1) * row + i * row + j;
        *s = s[-1] + s[-row] - s[-row - 1] + std::abs(double(taps[(c * k.kh + i - 1) * k.kw + j - 1]));
      }

  // Three tiles across and two down.
  const int64_t step_h = round_up(ceil_div(kH, 2), k.stride_y), step_w = round_up(ceil_div(k.w, 3), k.stride_x);
  const int64_t span_h = (k.kh - 1) * k.dilation_y, span_w = (k.kw - 1) * k.dilation_x;
  Tiles tiles{nullptr, k.first, k.count, 3, step_h + span_h, step_w + span_w, step_h, step_w};
  std::vector<float> data(kN * kC * k.count * tiles.h * tiles.w, NAN);
  tiles.data = data.data();
  const Cells cells = Cells::of(tiles);
  std::vector<int32_t> notes(kN * kC * k.count * cells.notes(), 0);
  const int64_t end_y = (out_h - 1) * k.stride_y + span_h + 1 - k.pad_y;
  const int64_t end_x = (out_w - 1) * k.stride_x + span_w + 1 - k.pad_x;
  const ReadTiles read{f.in, f.place, tiles, end_y, end_x, notes.data()};
  ReadArgs read_args = args_of(read);
  read_args.rows = read_rows;
  on_host::launch(overlap_save_read<float>,
                  {unsigned(units_of(read) * blocks_of_row(read)), row_groups(read, read_rows), 1}, kThreads,
                  read_args);

  std::vector<char> marks(kN * kC * k.count * cells.count());
  WriteTiles write{f, tiles, {corners.data(), 0, (k.kh + 1) * (k.kw + 1)}, notes.data(), marks.data()};
  std::vector<float> sums(data.size(), NAN);
  for (int64_t unit = 0; unit < kN * kC * k.count; ++unit) {
    const Tile tile = Tile::of(tiles, kC, unit);
    const float* from = data.data() + unit * tiles.h * tiles.w;
    float* to = sums.data() + unit * tiles.h * tiles.w;
    bool finite = true;
    float largest = 0;
    for (int64_t y = 0; y < tiles.h; ++y)
      for (int64_t x = 0; x < tiles.w; ++x) {
        const int64_t row = map_index(tile.row * step_h - k.pad_y + y, kH, k.border);
        const int64_t column = map_index(tile.column * step_w - k.pad_x + x, k.w, k.border);
        const float outside = k.border == Border::constant ? 2.5f : 0.f;
        const bool in_windows = tile.row * step_h - k.pad_y + y < end_y && tile.column * step_w - k.pad_x + x < end_x;
        const float expected = !in_windows             ? 0
                               : row < 0 || column < 0 ? outside
                                                       : at(f.in, tile.n, tile.c, row, column);
        finite = finite && std::isfinite(expected);
        largest = std::max(largest, std::abs(expected));
        if (!(from[y * tiles.w + x] == expected || std::isnan(expected))) return "a pixel of a tile";
      }
    for (int64_t y = 0; y + span_h < tiles.h; ++y)
      for (int64_t x = 0; x + span_w < tiles.w; ++x) {
        float sum = finite ? 0 : NAN;
        for (int64_t i = 0; i < k.kh; ++i)
          for (int64_t j = 0; j < k.kw; ++j)
            sum = std::fma(taps[(tile.c * k.kh + i) * k.kw + j],
                           from[(y + i * k.dilation_y) * tiles.w + x + j * k.dilation_x], sum);
        to[(y + span_h) * tiles.w + x + span_w] = (sum + 1e-7f * largest) * float(tiles.h * tiles.w);
      }
  }
  write.sums.data = sums.data();
  on_host::launch(overlap_save_mark<float>, {unsigned(units_of(write)), cell_groups(write, kMarkThreads), 1},
                  kMarkThreads, args_of(write));
  on_host::launch(overlap_save_write<float>, {unsigned(units_of(write) * blocks_of_row(write)), row_groups(write), 1},
                  kThreads, args_of(write));
  on_host::launch(overlap_save_directly<float>, {unsigned(units_of(write)), cell_groups(write, kCells), 1}, kThreads,
                  args_of(write));

  const Outputs outputs = Outputs::of(write);
  for (int64_t n = 0; n < kN; ++n)
    for (int64_t c = 0; c < kC; ++c)
      for (int64_t y = 0; y < out_h; ++y)
        for (int64_t x = 0; x < out_w; ++x) {
          const int64_t tile = y / outputs.h * 3 + x / outputs.w;
          const bool mine = tile >= k.first && tile < k.first + k.count;
          const float expected = mine ? direct(f, n, c, y, x) : -7, got = at(f.out, n, c, y, x);
          // Windows that start in the cell of one with the pixel in the corner have its error, too.
          const int64_t top = y * k.stride_y - k.pad_y, left = x * k.stride_x - k.pad_x;
          const bool near = k.far && c == 0 && tile == 0 && top < 16 - k.pad_y && left < 16 - k.pad_x;
          const float allowed = 1e-4f * (1 + std::abs(expected) + (near ? std::abs(k.far) : 0));
          const bool alike = std::abs(got - expected) <= allowed;
          if (!alike && !(std::isnan(got) && std::isnan(expected)))
            return on_host::difference({n, c, y, x}, got, expected);
        }
  return "";
}

}  // namespace

int main() {
  return on_host::status_of(kCases, [](const Case& k) {
    std::string wrong;
    for (const int rows : kReadRows)
      if (wrong.empty()) wrong = wrong_of(k, rows);
    return on_host::report(wrong, "%s %lldx%lld%s", name_of(k.border), (long long)k.kh, (long long)k.kw,
                           k.inner ? " channels innermost" : "");
  });
}
