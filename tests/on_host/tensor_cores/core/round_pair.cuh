// The header of csrc in C++.
#pragma once

#define round_pair round_pair_by_ptx
#include_next "core/round_pair.cuh"
#undef round_pair

namespace torch_conv {

template <typename T>
unsigned round_pair(float low, float high) {
  const T two[2] = {from_acc<T>(low), from_acc<T>(high)};
  unsigned word;
  memcpy(&word, two, 4);
  return word;
}

}  // namespace torch_conv
