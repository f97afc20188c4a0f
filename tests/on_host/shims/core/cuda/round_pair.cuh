// The header of csrc in C++.
#pragma once

#define round_pair round_pair_by_ptx
#define round_byte round_byte_by_ptx
#define round_bytes round_bytes_by_ptx
#include_next "core/cuda/round_pair.cuh"
#undef round_pair
#undef round_byte
#undef round_bytes

namespace torch_conv {

template <typename T>
unsigned round_pair(float low, float high) {
  const T two[2] = {from_acc<T>(low), from_acc<T>(high)};
  unsigned word;
  memcpy(&word, two, 4);
  return word;
}

inline unsigned round_byte(float x) { return from_acc<uint8_t>(x); }
inline unsigned round_bytes(float low, float high) { return round_byte(low) | round_byte(high) << 8; }

}  // namespace torch_conv
