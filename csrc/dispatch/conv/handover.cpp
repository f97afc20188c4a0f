#include "dispatch/conv/handover.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "dispatch/conv/handover_table.h"
#include "tensors/boxed.h"

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
  return {{r.device, r.axes, r.kind, r.layout, r.type, r.spacing, r.border, r.shape},
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
  const int spacing = above_1(c.stride) ? strided : above_1(c.dilation) ? dilated : unit;
  const bool inner = c.strides[dims - axes - 1] == 1 && c.strides[dims - 1] != 1;
  return {{c.device, 1 << (axes - 1), kind, inner ? channels_last : channels_first, type_of(c.dtype), spacing,
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

// The names of a set's bits; "" for all of them, and for the default if that is the first bit.
std::string names(int set, std::initializer_list<const char*> of, bool first_is_default = false) {
  if (set == (1 << of.size()) - 1 || set == all || (first_is_default && set == 1)) return "";
  std::string text;
  int bit = 1;
  for (const char* name : of) {
    if (set & bit) text += (text.empty() ? "" : " or ") + std::string(name);
    bit *= 2;
  }
  return text;
}

std::string range_text(const std::string& what, const Span& span) {
  const Span every;
  const std::string low = std::to_string(span.low), high = std::to_string(span.high);
  if (span.low == span.high) return what + " " + low;
  if (span.low > every.low && span.high < every.high) return what + " " + low + " to " + high;
  if (span.low > every.low) return what + " from " + low;
  return span.high < every.high ? what + " up to " + high : "";
}

std::string sentence_of(const Row& r) {
  const Ratio& m = r.measured;
  std::ostringstream text;
  text << "it takes " << m.least << " to " << m.most << " of our kernels' time, mostly " << m.mostly << " (";
  for (const std::string& part : {
           names(r.kind, {"depthwise", "one channel", "few channels"}),
           names(r.layout, {"channels first", "channels last"}),
           names(r.type, {"float32", "float16", "bfloat16", "float64"}),
           names(r.spacing, {"steps of 1", "strided", "dilated"}, true),
           names(r.border, {"zeros outside", "other borders"}, true),
           r.axes == volumes
               ? names(r.shape, {"3x3x3, 5x5x5 and 7x7x7", "kx1x1", "1xkxk", "other windows", "cubes of other sides"})
               : names(r.shape, {"3x3, 5x5 and 7x7", "columns", "lines", "other windows"}),
           range_text("windows", r.window),
           range_text("outputs a group", r.outputs),
           range_text("channels", r.channels),
           r.multiple > 1 ? "channels a multiple of " + std::to_string(r.multiple) : "",
           range_text(r.axes == signals ? "lengths" : "sides", r.side),
           range_text("shorter sides, and twice the depths,", r.short_side),
           range_text("values", r.values),
       })
    if (!part.empty()) text << part << "; ";
  text << "measured on " << (r.device == cuda ? "one NVIDIA H100" : "two threads of an AMD EPYC") << ")";
  return text.str();
}

const std::vector<std::string>& sentences() {
  static const std::vector<std::string> all_rows = [] {
    std::vector<std::string> rows;
    for (const Row& r : kTable) rows.push_back(sentence_of(r));
    return rows;
  }();
  return all_rows;
}

// A line for each row, as bytes (api/query.h has the reason).
Sizes reasons() {
  Sizes text;
  for (const std::string& sentence : sentences()) {
    text.insert(text.end(), sentence.begin(), sentence.end());
    text.push_back('\n');
  }
  return text;
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

const std::string& handover_reason(int64_t row) { return sentences()[row]; }

STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) { m.def("_handover_reasons() -> int[]"); }

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CompositeExplicitAutograd, m) {
  m.impl("_handover_reasons", boxed<&reasons, "_handover_reasons">);
}

}  // namespace torch_conv
