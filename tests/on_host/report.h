// What a program here prints of its cases, and its exit status.
#pragma once

#include <cstdio>
#include <string>

namespace on_host {

// A line: `what` (as printf has it), and "right" or what is wrong. Is it right?
template <typename... Args>
bool report(const std::string& wrong, const char* what, const Args&... args) {
  std::printf(what, args...);
  std::printf(": %s\n", wrong.empty() ? "right" : wrong.c_str());
  std::fflush(stdout);
  return wrong.empty();
}

// Checks all cases, also behind one that is wrong.
template <typename Cases, typename Check>
int status_of(const Cases& cases, const Check& check) {
  bool right = true;
  for (const auto& k : cases) right = check(k) && right;
  return right ? 0 : 1;
}

}  // namespace on_host
