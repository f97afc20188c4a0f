// The same without instructions of a GPU.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv::box {

inline int add_halves(uint32_t halves, int weights, int sum) {
  return sum + int(halves & 0xffff) * int8_t(weights) + int(halves >> 16) * int8_t(weights >> 8);
}

inline float near_reciprocal(float x) { return std::nextafter(1 / x, 2.f); }

inline uint32_t load_word(const uint8_t* from) {
  if (reinterpret_cast<uintptr_t>(from) % 4 != 0) std::abort();
  uint32_t word;
  memcpy(&word, from, 4);
  return word;
}
inline uint2 load_words2(const uint8_t* from) {
  if (reinterpret_cast<uintptr_t>(from) % 8 != 0) std::abort();
  return {load_word(from), load_word(from + 4)};
}

inline const uint8_t* next_row(const uint8_t* row, int64_t stride) { return row + stride; }

}  // namespace torch_conv::box
