// Runs of bytes into a device's memory, from where the device can read: also another device's.
//
//   blockIdx.y: which runs; blockIdx.x and threads: their words, one run after the other
#pragma once

#include "runtime/copy_runs.h"

namespace torch_conv::cuda {

template <typename Word>
__device__ __forceinline__ void copy_words(const Runs& runs) {
  const int64_t words = runs.words * runs.count, step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t first = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; first < words; first += step * kWordsAtOnce) {
    Word kept[kWordsAtOnce];
    int64_t run[kWordsAtOnce], word[kWordsAtOnce];
#pragma unroll
    for (int k = 0; k < kWordsAtOnce; ++k) {
      const int64_t i = first + k * step;
      if (i >= words) continue;
      run[k] = i / runs.words, word[k] = i - run[k] * runs.words;
      kept[k] = reinterpret_cast<const Word*>(runs.from + run[k] * runs.from_pitch)[word[k]];
    }
#pragma unroll
    for (int k = 0; k < kWordsAtOnce; ++k)
      if (first + k * step < words) reinterpret_cast<Word*>(runs.to + run[k] * runs.to_pitch)[word[k]] = kept[k];
  }
}

template <typename Word>
__global__ void copy_runs(const __grid_constant__ AllRuns all) {
  copy_words<Word>(all.runs[blockIdx.y]);
}

}  // namespace torch_conv::cuda
