// Blocks of memory into a device's own memory, from any memory that the device can read.
//
//   blockIdx.y: the copy; blockIdx.x and threads: its words, block by block
#pragma once

#include "runtime/params.h"

namespace torch_conv::cuda {

template <typename Word>
__device__ __forceinline__ void copy_words(const WordCopy& copy) {
  const int64_t words = copy.words * copy.count, step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t first = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; first < words; first += step * kWordsAtOnce) {
    Word kept[kWordsAtOnce];
    int64_t block[kWordsAtOnce], word[kWordsAtOnce];
#pragma unroll
    for (int k = 0; k < kWordsAtOnce; ++k) {
      const int64_t i = first + k * step;
      if (i >= words) continue;
      block[k] = i / copy.words, word[k] = i - block[k] * copy.words;
      kept[k] = reinterpret_cast<const Word*>(copy.from + block[k] * copy.from_pitch)[word[k]];
    }
#pragma unroll
    for (int k = 0; k < kWordsAtOnce; ++k)
      if (first + k * step < words) reinterpret_cast<Word*>(copy.to + block[k] * copy.to_pitch)[word[k]] = kept[k];
  }
}

template <typename Word>
__global__ void copy_runs(const __grid_constant__ WordCopies all) {
  copy_words<Word>(all.copies[blockIdx.y]);
}

}  // namespace torch_conv::cuda
