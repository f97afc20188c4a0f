// Rows to other ranks of the host, for torch_conv/distributed/_mailbox.py.
#include <atomic>
#include <chrono>
#include <span>
#include <thread>

#include "graph/graph_cache.h"
#include "graph/launch_graph.h"
#include "runtime/copy.h"
#include "sharding/split_copies.h"
#include "tensors/boxed.h"
#include "tensors/checks.h"
#include "tensors/lazy_bits.h"

namespace torch_conv {

namespace {

// Where a call's rows go, in memory of the host that Python has filled once: a torch list takes 1 us for every few
// numbers.
//
//   ranks, arrived, delivered | by rank: where this one says that it has come | by run: first row, rows, their place
//
// `arrived` is where the ranks say it to this one, a word each, and one more for the kernel (runtime/meeting.h).
// `delivered` is the last call whose rows went there.
struct Addresses {
  explicit Addresses(const Tensor& route)
      : words(static_cast<int64_t*>(route.data_ptr()), size_t(route.numel())),
        told(words.subspan(3, size_t(words[0]))),
        runs(words.subspan(3 + told.size())) {}

  std::span<int64_t> words, told, runs;
};

template <typename T>
T* pointer(int64_t address) {
  return reinterpret_cast<T*>(address);
}

void deliver(const Tensor& local, int64_t dim, const Tensor& route, int64_t call, int64_t timeout_ms) {
  check(route.is_cpu() && route.scalar_type() == ScalarType::Long && route.numel() > 3, "_deliver",
        "route must be int64 on the CPU");
  const Addresses to(route);
  check(to.told.size() <= cuda::kMostRanks && to.runs.size() % 3 == 0, "_deliver", "route must name at most ",
        cuda::kMostRanks, " ranks, and a place for every run");
  const int device = local.get_device_index();
  std::vector<cuda::BlockCopy> copies;
  std::vector<Tensor> dense;  // until the kernel is queued
  for (size_t i = 0; i < to.runs.size(); i += 3) {
    const int64_t first = to.runs[i], rows = to.runs[i + 1];
    void* const place = pointer<void>(to.runs[i + 2]);
    auto blocks = dense_blocks_of(place, local, first, rows, dim);
    if (!blocks) {  // another memory format's
      dense.push_back(torch::stable::contiguous(narrow(local, dim, first, rows)));
      blocks = dense_blocks_of(place, dense.back(), 0, rows, dim);
    }
    copies.push_back(*blocks);
  }
  cuda::Meeting meeting{};
  meeting.ranks = int(to.told.size());
  for (int rank = 0; rank < meeting.ranks; ++rank) meeting.told[rank] = pointer<int64_t>(to.told[rank]);
  meeting.arrived = pointer<int64_t>(to.words[1]);
  meeting.copied = pointer<unsigned>(to.words[1] + int64_t(sizeof(int64_t)) * meeting.ranks);
  meeting.call = call;
  meeting.timeout_ns = timeout_ms * 1'000'000;
  cuda::deliver(device, copies, meeting, cuda::current_stream(device));
  to.words[2] = call;
}

// As the dispatcher calls it.
void run_deliver(Tensor local, int64_t dim, Tensor route, int64_t call, int64_t timeout_ms) {
  deliver(local, dim, route, call, timeout_ms);
}

// What the ranks tell each other of a call, in memory that they share (torch_conv/distributed/_meeting.py): a line of
// the cache for each, of which four words are used, the last one their check.
class Said {
 public:
  Said(const Tensor& rows, int64_t rank)
      : words_(static_cast<const int64_t*>(rows.data_ptr())),
        ranks_(rows.numel() / kWords),
        mine_(words_ + rank * kWords) {}

  // Do all say the same? Waits for them, but not for long; where somebody has said something else, not at all.
  bool is_alike() const {
    const auto since = std::chrono::steady_clock::now();
    for (int64_t rank = 0; rank < ranks_; ++rank)
      for (int looks = 0; !same(words_ + rank * kWords); ++looks) {
        if (looks < kSpins) continue;
        if (differs(words_ + rank * kWords) || std::chrono::steady_clock::now() - since > kLongest) return false;
        std::this_thread::yield();
      }
    return true;
  }

 private:
  static constexpr int64_t kWords = 8;
  // Looks before a rank yields: some microseconds, as long as ranks in step wait for each other. Four processes, an
  // NVIDIA H100 each, verified calls of 3x3 over 8192², us a call in queues of 400, each in two runs: 30 looks 59 and
  // 62, 1000 looks 60 and 60, 30000 looks 65 and 62. So 30 to 1000 are alike, and more are no better.
  static constexpr int kSpins = 1000;
  // Longer waits are Python's: it sees to signals, and to ranks that are gone.
  static constexpr std::chrono::milliseconds kLongest{10};

  static int64_t word(const int64_t* at) {
    return std::atomic_ref(const_cast<int64_t&>(*at)).load(std::memory_order_acquire);
  }
  bool same(const int64_t* row) const {
    for (int i = 0; i < 4; ++i)
      if (word(row + i) != mine_[i]) return false;
    return true;
  }
  // Is a row of this round there, and another than this rank's?
  bool differs(const int64_t* row) const {
    const int64_t round = word(row), digest = word(row + 1), said = word(row + 2);
    return round == mine_[0] && word(row + 3) == (round ^ digest ^ said) && !same(row);
  }

  const int64_t* words_;
  int64_t ranks_;
  const int64_t* mine_;
};

std::vector<Tensor> deliver_and_repeat(std::vector<Tensor> given, int64_t own, int64_t number,
                                       std::optional<Tensor> said, int64_t rank, int64_t dim, Tensor route,
                                       int64_t call, int64_t timeout_ms) {
  const Tensor& local = given[own];
  const auto graph = SplitStreams::in_graph({local}) ? nullptr : graph_of_number(number, given);
  if (!graph || (said && !Said(*said, rank).is_alike())) return {};
  deliver(local, dim, route, call, timeout_ms);
  return graph->replay(given);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) {
  m.impl("_deliver", boxed<&run_deliver, "_deliver">);
  m.impl("_deliver_and_repeat", boxed<&deliver_and_repeat, "_deliver_and_repeat">);
  register_for_lazy_bits("_deliver", boxed_for_lazy_bits<&run_deliver, "_deliver", 2>);
  register_for_lazy_bits("_deliver_and_repeat", boxed_for_lazy_bits<&deliver_and_repeat, "_deliver_and_repeat", 6>);
}

}  // namespace torch_conv
