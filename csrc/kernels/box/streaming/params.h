// STREAMING: chunks of rows, and the parts of shared memory.
#pragma once

#include "core/problem.h"

namespace torch_conv::box {

// H200, float32 k=200 at 4096^2, best cut of each (rows, stages): 4,2 87 us; 4,3 90; 8,2 94; 2,4 142; 2,3 152.
constexpr int kChunkRows = 4;     // output rows between two barriers
constexpr int kStages = 2;        // chunks in shared memory: one being summed, the rest being copied
constexpr int kMaxThreads = 512;  // 128 registers a thread

// Image columns whose sums one thread keeps: one copy of 4 to 16 bytes a row. 8 columns of small elements leave too few
// warps: uint8, k = 200, 4096^2 took 106 us against 78.
constexpr int columns_per_thread(int element_bytes) { return element_bytes == 8 ? 2 : 4; }

// The shared memory of a streaming block, in this order: the ring of entering and leaving rows, two buffers of prefix
// rows, and the totals of every warp's columns. With two buffers one barrier a chunk is enough.
struct StreamingBytes {
  int threads;
  int columns;  // tile and halo
  int ring_bytes, prefix_bytes, totals_bytes;

  constexpr int warps() const { return threads / 32; }
  constexpr int shared_bytes() const { return ring_bytes + prefix_bytes + totals_bytes; }
};

constexpr StreamingBytes streaming_bytes(int threads, int element_bytes, int sum_bytes, int chunk_rows = kChunkRows,
                                         int stages = kStages) {
  StreamingBytes s{};
  s.threads = threads;
  s.columns = threads * columns_per_thread(element_bytes);
  s.ring_bytes = stages * 2 * chunk_rows * s.columns * element_bytes;
  s.prefix_bytes = 2 * (chunk_rows * s.columns + 32 * columns_per_thread(element_bytes)) * sum_bytes;
  s.totals_bytes = 2 * chunk_rows * s.warps() * sum_bytes;
  return s;
}

}  // namespace torch_conv::box
