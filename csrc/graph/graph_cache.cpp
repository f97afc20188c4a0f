#include "graph/graph_cache.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/fork_mutex.h"
#include "graph/environment.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

// The graphs of calls with one signature: the newest few, for the values of windows that their guards accept. Empty:
// such a call cannot be repeated. Null: there was no such call.
using Recorded = std::shared_ptr<const std::vector<std::shared_ptr<const LaunchGraph>>>;

int64_t bytes_of(const Recorded& known) {
  int64_t bytes = 0;
  for (const auto& graph : *known) bytes += graph->held();
  return bytes;
}

// Some hundred calls in two generations. An entry found in the old generation moves to the young one, which becomes the
// old one when it is full, by the number of its calls or by the bytes of windows that they hold.
class GraphCache {
 public:
  Recorded find(const std::string& signature) {
    const std::lock_guard lock(mutex_);
    if (const auto found = young_.find(signature); found != young_.end()) return found->second;
    const auto found = old_.find(signature);
    if (found == old_.end()) return nullptr;
    const Recorded known = found->second;  // before the old generation goes
    return put(signature, known);
  }
  // Null: a call that cannot be repeated; those with other values may be.
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

  static constexpr size_t kHalf = 256, kMostValues = 4;  // as many windows as a pair of derivatives twice
  static constexpr int64_t kMostBytes = 8 << 20;         // of a generation
  ForkMutex mutex_;
  std::unordered_map<std::string, Recorded> young_, old_;
  int64_t bytes_ = 0;  // of the young ones
};

std::atomic<int64_t> repeated = 0;

GraphCache& graph_cache() {
  static GraphCache& cache = *new GraphCache;  // kernels' contexts may be gone before static objects are
  return cache;
}

// Graphs by their numbers.
class Numbered {
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
  static Numbered& all() {
    static Numbered& numbered = *new Numbered;  // as the cache
    return numbered;
  }

 private:
  static constexpr size_t kMost = 512;
  static constexpr int64_t kMostBytes = 16 << 20;
  ForkMutex mutex_;
  std::unordered_map<int64_t, std::shared_ptr<const LaunchGraph>> graphs_;
  int64_t bytes_ = 0;
};

// The graph whose guards accept these tensors; null: none do.
std::shared_ptr<const LaunchGraph> holding(const Recorded& known, const std::vector<Tensor>& given) {
  const auto found =
      std::find_if(known->begin(), known->end(), [&](const auto& graph) { return graph->guards_hold(given); });
  return found == known->end() ? nullptr : *found;
}

// Is no variable set that changes the launches of a call, or forbids to repeat them?
bool environment_is_plain() { return !environment_steers() || !(any_set(kSteering) || any_set(kForbidding)); }

// A caller's `out` may have moved onto the memory of another argument since: the first of the call's tensors.
bool out_is_apart(const Call& call, const std::vector<Tensor>& given) {
  if (!call.out) return true;
  const auto apart = [&](const Tensor& t) { return !overlap(*call.out, t); };
  return std::all_of(given.begin() + 1, given.end(), apart);
}

}  // namespace

bool repeatable(const Call& call, const Tensor& input) {
  const bool lent = call.part && !call.part->shards.empty();  // a node of the call on all shards, if any
  const bool forbidden = call.steered && any_set(kForbidding);
  return call.runs() && (input.is_cuda() || input.is_cpu()) && !lent && !forbidden;
}

int64_t repeated_calls() { return repeated; }

int64_t number_of_graph(const Signature& signature) {
  const auto known = environment_is_plain() ? graph_cache().find(signature.text()) : nullptr;
  const auto graph = known ? holding(known, signature.tensors()) : nullptr;
  if (!graph) return 0;
  Numbered::all().keep(graph);
  return graph->number();
}

std::shared_ptr<const LaunchGraph> graph_of_number(int64_t number, const std::vector<Tensor>& given) {
  auto graph = environment_is_plain() ? Numbered::all().find(number) : nullptr;
  return graph && graph->fits(given) && graph->guards_hold(given) ? graph : nullptr;
}

std::vector<Tensor> run_recorded(Call& call, const Signature& signature,
                                 const std::function<std::vector<Tensor>()>& first) {
  GraphCache& cache = graph_cache();
  if (const auto known = cache.find(signature.text())) {
    if (known->empty() || !out_is_apart(call, signature.tensors())) return first();
    if (const auto graph = holding(known, signature.tensors())) {
      ++repeated;
      return graph->replay(signature.tensors());
    }
  }
  {
    const auto graph = std::make_shared<LaunchGraph>(signature.tensors());
    call.graph = graph.get();
    try {
      const std::vector<Tensor> results = first();
      call.graph = nullptr;
      cache.insert(signature.text(), graph->finish(results) ? graph : nullptr);
      return results;
    } catch (const OutOfMemory&) {
      call.graph = nullptr;
    }
  }
  return first();  // once more: a graph that is being recorded holds all scratch until the end
}

}  // namespace torch_conv
