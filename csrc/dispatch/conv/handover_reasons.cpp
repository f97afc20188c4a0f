// The rows of the table of handovers as sentences.
#include <sstream>
#include <string>
#include <vector>

#include "dispatch/conv/handover.h"
#include "dispatch/conv/handover_table.h"
#include "tensors/boxed.h"

namespace torch_conv {

namespace {

using namespace handover;

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
           names(r.steps, {"steps of 1", "strided", "dilated"}, true),
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

const std::string& handover_reason(int64_t row) { return sentences()[row]; }

STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) { m.def("_handover_reasons() -> int[]"); }

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CompositeExplicitAutograd, m) {
  m.impl("_handover_reasons", boxed<&reasons, "_handover_reasons">);
}

}  // namespace torch_conv
