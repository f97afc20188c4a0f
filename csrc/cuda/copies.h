// What host and kernel agree on for copies between devices.
#pragma once

#include <cstdint>

namespace torch_conv::cuda {

// `count` runs of as many words each, some bytes apart.
struct Runs {
  const unsigned char* from;
  unsigned char* to;
  int64_t from_pitch, to_pitch;
  int64_t words, count;
};

constexpr int kMostRuns = 32;        // of a launch, whose parameters hold 32 KB
constexpr int kCopyThreads = 256;    // of a block
constexpr int kWordsAtOnce = 4;      // of a thread, so that it waits for another device once
constexpr int kMostCopyBlocks = 64;  // for some runs: a link between devices is full with fewer

struct AllRuns {
  Runs runs[kMostRuns];
};

}  // namespace torch_conv::cuda
