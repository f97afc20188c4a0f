// Shared by box.cpp and box_depth.cpp: the memory of images and volumes, and the check of outputs.
#pragma once

#include <cstring>
#include <map>
#include <random>
#include <string>

#include "cuda.h"
#include "guarded.h"
#include "report.h"
using std::fma;
using std::fmaf;
#undef __shared__
#define __shared__
#include "kernels/box/order.h"
#include "core/dtype.h"
#include "core/problem.h"

namespace torch_conv::box {
alignas(128) unsigned char shared[1 << 18];
}

using namespace torch_conv;
using namespace torch_conv::box;

namespace {

const Dtype F = Dtype::f32, H = Dtype::f16, B = Dtype::bf16, D = Dtype::f64, U = Dtype::u8;

// An image or a volume of -7s. Its last element is the last one of its memory. If rows are whole words of up to 16
// bytes apart, they start on such words, and up to 15 bytes follow the last element.
struct Memory {
  std::span<char> bytes;
  std::vector<char> before;  // what stood there
  Image image;

  explicit Memory(Image x) : image(x) {
    constexpr int64_t kBefore = 256;  // no kernel may write there either
    const int64_t pitch = x.stride_h * size_of(x.dtype), word = std::min<int64_t>(pitch & -pitch, 16);
    const int64_t last = (x.n - 1) * x.stride_n + (x.c - 1) * x.stride_c + (x.d - 1) * x.stride_d +
                         (x.h - 1) * x.stride_h + (x.w - 1) * x.stride_w;
    const int64_t size = (last + 1) * size_of(x.dtype);
    bytes = on_host::guarded_memory(size + kBefore, -7.0);
    before.assign(bytes.begin(), bytes.end());
    image.data = bytes.data() + (int64_t(bytes.size()) - size) / word * word;
  }
};

template <typename Each>
void for_each_element(const Image& x, const Each& each) {
  for (int64_t n = 0; n < x.n; ++n)
    for (int64_t c = 0; c < x.c; ++c)
      for (int64_t z = 0; z < x.d; ++z)
        for (int64_t y = 0; y < x.h; ++y)
          for (int64_t at = 0; at < x.w; ++at) each(n, c, z, y, at);
}

template <typename Use>
auto with_element(const Image& x, int64_t n, int64_t c, int64_t z, int64_t y, int64_t at, const Use& use) {
  return with_type(x.dtype, [&](auto zero) {
    return use(static_cast<decltype(zero)*>(
        x.data)[n * x.stride_n + c * x.stride_c + z * x.stride_d + y * x.stride_h + at * x.stride_w]);
  });
}
double get(const Image& x, int64_t n, int64_t c, int64_t z, int64_t y, int64_t at) {
  return with_element(x, n, c, z, y, at, [](auto& element) { return to_acc<double>(element); });
}

void fill(const Image& x) {
  std::mt19937 make(1);
  for_each_element(x, [&](int64_t n, int64_t c, int64_t z, int64_t y, int64_t at) {
    with_element(x, n, c, z, y, at, [&](auto& element) {
      element = from_acc<std::decay_t<decltype(element)>>(float(make() % 100000) / 300 - 40);
    });
  });
}

// Positions of a window of k that lie inside an axis.
int64_t inside(int64_t first, int64_t k, int64_t length) {
  return std::max<int64_t>(0, std::min(first + k, length) - std::max<int64_t>(first, 0));
}

// The output that a window's sum becomes. `fits`: no border is counted in it; `count`: of its elements, inside.
template <typename A>
double ending(A sum, const Placement& place, bool fits, int64_t count, double scale, int64_t area, Dtype out) {
  if (place.border == Border::zero_output && !fits) sum = 0;
  else if (place.border == Border::skip && place.normalized) sum = count > 0 ? sum / A(count) : A(0);
  else if (scale != 1) sum = mean_of_sum(sum, reciprocal<A>(double(area)));
  return with_type(out, [&](auto zero) { return to_acc<double>(from_acc<decltype(zero)>(sum)); });
}

// The first fault: an output that differs from `want` at its position, or a write outside the output.
template <typename Want>
std::string judge(const Memory& to, const Want& want) {
  std::string wrong;
  for_each_element(to.image, [&](int64_t n, int64_t c, int64_t z, int64_t y, int64_t x) {
    if (!wrong.empty()) return;
    const double got = get(to.image, n, c, z, y, x), wanted = want(n, c, z, y, x);
    if (wanted != got) wrong = on_host::difference({n, c, z, y, x}, got, wanted);
    with_element(to.image, n, c, z, y, x, [&](auto& element) {
      memcpy(&element, to.before.data() + (reinterpret_cast<char*>(&element) - to.bytes.data()), sizeof(element));
    });
  });
  const bool kept = memcmp(to.bytes.data(), to.before.data(), to.before.size()) == 0;
  return !wrong.empty() || kept ? wrong : "something beside the output was written";
}

}  // namespace
