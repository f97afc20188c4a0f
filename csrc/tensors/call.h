// What one call of an operator is made for: to compute, to be explained or prepared, or to say how far it reaches; on a
// whole image or on a part of one. Every function of the operator layer that acts on it is handed it.
#pragma once

#include "runtime/context.h"
#include "tensors/checks.h"

namespace torch_conv {

// Along one axis, output o reads input [o * stride - pad, o * stride - pad + length) and belongs to o * stride +
// middle.
struct AxisFootprint {
  int64_t pad = 0, length = 1, stride = 1, middle = 0;
  int64_t out = 1;    // outputs of the whole image
  int64_t group = 1;  // an output's bits depend on its number modulo this
};

constexpr int kAxes = 3;  // d, h, w: the axes of an image in this order

// What a call says of itself once its arguments are checked, before anything has memory.
struct Footprint {
  AxisFootprint axis[kAxes];
  Border border = Border::constant;
  Sizes result;  // of the whole image
  ScalarType dtype = ScalarType::Float;
  bool contiguous = false;                  // the result is, whatever the input's memory format
  bool whole = false;                       // a call makes the outputs of all rows of a tensor, no part of them
  bool ends = false;                        // something stands outside the image that its border does not say
  bool direct = false;                      // kernel families that may read the rows of other shards serve the call
  std::string by_torch;                     // why torch serves a convolution, or empty
  Algorithm algorithm = Algorithm::direct;  // of a filter with one window
  Sums sums = Sums::chain;                  // of Algorithm::depthwise
  bool by_values = false;                   // the algorithm depends on the window's values
};

class SplitStreams;
class LaunchGraph;
struct Part;   // sharding/part.h
struct Slice;  // sharding/part.h

// A variable that steers tests and benchmarks; "" if it is not set.
const char* environment(const char* name);
// Is any TORCH_CONV_... set at all? One look through the environment instead of one for each; like getenv not while
// another thread changes it.
bool environment_steers();

enum class Purpose : int8_t {
  run,
  explain,    // `lines` receives a plan for each kernel call, and nothing runs
  prepare,    // the same, and the plans' kernels are loaded
  footprint,  // `footprint` is filled in, and the call ends before there is a plan
};

struct Call {
  const char* op;
  Purpose purpose = Purpose::run;
  std::optional<Tensor> out{};       // the caller's, of X_out
  Part* part = nullptr;              // what is to be computed, if not all
  const Slice* slice = nullptr;      // the tensor at hand is this part of a whole
  bool of_question = false;          // a call for the reach of one that is explained
  bool of_shards = false;            // the tensor at hand is one of several, on whichever device
  const Footprint* whole = nullptr;  // what the call said of the whole image, where this is for a part
  std::string* lines = nullptr;      // of the explanation
  std::string refused{};             // kernel families that could not, for the next of these lines
  bool steered = environment_steers();
  LaunchGraph* graph = nullptr;     // where a first call records its launches (graph/launch_graph.h)
  SplitStreams* streams = nullptr;  // of the call on all shards, where the tensor at hand is one of them
  bool recorded_by_caller = false;  // as a node in the graph of the call on all shards
  Footprint footprint{};

  bool runs() const { return purpose == Purpose::run; }
  bool prepares() const { return purpose == Purpose::prepare; }
  bool loads() const { return runs() || prepares(); }
  bool only_footprint() const { return purpose == Purpose::footprint; }
  void explain(const std::string& line) { *lines += std::string(op) + ": " + line + "\n"; }
};

// Is a call on CUDA? Explanations of calls on the CPU are, where the environment describes a GPU
// (TORCH_CONV_EXPLAIN_FOR): a plan needs none.
bool on_cuda(const Call& call, const Tensor& input);

// The device and stream of one call, current while it lives. On the CPU it does nothing. `input` outlives the target.
class Target {
 public:
  Target(const Call& call, const Tensor& input);
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  bool cuda() const { return cuda_; }
  const Tensor& input() const { return input_; }
  void* stream() const { return stream_; }
  const Arch& arch() const { return arch_; }

 private:
  const Tensor& input_;
  bool cuda_;
  std::optional<cuda::OnDevice> device_;
  void* stream_ = nullptr;
  Arch arch_{};
};

}  // namespace torch_conv
