// The text of all source files of kernels, as a table in this module. The compiler reads the table at run time.
// setup.py writes the table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torch_conv::cuda {

struct SourceFile {
  const char* name;  // as #include names it
  uint64_t hash;     // of the text
  const char* text;
};

extern const SourceFile kSourceFiles[];
extern const int kSourceFileCount;

// A file and all that it includes, itself first. Throws std::logic_error for one that is not in the table.
const std::vector<const SourceFile*>& sources_of(const std::string& file);

// FNV-1a.
constexpr uint64_t kHashStart = 14695981039346656037ull;
inline uint64_t hash_of(std::string_view text, uint64_t hash = kHashStart) {
  for (const unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}
std::string hex(uint64_t number);

}  // namespace torch_conv::cuda
