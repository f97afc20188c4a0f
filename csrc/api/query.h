// Questions about a call that does not run, and their answers.
//
//     'explain'     a line for each kernel call, as text
//     'prepare'     the same; compiles and loads those kernels
//     'footprint'   for each axis d, h, w the pad, length, stride, middle, number of outputs and group; then the border
//     'recorded'    of a call on shards: the number of an earlier call's launch graph (graph/graph_cache.h), or 0
//
// An answer is a list of numbers, and a text a list of its bytes: torch 2.11 frees no string that an operator returns.
#pragma once

#include "graph/call.h"

namespace torch_conv {

constexpr const char* kRecorded = "recorded";

// The purpose of the call for a question.
Purpose purpose_of(const char* op, const std::string& question, bool is_split);

// The answer for a call that has filled in its footprint or appended its plans to `lines`.
Sizes answer_of(const Call& call);

// The answer to any question but kRecorded. `ask` makes the call. A call on shards has no footprint.
template <typename Ask>
Sizes answer(const char* op, const std::string& question, const Ask& ask, bool is_split = false) {
  std::string lines;
  const Purpose purpose = purpose_of(op, question, is_split);
  Call call{.op = op, .purpose = purpose, .lines = purpose == Purpose::footprint ? nullptr : &lines};
  ask(call);
  return answer_of(call);
}

}  // namespace torch_conv
