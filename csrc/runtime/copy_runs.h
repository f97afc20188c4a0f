// What host and kernel agree on for copies by a kernel.
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

constexpr int kMostRuns = 32;        // of a launch; the boundary strips of a shard are mostly four
constexpr int kCopyThreads = 256;    // of a block
constexpr int kWordsAtOnce = 4;      // of a thread: they are all asked for before the first is there
constexpr int kMostCopyBlocks = 64;  // for some runs; an interior has the other multiprocessors meanwhile

struct AllRuns {
  Runs runs[kMostRuns];
};

}  // namespace torch_conv::cuda
