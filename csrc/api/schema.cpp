#include "api/schema.h"

namespace torch_conv {

namespace {

using torch::stable::detail::StableLibrary;

// Throws std::out_of_range if `text` does not hold `from`: the library does not load with a schema of another form.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

std::string with_suffix(std::string schema, const std::string& suffix) {
  return schema.insert(schema.find_first_of(".("), suffix);
}

std::string split_schema(const std::string& schema) {
  return with_suffix(replaced(replaced(schema, "Tensor input", "Tensor[] shards"), ") -> Tensor",
                              ", int dim=-2, int[]? wanted=None) -> Tensor[]"),
                     "_split");
}

std::string question_schema(const std::string& schema) {
  return "_" + with_suffix(replaced(schema, "(", "(str question, "), "_query");
}

}  // namespace

std::string query_schema(const std::string& schema) {
  return replaced(question_schema(schema), ") -> Tensor", ", Tensor? out=None) -> int[]");
}

void define(StableLibrary& m, const std::string& schema) {
  const std::string split = split_schema(schema);
  for (const std::string& form :
       {schema, split, query_schema(schema), replaced(question_schema(split), "-> Tensor[]", "-> int[]")})
    m.def(form.c_str());
}

void define_with_out(StableLibrary& m, const std::string& schema) {
  define(m, schema);
  std::string out = replaced(schema, "ScalarType? output_dtype=None, ", "");
  if (out.find("str mode=") != out.npos) out = replaced(out, "str mode=", "str derivative=");
  m.def(replaced(with_suffix(out, "_out"), ") -> Tensor", ", Tensor(a!) out) -> ()").c_str());
}

}  // namespace torch_conv

// The operators of csrc/sharding.
STABLE_TORCH_LIBRARY(torch_conv, m) {
  // The geometry of shards (sharding/geometry.h). A footprint is seven numbers (api/query.h).
  m.def("_borders() -> str[]");  // "constant zeros": a name and its aliases, in the order of Border (core/border.h)
  m.def("_shard_runs(int low, int high, int[] bounds, int border) -> int[]");
  m.def("_shard_piece(int first, int last, int rows, int[] footprint, int[] held) -> int[]");
  m.def("_shards_read(int[] sizes, int[] footprint) -> int[]");
  // Writes rows of a shard into other ranks' symmetric memory and shakes hands. The current stream's next work can read
  // the rows of the other ranks. `addresses` holds the addresses (sharding/deliver.cpp).
  m.def("_deliver(Tensor local, int dim, Tensor(a!) addresses, int call, int timeout_ms) -> ()");
  // Delivers the shard given[own], then runs the launch graph of number `graph` on `given`. The list is empty and
  // nothing ran if the graph does not fit.
  m.def(
      "_deliver_and_repeat(Tensor[] given, int own, int graph, int dim, Tensor(a!) addresses, int call, "
      "int timeout_ms) -> Tensor[]");
}
