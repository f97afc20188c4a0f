// The header of csrc in C++.
#pragma once

#define add_zero_times add_zero_times_by_ptx
#include_next "core/cuda/half_bits.cuh"
#undef add_zero_times

namespace torch_conv {

template <typename T>
unsigned add_zero_times(unsigned word, unsigned sum) {
  T two[2];
  memcpy(two, &word, 4);
  const bool finite = std::isfinite(to_acc<float>(two[0])) && std::isfinite(to_acc<float>(two[1]));
  return finite ? sum : 0x7fff7fff;
}

}  // namespace torch_conv
