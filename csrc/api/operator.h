// The forms of an operator that the dispatcher calls. One function of the operator computes all of them:
//
//   X(Tensor input, ...)                    computes
//   X_out(Tensor input, ..., Tensor out)    computes into `out`, whose dtype is the output's
//   X_split(Tensor[] shards, ..., int dim, int[]? wanted) -> Tensor[]
//                                           computes shards of the result (sharding/split.h)
//   _X_query(str question, Tensor input, ..., Tensor? out) -> int[]
//                                           answers a question about a call (api/query.h)
//   _X_split_query(str question, Tensor[] shards, ...) -> int[]
//                                           answers a question about a call on shards
#pragma once

#include <tuple>

#include "api/query.h"
#include "graph/graph_cache.h"
#include "sharding/split.h"
#include "sharding/split_streams.h"
#include "tensors/boxed.h"
#include "tensors/lazy_bits.h"

namespace torch_conv {

// The last `axes` dimensions of the input are spatial. A window has `window_axes` dimensions after none, (B) or (B, C).
// Shards along batch or channels slice windows like the image. window_axes 0: the function slices its own arguments by
// OnShards::slice.
template <Name name, int axes, int window_axes, auto function>
struct Operator;

template <Name name, int axes, int window_axes, typename... Args,
          Tensor (*function)(Call&, const Tensor&, const Args&...)>
struct Operator<name, axes, window_axes, function> {
  static constexpr auto kName = name;

  // The name with an ending before the overload: "conv1d_split.padding".
  static std::string form(const char* ending) {
    std::string text = name.text;
    return text.insert(std::min(text.find('.'), text.size()), ending);
  }
  static const char* op() {
    static const std::string text = std::string(name.text).substr(0, std::string(name.text).find('.'));
    return text.c_str();
  }

  static Tensor compute(Call& call, const Tensor& input, const Args&... args) {
    const Part* part = part_of(call);
    // A launch for several shards is no call on one image.
    if (!repeatable(call, input) || (part && !part->shards.empty())) return function(call, input, args...);
    if (call.on_shards) call.on_shards->streams = nullptr;  // of one call on all shards; a replay has none
    Signature signature = signature_of(name.text, Signature::Form::image, call);
    signature.add(input), (signature.add(args), ...);
    return run_recorded(call, signature, [&] { return std::vector<Tensor>{function(call, input, args...)}; })[0];
  }

  static Tensor run(Tensor input, Args... args) {
    Call call{op()};
    return compute(call, input, args...);
  }

  static Sizes query(std::string question, Tensor input, Args... args, std::optional<Tensor> out) {
    return answer(op(), question, [&](Call& call) {
      call.out = out;
      function(call, input, args...);
    });
  }

  static std::vector<Tensor> split_as(Purpose purpose, std::string* lines, const std::vector<Tensor>& shards,
                                      const Args&... args, int64_t dim, const std::optional<Sizes>& wanted) {
    OnShards all;
    Call whole{.op = op(), .purpose = purpose, .on_shards = &all, .lines = lines};
    const auto run = [&] {
      return run_split(whole, axes, shards, dim, wanted, [&](Call& call, const Tensor& input) {
        // Without a graph of the whole call each part has a graph of its own.
        const auto part = call.graph ? function : compute;
        return part(call, input, argument_of(call, axes, window_axes, args)...);
      });
    };
    if (shards.empty() || !repeatable(whole, shards[0])) return run();
    return run_recorded(whole, split_signature(whole, shards, args..., dim, wanted), run);
  }
  static Signature split_signature(const Call& whole, const std::vector<Tensor>& shards, const Args&... args,
                                   int64_t dim, const std::optional<Sizes>& wanted) {
    Signature signature = signature_of(name.text, Signature::Form::shards, whole);
    signature.add(shards), (signature.add(args), ...), signature.add(dim), signature.add(wanted);
    signature.add(SplitStreams::in_graph(shards));
    return signature;
  }
  static std::vector<Tensor> split(std::vector<Tensor> shards, Args... args, int64_t dim, std::optional<Sizes> wanted) {
    return split_as(Purpose::run, nullptr, shards, args..., dim, wanted);
  }
  static Sizes split_query(std::string question, std::vector<Tensor> shards, Args... args, int64_t dim,
                           std::optional<Sizes> wanted) {
    if (question != kRecorded) {
      const auto ask = [&](Call& call) { split_as(call.purpose, call.lines, shards, args..., dim, wanted); };
      return answer(op(), question, ask, true);
    }
    const Call whole{.op = op()};
    if (shards.empty() || !repeatable(whole, shards[0])) return {0};
    return {number_of_graph(split_signature(whole, shards, args..., dim, wanted))};
  }

  // X_out takes the arguments of X without output_dtype, the last but one, and then `out`.
  template <typename Before>
  struct Out;
  template <size_t... I>
  struct Out<std::index_sequence<I...>> {
    using All = std::tuple<Args...>;
    static void run(Tensor input, std::tuple_element_t<I, All>... args, std::string algorithm, Tensor out) {
      Call call{.op = op(), .out = out};
      compute(call, input, args..., std::optional<ScalarType>(), algorithm);
    }
  };

  static void implement(torch::stable::detail::StableLibrary& m) {
    m.impl(name.text, boxed<&run, name>);
    m.impl(form("_split").c_str(), boxed<&split, name>);
    m.impl(("_" + form("_query")).c_str(), boxed<&query, name>);
    m.impl(("_" + form("_split_query")).c_str(), boxed<&split_query, name>);
  }
  static void implement_with_out(torch::stable::detail::StableLibrary& m) {
    implement(m);
    using Into = Out<std::make_index_sequence<sizeof...(Args) - 2>>;
    m.impl(form("_out").c_str(), boxed<&Into::run, name>);
    register_for_lazy_bits(form("_out"), boxed_for_lazy_bits<&Into::run, name, sizeof...(Args)>);
  }
};

}  // namespace torch_conv
