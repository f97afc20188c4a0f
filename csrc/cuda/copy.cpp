#include "cuda/copy.h"

#include <algorithm>

#include "cuda/copy_runs.h"
#include "cuda/launch.h"

namespace torch_conv::cuda {

CopyKernel copy_kernel(std::span<const BlockCopy> copies) {
  struct Word {
    int bytes;
    const char* type;
  };
  static constexpr Word words[] = {
      {16, "uint4"}, {8, "uint2"}, {4, "unsigned"}, {2, "unsigned short"}, {1, "unsigned char"}};
  const auto of = [](int bytes) {
    return [bytes](const BlockCopy& c) {
      const auto whole = [bytes](int64_t count) { return count % bytes == 0; };
      const auto at = [](const RowBlocks& blocks) { return int64_t(reinterpret_cast<uintptr_t>(blocks.data)); };
      const bool pitches = c.count == 1 || (whole(c.to.pitch) && whole(c.from.pitch));
      return whole(at(c.to)) && whole(at(c.from)) && whole(c.bytes) && pitches;
    };
  };
  for (const Word& word : words) {
    if (!std::all_of(copies.begin(), copies.end(), of(word.bytes))) continue;
    const Arch& arch = arch_of(copies[0].to.device);
    const Kernel kernel = kernel_of("cuda/kernel_copy.cuh", "cuda::copy_runs", {word.type});
    if (!offers(kernel, arch)) break;
    const OnDevice current(copies[0].to.device);
    return {&load(kernel, arch), word.bytes};
  }
  return {};
}

void copy_by_kernel(const CopyKernel& by, std::span<const BlockCopy> copies, void* stream) {
  const OnDevice current(copies[0].to.device);
  for (; !copies.empty(); copies = copies.subspan(std::min<size_t>(copies.size(), kMostRuns))) {
    AllRuns all{};
    const int count = int(std::min<size_t>(copies.size(), kMostRuns));
    int64_t most = 1;
    for (int i = 0; i < count; ++i) {
      const BlockCopy& c = copies[i];
      const int64_t words = c.bytes / by.word;
      all.runs[i] = {static_cast<const unsigned char*>(c.from.data),
                     static_cast<unsigned char*>(c.to.data),
                     c.from.pitch,
                     c.to.pitch,
                     words,
                     c.count};
      most = std::max(most, words * c.count);
    }
    const int64_t blocks = std::min<int64_t>(ceil_div(most, kCopyThreads * kWordsAtOnce), kMostCopyBlocks);
    launch_kernel(*by.kernel, {blocks, unsigned(count)}, {kCopyThreads}, 0, stream, all);
  }
}

}  // namespace torch_conv::cuda
