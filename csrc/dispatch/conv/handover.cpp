#include "dispatch/conv/handover.h"

#include <algorithm>
#include <iterator>

#include "dispatch/conv/handover_table.h"

namespace torch_conv {

namespace {

using namespace handover;

// A row of the table or a convolution. A convolution has one bit of each set; its spans are one value, or everything
// where that value is unknown.
struct Properties {
  int sets[8];
  Span spans[6];
  int64_t multiple;
};
constexpr Properties properties_of(const Row& r) {
  return {{r.device, r.axes, r.kind, r.layout, r.type, r.steps, r.border, r.shape},
          {r.window, r.outputs, r.channels, r.side, r.short_side, r.values},
          r.multiple};
}

int shape_of(int axes, int64_t kd, int64_t kh, int64_t kw) {
  if (axes == 3) {
    if (kh != kw) return other;
    if (kd == kw) return kw == 3 || kw == 5 || kw == 7 ? odd : cube;
    return kd == 1 ? row : kw == 1 ? column : other;
  }
  if (kh == kw && (kw == 3 || kw == 5 || kw == 7)) return odd;
  if (kw == 1 && kh > 1) return column;
  return kh == 1 && kw > 1 ? row : other;
}

int type_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Float: return f32;
    case ScalarType::Half: return f16;
    case ScalarType::BFloat16: return bf16;
    case ScalarType::Double: return f64;
    default: return 0;  // the router has refused other types
  }
}

bool above_1(const Sizes& options) {
  return std::any_of(options.begin(), options.end(), [](int64_t n) { return n > 1 || n == kUnknown; });
}

Properties properties_of(const Convolution& c) {
  const int axes = c.axes();
  const size_t dims = c.size.size();
  const auto from_end = [&](const Sizes& values, int i) { return i <= axes ? values[values.size() - i] : 1; };
  const int64_t kd = from_end(c.weight, 3), kh = from_end(c.weight, 2), kw = from_end(c.weight, 1);
  const int64_t d = from_end(c.size, 3), h = from_end(c.size, 2), w = from_end(c.size, 1);
  Span window = just(std::max({kd, kh, kw})), outputs, side, short_side, values;
  if (axes == 1 && above_1(c.dilation))
    window = c.dilation[0] == kUnknown ? from(2 * kw - 1) : just((kw - 1) * c.dilation[0] + 1);
  if (c.weight[0] != kUnknown) outputs = just(c.weight[0] / c.groups);
  if (!any_unknown(c.size)) {
    side = just(axes == 1 ? w : axes == 2 ? std::min(w, 4 * h) : std::max(w, h));
    short_side = just(axes == 3 ? std::min({w, h, 2 * d}) : 1);
    const int64_t n = int(dims) == axes + 2 ? c.size[0] : 1;
    if (c.weight[0] != kUnknown) values = just(n * c.weight[0] * d * h * w);
  }
  const int64_t channels = c.weight[1] * c.groups;
  const int kind = c.weight[1] > 1 ? few : c.groups > 1 ? depthwise : single;
  const int steps = above_1(c.stride) ? strided : above_1(c.dilation) ? dilated : unit;
  const bool inner = c.strides[dims - axes - 1] == 1 && c.strides[dims - 1] != 1;
  return {{c.device, 1 << (axes - 1), kind, inner ? channels_last : channels_first, type_of(c.dtype), steps,
           c.padding_mode == "zeros" ? zeros : other_borders, shape_of(axes, kd, kh, kw)},
          {window, outputs, just(channels), side, short_side, values},
          channels};
}

enum class Match { no, maybe, yes };

Match match(const Properties& row, const Properties& c) {
  for (size_t i = 0; i < std::size(row.sets); ++i)
    if (!(row.sets[i] & c.sets[i])) return Match::no;
  if (c.multiple % row.multiple != 0) return Match::no;
  Match found = Match::yes;
  for (size_t i = 0; i < std::size(row.spans); ++i) {
    const Span &allowed = row.spans[i], &given = c.spans[i];
    if (given.high < allowed.low || given.low > allowed.high) return Match::no;
    if (given.low < allowed.low || given.high > allowed.high) found = Match::maybe;
  }
  return found;
}

}  // namespace

int64_t handover_row(const Convolution& conv) {
  if (conv.groups == kUnknown) return kUnknown;
  const Properties c = properties_of(conv);
  for (size_t i = 0; i < std::size(kTable); ++i) {
    const Match found = match(properties_of(kTable[i]), c);
    if (found != Match::no) return found == Match::yes ? int64_t(i) : kUnknown;
  }
  return -1;
}

}  // namespace torch_conv
