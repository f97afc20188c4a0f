// The lines that a program of this folder prints, and its exit status.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
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

// A result at these positions that is not what is wanted.
template <typename Got, typename Want>
std::string difference(std::initializer_list<int64_t> at, Got got, Want want) {
  std::string text;
  for (const int64_t axis : at) text += (text.empty() ? "(" : ", ") + std::to_string(axis);
  return text + ") is " + std::to_string(got) + ", not " + std::to_string(want);
}

// use(n, c, y, x) for every pixel.
template <typename Image, typename Use>
void each_pixel(const Image& image, const Use& use) {
  for (int64_t n = 0; n < image.n; ++n)
    for (int64_t c = 0; c < image.c; ++c)
      for (int64_t y = 0; y < image.h; ++y)
        for (int64_t x = 0; x < image.w; ++x) use(n, c, y, x);
}

// The first pixel of `got` that has not the bits of `want`'s; all NaN are alike. get(image, n, c, y, x): a pixel.
template <typename Image, typename Get>
std::string other_bits(const Image& got, const Image& want, const Get& get) {
  std::string wrong;
  each_pixel(want, [&](int64_t n, int64_t c, int64_t y, int64_t x) {
    const double a = get(got, n, c, y, x), b = get(want, n, c, y, x);
    const bool same = a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b);
    if (wrong.empty() && !same) wrong = difference({n, c, y, x}, a, b);
  });
  return wrong;
}

// Checks all cases, also behind one that is wrong.
template <typename Cases, typename Check>
int status_of(const Cases& cases, const Check& check) {
  bool right = true;
  for (const auto& k : cases) right = check(k) && right;
  return right ? 0 : 1;
}

}  // namespace on_host
