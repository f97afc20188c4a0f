// What this family's launches and kernels agree on.
#pragma once

#include "kernels/causal/problem.h"

namespace torch_conv::causal {

// Blocks, and groups of lanes, that kernels count in 32 bits.
constexpr int64_t kLargestGrid = (int64_t(1) << 31) - 1024;

// i / divisor for i below 2^31, by a multiplication: a division is 25 instructions.
struct Divide {
  unsigned divisor, magic, shift;
  static Divide by(int64_t divisor) {
    unsigned shift = 0;
    while ((int64_t(1) << shift) < divisor) ++shift;
    const uint64_t magic = (uint64_t(1) << 32) * ((uint64_t(1) << shift) - uint64_t(divisor)) / uint64_t(divisor) + 1;
    return {unsigned(divisor), unsigned(magic), shift};
  }
#ifdef __CUDACC__
  __device__ __forceinline__ unsigned of(unsigned i) const { return (__umulhi(i, magic) + i) >> shift; }
#endif
};

struct GeneralArgs {
  CausalConv p;
  int64_t fours;        // groups of four outputs a sequence and channel
  int64_t threads;      // that compute; behind them one for each element of `after`
  int64_t all;          // in all
  bool channels_inner;  // lanes follow the channels, which lie innermost in memory
};

// ROWS: a group of lanes takes J vectors of 16 bytes a lane. bf16 16x2048x4096, k = 4, share of copy on one NVIDIA
// H200: J = 1 0.989 (0.887 with silu), 2 0.996 (0.998), 4 0.973 (0.964).
constexpr int kRowsWarps = 4;  // a block

// How rows lie: `whole` all of x and out are whole vectors on 16 bytes; `alike` a row of x and its row of out lie alike
// on them; `apart` they do not, and x is loaded element by element.
enum class Lie : int8_t { whole, alike, apart };

// Where a tensor's sequences and channels start, by products of 32 bits.
struct Starts {
  unsigned stride_n, stride_c, stride_l;
  static Starts of(const Signal& s) { return {unsigned(s.stride_n), unsigned(s.stride_c), unsigned(s.stride_l)}; }
};

struct RowsArgs {
  CausalConv p;
  Starts x, out;
  Divide groups, channels;  // groups of lanes a row
  unsigned rows;
  int lanes_log2;   // of a group
  const void* end;  // of x: no load goes beyond
};

// CHANNELS: a lane takes kChannels channels over kSteps steps; the warps of a block follow one another along L.
constexpr int kChannels = 4;  // 8: 0.968 of copy, 4: 0.994 (one NVIDIA H200, bf16 16x4096x2048 k = 4, channels last)
constexpr int kSteps = 8;     // 16: 0.988, 32: 0.972
constexpr int kChannelsWarps = 4;

struct ChannelsArgs {
  CausalConv p;
  Starts x, out;
  Divide across, along;  // blocks over the channels, over the length
};

struct UpdateArgs {
  CausalUpdate p;
  Divide across;  // blocks over the channels
};

// STEP: a lane takes 4 channels.
constexpr int kStepThreads = 128;

}  // namespace torch_conv::causal
