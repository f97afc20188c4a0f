#include "ops/long_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace torch_conv {

namespace {

constexpr int64_t kLeastRows = 32;    // of a tile
constexpr int64_t kLeastPiece = 256;  // numbers: two tiles
// Three launches instead of one are worth it from so many numbers on. One NVIDIA H100, us a call by the clock,
// 'constant', 5 | 31 taps, each as one launch, in pieces, F.conv1d: float32 2^18 numbers 38.8, 44.5, 19.4
// | 30.0, 35.8, 19.2; 2^20 39.2, 46.0, 19.9 | 43.1, 31.3, 22.4; 2^24 436, 72, 151 | 636, 126, 333 (a copy 48); float16
// 2^24 184, 43, 155 | 768, 79, 2083. Below 2^20 it is the host's time, of filter1d's own, too.
constexpr int64_t kLeastNumbers = int64_t(1) << 20;
constexpr int64_t kWord = 16;  // numbers, so that pieces start on 16 bytes of any dtype

// All planes' rows as those of one image, if they lie evenly.
std::optional<Image> rows_of_planes(const Image& x) {
  Image rows = x;
  rows.n = rows.c = rows.d = rows.h = 1;
  rows.stride_n = rows.stride_c = rows.stride_d = rows.stride_h = 0;
  for (const auto& [size, stride] : {std::pair{x.h, x.stride_h}, {x.c, x.stride_c}, {x.n, x.stride_n}}) {
    if (size == 1) continue;
    if (rows.h == 1) rows.stride_h = stride;
    else if (stride != rows.h * rows.stride_h) return std::nullopt;
    rows.h *= size;
  }
  return rows;
}

Image columns(Image x, int64_t first, int64_t count) {
  x.data = static_cast<char*>(x.data) + first * x.stride_w * size_of(x.dtype);
  x.w = count;
  return x;
}

// Outputs [begin, end) of every row.
Direct outputs(const Direct& p, int64_t begin, int64_t end) {
  Direct q = p;
  q.out = columns(p.out, begin, end - begin);
  q.place.pad_x -= begin;
  return q;
}

// Rows become channels, their pieces rows.
Image pieces(const Image& rows, int64_t first, int64_t length, int64_t width) {
  Image x = columns(rows, first, width);
  x.c = rows.h, x.stride_c = rows.stride_h;
  x.h = kLeastRows, x.stride_h = length * rows.stride_w;
  return x;
}

}  // namespace

std::vector<Direct> long_rows(const Direct& p) {
  const Placement& at = p.place;
  const bool one_row = p.kh == 1 && at.pad_y == 0 && at.stride_y == 1 && p.in.h == p.out.h;
  const bool alike = p.one_window() && !p.bias && p.groups == p.in.c && p.in.c == p.out.c && !p.beside.any();
  if (!one_row || !alike || p.in.d != 1 || p.in.h >= kLeastRows) return {};
  const auto in = rows_of_planes(p.in), out = rows_of_planes(p.out);
  if (!in || !out) return {};
  Direct q = p;
  q.in = *in, q.out = *out, q.groups = 1;
  if (in->h >= kLeastRows) return {q};

  const int64_t span = (p.kw - 1) * at.dilation_x, begin = at.pad_x;
  const int64_t inside = std::min(out->w, in->w + at.pad_x - span) - begin;
  const int64_t length = inside / kLeastRows / kWord * kWord, end = begin + kLeastRows * length;
  // A row's ends are small, and have no products of matrices; those lose under windows of one row anyway.
  if (length < kLeastPiece || in->h * in->w < kLeastNumbers || begin < 0 || at.stride_x != 1 ||
      p.sums == Sums::products)
    return {};
  Direct middle = q;
  middle.in = pieces(q.in, 0, length, length + span), middle.out = pieces(q.out, begin, length, length);
  middle.place.pad_x = 0, middle.groups = middle.in.c;
  if (!at.normalized) middle.place.border = Border::constant, middle.place.value = 0;  // no window meets it
  std::vector<Direct> parts{middle};
  if (begin > 0) parts.push_back(outputs(q, 0, begin));
  if (end < out->w) parts.push_back(outputs(q, end, out->w));
  return parts;
}

}  // namespace torch_conv
