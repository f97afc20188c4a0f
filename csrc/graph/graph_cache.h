// Recorded launch graphs by the signatures of their calls.
#pragma once

#include "graph/launch_graph.h"

namespace torch_conv {

// May a call be repeated at all? Not where the environment pins a variant or forbids it.
bool repeatable(const Call& call, const Tensor& input);
// Replays the graph of an earlier call, or makes the call by `first`, which records a graph.
std::vector<Tensor> run_recorded(Call& call, const Signature& signature,
                                 const std::function<std::vector<Tensor>()>& first);

// How many calls were replayed since the process began.
int64_t repeated_calls();

// A number for the graph of an earlier call with this signature, by which it can be replayed without such a call; 0
// where there is none. It is forgotten when many others have been given.
int64_t number_of_graph(const Signature& signature);
// The graph of a number, where it fits these tensors and the environment changes nothing; null: make the call.
std::shared_ptr<const LaunchGraph> graph_of_number(int64_t number, const std::vector<Tensor>& given);

}  // namespace torch_conv
