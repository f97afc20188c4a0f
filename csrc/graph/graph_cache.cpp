#include "graph/graph_cache.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/fork_mutex.h"
#include "graph/environment.h"
#include "graph/stand_in.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

// The newest few graphs of one signature; their guards accept different values of windows. Empty: such a call cannot be
// replayed. Null: there was no such call.
using Recorded = std::shared_ptr<const std::vector<std::shared_ptr<const LaunchGraph>>>;

int64_t bytes_of(const Recorded& known) {
  int64_t bytes = 0;
  for (const auto& graph : *known) bytes += graph->held();
  return bytes;
}

// Some hundred signatures in two generations. A look-up moves an entry of the old generation to the young one. The
// young generation is full at a number of signatures or of bytes of windows, and then replaces the old one.
class GraphCache {
 public:
  Recorded find(const std::string& signature) {
    const std::lock_guard lock(mutex_);
    if (const auto found = young_.find(signature); found != young_.end()) return found->second;
    const auto found = old_.find(signature);
    if (found == old_.end()) return nullptr;
    const Recorded known = found->second;  // put() may drop the old generation
    return put(signature, known);
  }
  // `graph` is null for a call that cannot be replayed; calls with other values of windows may be.
  void insert(const std::string& signature, std::shared_ptr<const LaunchGraph> graph) {
    const std::lock_guard lock(mutex_);
    const auto found = young_.find(signature);
    auto newest = found == young_.end() ? std::vector<std::shared_ptr<const LaunchGraph>>{} : *found->second;
    if (graph && graph->held() <= kMostBytes / 4) newest.insert(newest.begin(), std::move(graph));
    if (newest.size() > kMostValues) newest.pop_back();
    put(signature, std::make_shared<const std::vector<std::shared_ptr<const LaunchGraph>>>(std::move(newest)));
  }

 private:
  Recorded put(const std::string& signature, Recorded known) {
    const int64_t more = bytes_of(known);
    const auto found = young_.find(signature);
    const int64_t less = found == young_.end() ? 0 : bytes_of(found->second);
    const bool full = young_.size() >= kHalf && found == young_.end();
    if (full || bytes_ - less + more > kMostBytes) old_ = std::exchange(young_, {}), bytes_ = more;
    else bytes_ += more - less;
    return young_[signature] = std::move(known);
  }

  static constexpr size_t kHalf = 256, kMostValues = 4;  // two calls with two derivatives each have four windows
  static constexpr int64_t kMostBytes = 8 << 20;         // of a generation
  ForkMutex mutex_;
  std::unordered_map<std::string, Recorded> young_, old_;
  int64_t bytes_ = 0;  // of the young generation
};

std::atomic<int64_t> repeated = 0;

GraphCache& graph_cache() {
  static GraphCache& cache = *new GraphCache;  // never destroyed: CUDA contexts may end before static objects do
  return cache;
}

class GraphsByNumber {
 public:
  void keep(const std::shared_ptr<const LaunchGraph>& graph) {
    const std::lock_guard lock(mutex_);
    if (graphs_.contains(graph->number())) return;
    if (graphs_.size() >= kMost || bytes_ + graph->held() > kMostBytes) graphs_.clear(), bytes_ = 0;
    graphs_[graph->number()] = graph;
    bytes_ += graph->held();
  }
  std::shared_ptr<const LaunchGraph> find(int64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = graphs_.find(number);
    return found == graphs_.end() ? nullptr : found->second;
  }

 private:
  static constexpr size_t kMost = 512;
  static constexpr int64_t kMostBytes = 16 << 20;
  ForkMutex mutex_;
  std::unordered_map<int64_t, std::shared_ptr<const LaunchGraph>> graphs_;
  int64_t bytes_ = 0;
};

GraphsByNumber& graphs_by_number() {
  static GraphsByNumber& graphs = *new GraphsByNumber;  // as graph_cache()
  return graphs;
}

// The graph whose guards accept these tensors, or null.
std::shared_ptr<const LaunchGraph> accepting(const Recorded& known, const std::vector<Tensor>& given) {
  const auto found =
      std::find_if(known->begin(), known->end(), [&](const auto& graph) { return graph->guards_hold(given); });
  return found == known->end() ? nullptr : *found;
}

bool environment_is_plain() { return !environment_steers() || !(any_set(kSteering) || any_set(kForbidding)); }

// Whether `out`, the first of the given tensors, overlaps no other one. One call may differ from another in this.
bool out_overlaps_nothing(const Call& call, const std::vector<Tensor>& given) {
  if (!call.out) return true;
  const auto is_separate = [&](const Tensor& t) { return !overlap(*call.out, t); };
  return std::all_of(given.begin() + 1, given.end(), is_separate);
}

}  // namespace

bool repeatable(const Call& call, const Tensor& input) {
  const bool forbidden = call.steered && any_set(kForbidding);
  return call.runs() && (input.is_cuda() || input.is_cpu()) && !forbidden;
}

int64_t repeated_calls() { return repeated; }

int64_t number_of_graph(const Signature& signature) {
  const auto known = environment_is_plain() ? graph_cache().find(signature.text()) : nullptr;
  const auto graph = known ? accepting(known, signature.tensors()) : nullptr;
  if (!graph) return 0;
  graphs_by_number().keep(graph);
  return graph->number();
}

std::shared_ptr<const LaunchGraph> graph_of_number(int64_t number, const std::vector<Tensor>& given) {
  auto graph = environment_is_plain() ? graphs_by_number().find(number) : nullptr;
  return graph && graph->fits(given) && graph->guards_hold(given) ? graph : nullptr;
}

namespace {

// Replays the call's graph, or runs the call and records it.
std::vector<Tensor> replay_or_record(Call& call, const Signature& signature,
                                     const std::function<std::vector<Tensor>()>& first) {
  GraphCache& cache = graph_cache();
  if (const auto known = cache.find(signature.text())) {
    if (known->empty() || !out_overlaps_nothing(call, signature.tensors())) return first();
    if (const auto graph = accepting(known, signature.tensors())) {
      ++repeated;
      return graph->replay(signature.tensors());
    }
  }
  const auto graph = std::make_shared<LaunchGraph>(signature.tensors());
  call.graph = graph.get();
  const std::vector<Tensor> results = first();
  call.graph = nullptr;
  cache.insert(signature.text(), graph->finish(results) ? graph : nullptr);
  return results;
}

}  // namespace

// A second attempt records nothing, because a recording holds all scratch until the end of the call. It takes no
// stand-ins, which may need more scratch.
std::vector<Tensor> run_recorded(Call& call, const Signature& signature,
                                 const std::function<std::vector<Tensor>()>& first) {
  try {
    return replay_or_record(call, signature, first);
  } catch (const OutOfMemory&) {
    if (!call.graph && !compiles_in_background()) throw;
  }
  call.graph = nullptr, call.waits = true;
  return first();
}

}  // namespace torch_conv
