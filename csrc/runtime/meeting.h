// What host and kernel agree on where ranks meet: processes of one host, each with a GPU and a mailbox.
#pragma once

#include <cstdint>

namespace torch_conv::cuda {

constexpr int kMostRanks = 32;  // of a group; a thread each

struct Meeting {
  int64_t* told[kMostRanks];  // by rank: where this one says in that one's mailbox which call it has come to
  const int64_t* arrived;     // by rank: which call it has come to, in this one's mailbox
  unsigned* copied;           // blocks of the running kernel that have copied their words; 0 between kernels
  int64_t call;               // counted from 1, by all ranks alike
  int64_t timeout_ns;
  int ranks;
};

}  // namespace torch_conv::cuda
