#include "runtime/copy.h"

#include <algorithm>

#include "core/problem.h"
#include "runtime/launch.h"
#include "runtime/params.h"

namespace torch_conv::cuda {

namespace {

struct Word {
  int bytes;
  const char* type;
};

// The widest word that divides all copies' addresses, pitches and sizes.
Word word_of(std::span<const BlockCopy> copies) {
  static constexpr Word words[] = {
      {16, "uint4"}, {8, "uint2"}, {4, "unsigned"}, {2, "unsigned short"}, {1, "unsigned char"}};
  return *std::find_if(std::begin(words), std::end(words), [&](const Word& word) {
    return std::all_of(copies.begin(), copies.end(), [&](const BlockCopy& c) {
      const auto is_multiple = [&](int64_t count) { return count % word.bytes == 0; };
      const auto at = [](const RowBlocks& blocks) { return int64_t(reinterpret_cast<uintptr_t>(blocks.data)); };
      const bool pitches = c.count == 1 || (is_multiple(c.to.pitch) && is_multiple(c.from.pitch));
      return is_multiple(at(c.to)) && is_multiple(at(c.from)) && is_multiple(c.bytes) && pitches;
    });
  });
}

// The parameters and the grid of one launch, which makes at most kMostCopies copies.
struct CopyLaunch {
  CopyLaunch(std::span<const BlockCopy> copies, int word, bool is_last)
      : blocks{1, unsigned(std::max<size_t>(1, copies.size()))}, is_last(is_last) {
    int64_t most = 1;
    for (size_t i = 0; i < copies.size(); ++i) {
      const BlockCopy& c = copies[i];
      const int64_t words = c.bytes / word;
      all.copies[i] = {static_cast<const unsigned char*>(c.from.data),
                       static_cast<unsigned char*>(c.to.data),
                       c.from.pitch,
                       c.to.pitch,
                       words,
                       c.count};
      most = std::max(most, words * c.count);
    }
    blocks.x = std::min<int64_t>(ceil_div(most, kCopyThreads * kWordsAtOnce), kMostCopyBlocks);
  }

  WordCopies all{};
  GridSize blocks;
  bool is_last;
};

// At least one launch, also where there are no copies.
template <typename F>
void for_each_launch(std::span<const BlockCopy> copies, int word, const F& launch) {
  do {
    const auto some = copies.first(std::min<size_t>(copies.size(), kMostCopies));
    copies = copies.subspan(some.size());
    launch(CopyLaunch(some, word, copies.empty()));
  } while (!copies.empty());
}

}  // namespace

CopyKernel copy_kernel(std::span<const BlockCopy> copies) {
  const Word word = word_of(copies);
  const Arch& arch = arch_of(copies[0].to.device);
  const Kernel kernel = kernel_of("runtime/kernel_copy.cuh", "cuda::copy_runs", {word.type});
  if (!offers(kernel, arch)) return {};
  const OnDevice current(copies[0].to.device);
  return {&load(kernel, arch), word.bytes};
}

void copy_by_kernel(const CopyKernel& by, std::span<const BlockCopy> copies, void* stream) {
  const OnDevice current(copies[0].to.device);
  for_each_launch(copies, by.word, [&](const CopyLaunch& launch) {
    launch_kernel(*by.kernel, launch.blocks, {kCopyThreads}, 0, stream, launch.all);
  });
}

void deliver(int device, std::span<const BlockCopy> copies, const Handshake& handshake, void* stream) {
  const OnDevice current(device);
  const Word word = word_of(copies);
  const LoadedKernel& kernel =
      load(kernel_of("runtime/kernel_deliver.cuh", "cuda::deliver_runs", {word.type}), arch_of(device));
  for_each_launch(copies, word.bytes, [&](const CopyLaunch& launch) {
    Handshake here = handshake;
    if (!launch.is_last) here.ranks = 0;  // no flag is set before the last
    launch_kernel(kernel, launch.blocks, {kCopyThreads}, 0, stream, launch.all, here);
  });
}

}  // namespace torch_conv::cuda
