// Rows to other ranks of the host, for torch_conv/distributed/_mailbox.py.
#include <algorithm>

#include "cuda/copy.h"
#include "ops/checks.h"
#include "ops/split_copies.h"
#include "torch_api.h"

namespace torch_conv {

namespace {

// `told` holds addresses, by rank: where this one says that it has come to `call`. `arrived` is where the ranks say it
// to this one, a word each, and one more for the kernel (cuda/meeting.h).
void deliver(Tensor local, int64_t dim, std::vector<int64_t> first, std::vector<Tensor> there,
             std::vector<int64_t> told, Tensor arrived, int64_t call, int64_t timeout_ms) {
  check(told.size() <= cuda::kMostRanks, "_deliver", "told must name at most ", cuda::kMostRanks, " ranks, got ",
        told.size());
  check(first.size() == there.size(), "_deliver", "first must have a row for each of there");
  const int device = local.get_device_index();
  std::vector<cuda::BlockCopy> copies;
  std::vector<Tensor> dense;  // until the kernel is queued
  for (size_t i = 0; i < there.size(); ++i) {
    const int64_t rows = there[i].size(dim);
    auto blocks = blocks_of(there[i], 0, local, first[i], rows, dim);
    if (!blocks) {  // another memory format's
      dense.push_back(torch::stable::contiguous(narrow(local, dim, first[i], rows)));
      blocks = blocks_of(there[i], 0, dense.back(), 0, rows, dim);
    }
    copies.push_back(*blocks);
  }
  cuda::Meeting meeting{};
  meeting.ranks = int(told.size());
  for (int rank = 0; rank < meeting.ranks; ++rank) meeting.told[rank] = reinterpret_cast<int64_t*>(told[rank]);
  auto* words = static_cast<int64_t*>(arrived.data_ptr());
  meeting.arrived = words;
  meeting.copied = reinterpret_cast<unsigned*>(words + meeting.ranks);
  meeting.call = call;
  meeting.timeout_ns = timeout_ms * 1'000'000;
  cuda::deliver(device, copies, meeting, cuda::current_stream(device));
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { m.impl("_deliver", TORCH_BOX(&deliver)); }

}  // namespace torch_conv
