// Delivers rows to other ranks of the host, for torch_conv/distributed/_symmetric_memory.py.
#include <span>

#include "graph/graph_cache.h"
#include "graph/launch_graph.h"
#include "runtime/copy.h"
#include "sharding/split_copies.h"
#include "sharding/split_streams.h"
#include "tensors/boxed.h"
#include "tensors/checks.h"
#include "tensors/lazy_bits.h"

namespace torch_conv {

namespace {

// The addresses of a call, in a CPU tensor that Python fills once. (Reading a list from torch takes 1 us for every few
// numbers.)
//
//   ranks, own flags, delivered | by rank: this rank's flag in that rank's memory | by run: first row, rows, address
//
// `own flags`: the address of the flags that the ranks set in this rank's memory, and one more word for the kernel
// (runtime/params.h). `delivered`: the last call whose rows were written to these addresses.
struct Addresses {
  explicit Addresses(const Tensor& addresses) {
    check(addresses.is_cpu() && addresses.scalar_type() == ScalarType::Long && addresses.numel() > 3, "_deliver",
          "addresses must be int64 on the CPU");
    words = {static_cast<int64_t*>(addresses.data_ptr()), size_t(addresses.numel())};
    const uint64_t ranks = words[0];  // unsigned, so that the check refuses negative numbers
    check(ranks <= cuda::kMostRanks && 3 + ranks <= words.size() && (words.size() - 3 - ranks) % 3 == 0, "_deliver",
          "addresses must name at most ", cuda::kMostRanks, " ranks, and an address for every run");
    flags = words.subspan(3, ranks);
    runs = words.subspan(3 + ranks);
  }

  std::span<int64_t> words, flags, runs;
};

template <typename T>
T* pointer(int64_t address) {
  return reinterpret_cast<T*>(address);
}

void deliver(const Tensor& local, int64_t dim, const Tensor& addresses, int64_t call, int64_t timeout_ms) {
  const Addresses to(addresses);
  const int device = local.get_device_index();
  std::vector<cuda::BlockCopy> copies;
  std::vector<Tensor> dense;  // lives until the kernel is queued
  for (size_t i = 0; i < to.runs.size(); i += 3) {
    const int64_t first = to.runs[i], rows = to.runs[i + 1];
    void* const target = pointer<void>(to.runs[i + 2]);
    auto blocks = dense_blocks_of(target, local, first, rows, dim);
    if (!blocks) {  // the rows have another memory format
      dense.push_back(torch::stable::contiguous(narrow(local, dim, first, rows)));
      blocks = dense_blocks_of(target, dense.back(), 0, rows, dim);
    }
    copies.push_back(*blocks);
  }
  cuda::Handshake handshake{};
  handshake.ranks = int(to.flags.size());
  for (int rank = 0; rank < handshake.ranks; ++rank) handshake.flags[rank] = pointer<int64_t>(to.flags[rank]);
  handshake.own_flags = pointer<int64_t>(to.words[1]);
  handshake.copied = pointer<unsigned>(to.words[1] + int64_t(sizeof(int64_t)) * handshake.ranks);
  handshake.call = call;
  handshake.timeout_ns = timeout_ms * 1'000'000;
  cuda::deliver(device, copies, handshake, cuda::current_stream(device));
  to.words[2] = call;
}

// With the argument types of the dispatcher.
void run_deliver(Tensor local, int64_t dim, Tensor addresses, int64_t call, int64_t timeout_ms) {
  deliver(local, dim, addresses, call, timeout_ms);
}

std::vector<Tensor> deliver_and_repeat(std::vector<Tensor> given, int64_t own, int64_t number, int64_t dim,
                                       Tensor addresses, int64_t call, int64_t timeout_ms) {
  check(own >= 0 && own < int64_t(given.size()), "_deliver_and_repeat", "own must name one of the given tensors");
  const Tensor& local = given[own];
  const auto graph = SplitStreams::in_graph({local}) ? nullptr : graph_of_number(number, given);
  if (!graph) return {};
  deliver(local, dim, addresses, call, timeout_ms);
  return graph->replay(given);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) {
  m.impl("_deliver", boxed<&run_deliver, "_deliver">);
  m.impl("_deliver_and_repeat", boxed<&deliver_and_repeat, "_deliver_and_repeat">);
  register_for_lazy_bits("_deliver", boxed_for_lazy_bits<&run_deliver, "_deliver", 2>);
  register_for_lazy_bits("_deliver_and_repeat", boxed_for_lazy_bits<&deliver_and_repeat, "_deliver_and_repeat", 4>);
}

}  // namespace torch_conv
