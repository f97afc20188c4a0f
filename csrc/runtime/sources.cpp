#include "runtime/sources.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "core/fork_mutex.h"

namespace torch_conv::cuda {

namespace {

const SourceFile& source(std::string_view name) {
  for (int i = 0; i < kSourceFileCount; ++i)
    if (name == kSourceFiles[i].name) return kSourceFiles[i];
  throw std::logic_error("torch_conv: this build has no source " + std::string(name));
}

void add(std::string_view name, std::vector<const SourceFile*>& files) {
  const SourceFile& file = source(name);
  if (std::find(files.begin(), files.end(), &file) != files.end()) return;
  files.push_back(&file);
  constexpr std::string_view kInclude = "#include ";
  const std::string_view text = file.text;
  for (size_t at = text.find(kInclude); at != text.npos; at = text.find(kInclude, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    const size_t begin = at + kInclude.size() + 1;  // after the quote or bracket
    add(text.substr(begin, text.find_first_of("\">", begin) - begin), files);
  }
}

}  // namespace

const std::vector<const SourceFile*>& sources_of(const std::string& file) {
  static ForkMutex& mutex = *new ForkMutex;  // never destroyed: threads may compile while static objects end
  static auto& known = *new std::map<std::string, std::vector<const SourceFile*>>;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(file); found != known.end()) return found->second;
  std::vector<const SourceFile*> files;
  add(file, files);
  return known[file] = std::move(files);
}

std::string hex(uint64_t number) {
  std::string digits(16, '0');
  for (int i = 15; i >= 0; --i, number >>= 4) digits[i] = "0123456789abcdef"[number & 15];
  return digits;
}

}  // namespace torch_conv::cuda
