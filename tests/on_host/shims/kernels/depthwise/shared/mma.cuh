// The header of csrc in C++. Shared memory is a thread's storage: its addresses differ in their low 32 bits alone.
#pragma once

#include "core/activation.h"
#include "core/cuda/half_bits.cuh"
#include "core/cuda/mma.cuh"
#include "core/cuda/round_pair.cuh"

namespace torch_conv::depthwise {

inline thread_local unsigned char in_shared_memory;

template <typename Word>
Word& shared_word(unsigned at) {
  unsigned char* const known = &in_shared_memory;
  unsigned char* const to = known + int32_t(at - unsigned(reinterpret_cast<uintptr_t>(known)));
  if (reinterpret_cast<uintptr_t>(to) % alignof(Word)) std::abort();
  return *reinterpret_cast<Word*>(to);
}

inline unsigned read_word(unsigned at) { return shared_word<unsigned>(at); }
inline unsigned read_half(unsigned at) { return shared_word<uint16_t>(at); }
inline void write_word(unsigned at, unsigned word) { shared_word<unsigned>(at) = word; }
inline void write_half(unsigned at, unsigned half) { shared_word<uint16_t>(at) = uint16_t(half); }
inline uint2 read_two(unsigned at) {
  if (at % 8) std::abort();
  return {read_word(at), read_word(at + 4)};
}
inline void load_both(unsigned& a, unsigned& b, unsigned from) {
  const uint2 two = read_two(from);
  a = two.x, b = two.y;
}
inline void store_both_if(bool condition, unsigned to, unsigned a, unsigned b) {
  if (to % 8) std::abort();
  if (condition) write_word(to, a), write_word(to + 4, b);
}

template <typename T, Activation kind>
unsigned output_pair(float low, float high) {
  return round_pair<T>(activated<kind>(low), activated<kind>(high));
}

}  // namespace torch_conv::depthwise
