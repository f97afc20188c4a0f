// dispatch/long_rows.cpp: a filter of rows in parts has the outputs of the filter in one, and every part stays inside
// the memory of the rows.
#include "dispatch/long_rows.cpp"

#include <cmath>
#include <random>
#include <string>

#include "report.h"

using namespace torch_conv;

namespace {

struct Case {
  int64_t rows, w, kw, pad, dilation;
  Border border;
  int parts;
  int64_t apart = 0;  // elements between rows
  bool valid = false;
  bool one_channel = false;  // of a convolution with a bias: a row a sample
};

const Case kCases[] = {
    {1, 1 << 20, 5, 2, 1, Border::constant, 2},
    {1, 1 << 20, 5, 2, 1, Border::reflect, 2},
    {1, 1 << 20, 31, 15, 1, Border::symmetric, 2},
    {1, 1 << 20, 31, 16, 1, Border::replicate, 2},
    {1, 1 << 20, 5, 2, 1, Border::circular, 3},
    {1, 1 << 20, 6, 5, 1, Border::zero_output, 2},
    {1, 1 << 20, 6, 0, 1, Border::replicate, 2},
    {1, 1 << 20, 7, 9, 3, Border::skip, 2},
    {1, 1 << 20, 3, 257, 257, Border::reflect, 2},
    {1, 1 << 20, 5, 4, 1, Border::constant, 2, 0, true},
    {1, (1 << 20) + 7, 5, 0, 1, Border::constant, 2, 0, true},
    {3, 360001, 8, 3, 1, Border::reflect, 2, 5},
    {31, 33830, 4, 1, 1, Border::symmetric, 2},
    {1, 96 * 16384 + 16, 1, 0, 1, Border::reflect, 2},
    {1, 96 * 16384, 1, 0, 1, Border::reflect, 1},
    {1, 96 * 16384 + 20, 5, 4, 1, Border::constant, 2, 0, true},
    {1, 1 << 20, 1001, 500, 1, Border::reflect, 2},
    {16, 65536, 40001, 20000, 1, Border::reflect, 3},  // ends that would meet in one image
    {16, 65536, 45001, 20000, 1, Border::reflect, 0},  // pieces would be short
    {32, 32768, 5, 2, 1, Border::reflect, 1},          // tall already
    {1, 1 << 17, 5, 2, 1, Border::reflect, 0},         // too few numbers
    {1, 1 << 20, 5, 2, 1, Border::constant, 2, 0, false, true},
    {32, 32768, 5, 2, 1, Border::constant, 1, 0, false, true},
    {16, 65536, 5, 2, 1, Border::constant, 2, 0, false, true},
};

// A number that depends on the values that an output reads, their order and their positions.
float value(const Direct& p, int64_t n, int64_t c, int64_t y, int64_t x) {
  const Placement& s = p.place;
  float sum = p.bias ? static_cast<const float*>(p.bias)[c] : 0;
  const int64_t step = std::max<int64_t>(1, (p.kw - 1) / 40);  // of long windows some taps
  for (int64_t j = 0; j < p.kw; j += step) {
    const int64_t at = x + j * s.dilation_x - s.pad_x, m = map_index(at, p.in.w, s.border);
    if (s.border == Border::zero_output && (at < 0 || x + (p.kw - 1) * s.dilation_x - s.pad_x >= p.in.w)) return 0;
    if (m < 0 && s.border != Border::constant) continue;
    const float* const row =
        static_cast<const float*>(p.in.data) + n * p.in.stride_n + c * p.in.stride_c + y * p.in.stride_h;
    sum = std::fma(static_cast<const float*>(p.taps.data)[j], m < 0 ? float(s.value) : row[m * p.in.stride_w], sum);
  }
  return sum;
}

void run(const Direct& p) {
  on_host::each_pixel(p.out, [&, out = p.out](int64_t n, int64_t c, int64_t y, int64_t x) {
    float* const row = static_cast<float*>(out.data) + n * out.stride_n + c * out.stride_c + y * out.stride_h;
    row[x] = value(p, n, c, y, x);
  });
}

bool lies_in(const Image& part, const Image& whole, const char* first) {
  const char* const last = first + 4 * ((whole.n - 1) * whole.stride_n + (whole.c - 1) * whole.stride_c + whole.w);
  const char* const at = static_cast<const char*>(part.data);
  return at >= first && at + 4 * ((part.n - 1) * part.stride_n + (part.h - 1) * part.stride_h + part.w) <= last;
}

bool check(const Case& k) {
  std::mt19937 make(1);
  const int64_t w = k.valid ? k.w - (k.kw - 1) * k.dilation : k.w, pad = k.valid ? 0 : k.pad;
  std::vector<float> in(k.rows * (k.w + k.apart)), out(k.rows * (w + k.apart), -1), expected = out, taps(k.kw);
  for (float& x : in) x = float(make() % 256);
  for (float& tap : taps) tap = float(make() % 1000) / 4000;
  const auto image = [&](std::vector<float>& x, int64_t width) {
    Image rows{x.data(), Dtype::f32, 1, k.rows, 1, 1, width, k.rows * (width + k.apart), width + k.apart, 0, width, 1};
    if (k.one_channel) std::swap(rows.n, rows.c), std::swap(rows.stride_n, rows.stride_c);
    return rows;
  };
  const float bias = 17;
  Direct p{.in = image(in, k.w),
           .out = image(out, w),
           .taps = {taps.data(), true, 0, 0, 0},
           .kh = 1,
           .kw = k.kw,
           .place = {.pad_y = 0, .pad_x = pad, .dilation_x = k.dilation, .border = k.border, .value = 3},
           .groups = k.one_channel ? 1 : k.rows,
           .bias = k.one_channel ? &bias : nullptr};
  const auto parts = long_rows(p);
  std::string wrong;
  if (int(parts.size()) != k.parts) wrong = std::to_string(parts.size()) + " parts";
  for (const Direct& part : parts) {
    const bool stays = lies_in(part.in, p.in, static_cast<char*>(p.in.data)) &&
                       lies_in(part.out, p.out, static_cast<char*>(p.out.data));
    if (!stays) wrong = "beyond the rows";
    else run(part);
  }
  if (wrong.empty() && !parts.empty()) {
    p.out.data = expected.data();
    run(p);
    for (size_t i = 0; i < out.size() && wrong.empty(); ++i)
      if (out[i] != expected[i]) wrong = "output " + std::to_string(i);
  }
  return on_host::report(wrong, "%lldx%lld, %lld taps, %s", (long long)k.rows, (long long)k.w, (long long)k.kw,
                         name_of(k.border));
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
