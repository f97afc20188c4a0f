// Parameters of this folder's kernels, for host and kernel.
#pragma once

#include <cstdint>

namespace torch_conv::cuda {

// kernel_upload.cuh: host bytes that travel with the launch.
constexpr int kChunkBytes = 32000;  // parameters of a kernel hold 32764 bytes

struct Chunk {
  unsigned char bytes[kChunkBytes];
};

// kernel_copy.cuh: a cuda::BlockCopy in words, `count` blocks of `words` words each. Pitches are in bytes.
struct WordCopy {
  const unsigned char* from;
  unsigned char* to;
  int64_t from_pitch, to_pitch;
  int64_t words, count;
};

constexpr int kMostCopies = 32;      // of a launch; the boundary strips of a shard mostly take four
constexpr int kCopyThreads = 256;    // of a block
constexpr int kWordsAtOnce = 4;      // of a thread: all four loads are in flight at once
constexpr int kMostCopyBlocks = 64;  // of a copy; the interior's kernel takes the other multiprocessors meanwhile

struct WordCopies {
  WordCopy copies[kMostCopies];
};

// kernel_deliver.cuh: the handshake of ranks, processes of one host with a GPU and symmetric memory each.
constexpr int kMostRanks = 32;  // of a group; a thread each

struct Handshake {
  int64_t* flags[kMostRanks];  // by rank: this rank's flag in that rank's memory, the last call that it has written
  const int64_t* own_flags;    // by rank: the flags in this rank's memory
  unsigned* copied;            // blocks of the running kernel that have copied their words; 0 between kernels
  int64_t call;                // counted from 1, by all ranks alike
  int64_t timeout_ns;
  int ranks;
};

}  // namespace torch_conv::cuda
