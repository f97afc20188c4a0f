// The handshake of ranks: processes of one host, with a GPU and symmetric memory each. For host and kernel.
#pragma once

#include <cstdint>

namespace torch_conv::cuda {

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
