#include "dispatch/long_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace torch_conv {

namespace {

constexpr int64_t kLeastRows = 32;  // of a tile
// The least common multiple of tiles' heights: 24 rows (float32 of windows beyond 7, 16-bit numbers, bytes) and 32.
constexpr int64_t kPieces = 96;
constexpr int64_t kLeastPiece = 256;  // numbers: the widest tile
// The least numbers for several launches. A further launch takes the host 3 us. Time on the device by one launch, by
// pieces and by F.conv1d, us, border 'constant', one NVIDIA H100:
//
//                         2^18              2^19             2^20              2^24
//     float32,  5 taps     9.3, 4.8, 3.9    15.7, 4.8, 5.9   -, 5.4, 10.2      436, 52.8, 149 (a copy 48)
//     float32, 31 taps    12.6, 5.2, 6.8    22.3, 5.6, 11.7  -, 6.3, 21.5      636, 52.7, 331
//     float16,  5 taps     5.0, 4.4, 3.8                                       184, 29.6, 154
//     float16, 31 taps    14.3, 5.2, 35.9                                      768, 43.0, 2077
constexpr int64_t kLeastNumbers = int64_t(1) << 18;
constexpr int64_t kAlignment = 16;  // numbers, so that pieces start on 16 bytes of any dtype

// The rows of all planes as the rows of one image, if one stride leads from each to the next.
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

// Each row becomes an image of `count` rows, which start `step` numbers apart.
Image parts_of(const Image& rows, int64_t count, int64_t step, int64_t width) {
  Image x = columns(rows, 0, width);
  x.n = rows.h, x.stride_n = rows.stride_h;
  x.h = count, x.stride_h = step * rows.stride_w;
  return x;
}

int64_t span_of(const Direct& p) { return (p.kw - 1) * p.place.dilation_x; }

// The outputs from `begin` on that make equal pieces; nothing if the pieces would be short. The first input piece
// starts with the row, not with the first window, so that it starts on 16 bytes as its outputs do.
std::optional<Direct> middle_of(const Direct& p, int64_t begin) {
  const int64_t halo = round_up(begin - p.place.pad_x + span_of(p), 4);  // a multiple of 4 bytes for any dtype
  const int64_t length = std::min(p.in.w - halo, p.out.w - begin) / kPieces / kAlignment * kAlignment;
  if (length < kLeastPiece) return std::nullopt;
  Direct q = outputs(p, begin, p.out.w);
  q.in = parts_of(p.in, kPieces, length, length + halo), q.out = parts_of(q.out, kPieces, length, length);
  if (!p.place.normalized) q.place.border = Border::constant, q.place.value = 0;  // no window reads it
  return q;
}

// Both ends of every row in one image, whose outputs [0, begin) and from `end` on are right. Nothing if windows at one
// end read the other end, or if both ends would meet.
std::optional<Direct> ends_of(const Direct& p, int64_t begin, int64_t end) {
  const int64_t pad = p.place.pad_x, over = std::max<int64_t>(0, p.out.w + span_of(p) - pad - p.in.w);
  const int64_t most = std::min({end - pad, p.in.w - span_of(p) - begin - over - 1, p.out.w - begin});
  const int64_t step = most / kAlignment * kAlignment;
  // The wrong outputs next to a cut must be between `begin` and `end`.
  if (p.place.border == Border::circular || step < std::max(begin, p.out.w - end)) return std::nullopt;
  Direct q = p;
  q.in = parts_of(p.in, 2, step, p.in.w - step), q.out = parts_of(p.out, 2, step, p.out.w - step);
  return q;
}

}  // namespace

std::vector<Direct> long_rows(const Direct& p) {
  const Placement& at = p.place;
  const bool one_row = p.kh == 1 && at.pad_y == 0 && at.stride_y == 1 && p.in.h == p.out.h;
  const bool alike = p.one_window() && p.groups == p.in.c && p.in.c == p.out.c && !p.peers.any();
  // A bias has a number for each channel, and one image holds the rows of several channels.
  if (!one_row || !alike || (p.bias && p.in.c > 1) || p.in.d != 1 || p.in.h >= kLeastRows) return {};
  const auto in = rows_of_planes(p.in), out = rows_of_planes(p.out);
  if (!in || !out) return {};
  Direct q = p;
  q.in = *in, q.out = *out, q.groups = 1;
  if (in->h >= kLeastRows) return {q};

  const bool steps = at.stride_x == 1 && at.pad_x >= 0;
  // A row's ends are too small for mma, which is slower than chains for windows of one row.
  if (!steps || in->h * in->w < kLeastNumbers || p.sums == Sums::mma) return {};
  const int64_t begin = round_up(at.pad_x, kAlignment);
  const auto middle = middle_of(q, begin);
  if (!middle) return {};
  const int64_t end = begin + kPieces * middle->out.w, width = q.out.w;
  if (begin > 0 && end < width)
    if (const auto ends = ends_of(q, begin, end)) return {*ends, *middle};
  std::vector<Direct> parts;
  if (begin > 0) parts.push_back(outputs(q, 0, begin));
  if (end < width) parts.push_back(outputs(q, end, width));
  parts.push_back(*middle);
  return parts;
}

}  // namespace torch_conv
