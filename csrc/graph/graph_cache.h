// Recorded launch graphs by the signatures of their calls.
#pragma once

#include "graph/launch_graph.h"

namespace torch_conv {

// Whether the call may be recorded and replayed. The environment may pin a variant or forbid replays.
bool repeatable(const Call& call, const Tensor& input);
// Replays the recorded graph of the signature, or records one while `first` makes the call.
std::vector<Tensor> run_recorded(Call& call, const Signature& signature,
                                 const std::function<std::vector<Tensor>()>& first);

// The number of calls that were replayed since the process began.
int64_t repeated_calls();

// The number of a recorded graph with this signature, or 0. By this number the graph can be replayed without checks and
// signatures. Numbers are forgotten once many others were handed out.
int64_t number_of_graph(const Signature& signature);
// The graph of a number, if the graph fits these tensors and the environment changes no launch; else null.
std::shared_ptr<const LaunchGraph> graph_of_number(int64_t number, const std::vector<Tensor>& given);

}  // namespace torch_conv
