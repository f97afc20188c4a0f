// The header of csrc in C++.
#pragma once

#define round_pair round_pair_by_ptx
#define round_bytes round_bytes_by_ptx
#include_next "core/round_pair.cuh"
#undef round_pair
#undef round_bytes

namespace torch_conv {

template <typename T>
unsigned round_pair(float low, float high) {
  const T two[2] = {from_acc<T>(low), from_acc<T>(high)};
  unsigned word;
  memcpy(&word, two, 4);
  return word;
}

inline unsigned round_bytes(float low, float high) {
  return from_acc<uint8_t>(low) | unsigned(from_acc<uint8_t>(high)) << 8;
}

}  // namespace torch_conv
