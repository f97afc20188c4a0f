// Schemas of operators, in the files of their families. Defaults are those of torch_conv.functional.
#pragma once

#include <string>

#include "tensors/torch_api.h"

namespace torch_conv {

// Defines X(Tensor input, ...) -> Tensor and its forms X_split, _X_query and _X_split_query (api/operator.h).
void define(torch::stable::detail::StableLibrary& m, const std::string& schema);

// Defines X_out too, with Tensor(a!) out instead of `output_dtype`. Its `mode` is `derivative`, because torch.compile
// takes no operator that writes into an argument and has one called mode (auto_functionalized_v2).
void define_with_out(torch::stable::detail::StableLibrary& m, const std::string& schema);

// "_X_query(str question, ..., Tensor? out=None) -> int[]" for a schema of X.
std::string query_schema(const std::string& schema);

}  // namespace torch_conv
