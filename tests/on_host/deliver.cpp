// A rank's rows into the others' symmetric memory, on the host: the rows, the flags, and the ranks that it waits for.
// Blocks run one after the other here; tests/test_symmetric_memory.py runs them on a GPU.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda.h"
#include "runtime/signal.cuh"
#include "runtime/kernel_deliver.cuh"
#include "report.h"

using namespace torch_conv::cuda;

namespace {

struct Case {
  const char* what;
  int ranks, me;
  std::vector<int> rows;  // of each run that goes out, one to each of the next ranks
  int64_t call;
  unsigned blocks;
  bool late = false;  // does another rank come while this one waits?
};

const Case kCases[] = {
    {"two ranks", 2, 0, {3}, 1, 2},
    {"between two others", 3, 1, {2, 5}, 7, 3},
    {"several runs, more blocks than words", 4, 3, {1, 1, 2, 1}, 1LL << 40, 9},
    {"nothing to send", 3, 2, {}, 4, 1},
    {"waits for who comes last", 3, 0, {4}, 5, 2, true},
};

constexpr int kWidth = 37, kHeight = 11, kPlanes = 3;  // of the shard

bool check(const Case& k) {
  std::mt19937 random(5);
  std::vector<unsigned> shard(kPlanes * kHeight * kWidth);
  for (unsigned& word : shard) word = random();
  std::vector<std::vector<unsigned>> there;  // of each run
  WordCopies all{};
  for (size_t i = 0; i < k.rows.size(); ++i) there.emplace_back(kPlanes * k.rows[i] * kWidth + 1, 77u);
  for (size_t i = 0; i < k.rows.size(); ++i)
    all.copies[i] = {reinterpret_cast<const unsigned char*>(shard.data() + i * kWidth),
                     reinterpret_cast<unsigned char*>(there[i].data()),
                     4 * kHeight * kWidth,
                     4 * k.rows[i] * kWidth,
                     k.rows[i] * kWidth,
                     kPlanes};

  // By rank: its flags, and the word for the kernel. The others have set theirs in this rank's memory.
  std::vector<std::vector<int64_t>> words(k.ranks, std::vector<int64_t>(k.ranks + 1, 0));
  for (int rank = 0; rank < k.ranks; ++rank) words[k.me][rank] = rank == k.me ? k.call - 1 : k.call;
  const int last = k.me == 0 ? 1 : 0;
  if (k.late) words[k.me][last] = k.call - 1;
  Handshake handshake{};
  handshake.ranks = k.ranks;
  for (int rank = 0; rank < k.ranks; ++rank) handshake.flags[rank] = &words[rank][k.me];
  handshake.own_flags = words[k.me].data();
  handshake.copied = reinterpret_cast<unsigned*>(&words[k.me][k.ranks]);
  handshake.call = k.call;
  handshake.timeout_ns = 60'000'000'000;

  std::atomic<bool> came = false;
  std::thread other([&] {
    if (!k.late) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    came = true;
    publish(&words[k.me][last], k.call);
  });
  on_host::launch(deliver_runs<unsigned>, {k.blocks, unsigned(std::max<size_t>(1, k.rows.size())), 1}, kCopyThreads,
                  all, handshake);
  std::string wrong;
  if (k.late && !came) wrong = "it did not wait";
  other.join();
  for (size_t i = 0; i < there.size(); ++i) {
    const int64_t run = k.rows[i] * kWidth;
    for (int64_t at = 0; at < kPlanes * run; ++at)
      if (there[i][at] != shard[at / run * kHeight * kWidth + i * kWidth + at % run]) wrong = "other words";
    if (there[i].back() != 77u) wrong = "words behind the run";
  }
  for (int rank = 0; rank < k.ranks; ++rank)
    if (words[rank][k.me] != k.call) wrong = "rank " + std::to_string(rank) + " has no flag";
  if (*handshake.copied != 0) wrong = "the count of blocks is left";
  return on_host::report(wrong, "%s", k.what);
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
