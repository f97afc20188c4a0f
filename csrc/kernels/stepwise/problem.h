// Weighted sums in float64 over images of any number of axes. Terms are added in a given order, and each product and
// addition is rounded. Sums become elements as C converts: towards zero, then the lowest bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/border.h"
#include "core/ranges.h"

namespace torch_conv::stepwise {

enum class Element : int8_t { u8, i8, u16, i16, u32, i32, u64, i64, f32, f64 };

// Calls f(T{}) with the element type.
template <typename F>
decltype(auto) with_element(Element e, F&& f) {
  switch (e) {
    case Element::u8: return f(uint8_t{});
    case Element::i8: return f(int8_t{});
    case Element::u16: return f(uint16_t{});
    case Element::i16: return f(int16_t{});
    case Element::u32: return f(uint32_t{});
    case Element::i32: return f(int32_t{});
    case Element::u64: return f(uint64_t{});
    case Element::i64: return f(int64_t{});
    case Element::f32: return f(float{});
    case Element::f64: return f(double{});
  }
  __builtin_unreachable();
}

// `n` positions, and a window of k taps along them. Tap `anchor` is on the pixel.
struct Axis {
  int64_t n, k = 1, anchor = 0;
};

struct Problem {
  const void* in;  // contiguous like `out`; both may be the same memory where `whole_lines` is set
  void* out;
  Element in_type, out_type;
  std::vector<Axis> axes;  // two at least
  int64_t channels = 1;    // interleaved channels of a pixel, which share the window
  Border border;
  double value;  // of the border `constant`
  // The terms in order, each with one tap per axis.
  std::vector<double> weights;
  std::vector<int64_t> taps;
  // 1 or -1: in all terms but the first, the pixel under the mirrored tap is added or subtracted before the product.
  int twins = 0;
  double start = 0;            // of each sum
  int64_t mean_of = 0;         // pixels of a mean along the one axis with a window, by terms if there are any; or 0
  bool whole_numbers = false;  // sums of the image and of `value` are exact
  bool by_magnitude = false;   // negative sums convert to uint64 by their magnitude
  bool whole_lines = false;    // tiles cover the image along the one axis with a window
};

// A tile of outputs is `rows` by `columns` pixels of the last two axes. A block of float64 holds the pixels under its
// windows: `block_rows` rows of `pitch` numbers for every combination of taps along the other axes.
struct Tiling {
  int64_t rows, columns, block_rows, pitch, blocks, down, across, tiles;

  int64_t scratch() const { return blocks * block_rows * pitch; }
};

Tiling tiling_of(const Problem& p);
void run_cpu(const Problem& p);

}  // namespace torch_conv::stepwise
