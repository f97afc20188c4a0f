// What host and kernel agree on for uploads.
#pragma once

namespace torch_conv::cuda {

constexpr int kChunkBytes = 32000;  // parameters of a kernel hold 32764 bytes

struct Chunk {
  unsigned char bytes[kChunkBytes];
};

}  // namespace torch_conv::cuda
