#include "api/query.h"

namespace torch_conv {

Purpose purpose_of(const char* op, const std::string& question, bool is_split) {
  if (question == "explain") return Purpose::explain;
  if (question == "prepare") return Purpose::prepare;
  if (question == "footprint" && !is_split) return Purpose::footprint;
  refuse(op, "question must be 'explain', 'prepare' or ", is_split ? "'recorded'" : "'footprint'", ", got '", question,
         "'");
}

Sizes answer_of(const Call& call) {
  Sizes numbers;
  if (!call.only_footprint()) {
    for (const char byte : *call.lines) numbers.push_back(static_cast<unsigned char>(byte));
    return numbers;
  }
  for (const AxisFootprint& r : call.footprint.axis)
    numbers.insert(numbers.end(), {r.pad, r.length, r.stride, r.middle, r.out, r.group});
  numbers.push_back(int64_t(call.footprint.border));
  return numbers;
}

}  // namespace torch_conv
