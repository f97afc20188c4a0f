// One call of an operator: its purpose, its place among calls on shards, and the recording of its launches. Every
// function of the operator layer that acts for a call receives it.
#pragma once

#include "graph/environment.h"
#include "runtime/context.h"
#include "tensors/checks.h"

namespace torch_conv {

// Along one axis, output o reads input [o * stride - pad, o * stride - pad + length). Its centre is pixel
// o * stride + middle.
struct AxisFootprint {
  int64_t pad = 0, length = 1, stride = 1, middle = 0;
  int64_t out = 1;    // outputs of the whole image
  int64_t group = 1;  // an output's bits depend on its number modulo this
};

constexpr int kAxes = 3;  // d, h, w: the axes of an image in this order

// The result of Purpose::footprint, and the decisions that parts of an image take over from the whole image.
struct Footprint {
  AxisFootprint axis[kAxes];
  Border border = Border::constant;
  Sizes result;  // of the whole image
  ScalarType dtype = ScalarType::Float;
  bool contiguous = false;                  // the result is contiguous in any memory format of the input
  bool all_rows = false;                    // a call computes the outputs of all rows of its tensor, never of a part
  bool zeros_outside = false;               // a stage reads zeros outside the image, whatever its border
  bool reads_shards = false;                // a kernel family that serves the call may read rows of other shards
  std::string by_torch;                     // the reason why torch serves a convolution, or empty
  Algorithm algorithm = Algorithm::direct;  // of a filter with one window
  Sums sums = Sums::chain;                  // of Algorithm::depthwise
  bool by_values = false;                   // the algorithm depends on the window's values
};

class LaunchGraph;
struct OnShards;  // opaque here and in the graph; sharding/part.h

enum class Purpose : int8_t {
  run,
  explain,    // `lines` receives a plan for each kernel call, and nothing runs
  prepare,    // the same, and the plans' kernels are loaded
  footprint,  // `footprint` is filled in, and the call ends without a plan
};

struct Call {
  const char* op;
  Purpose purpose = Purpose::run;
  std::optional<Tensor> out{};    // the caller's, of X_out
  OnShards* on_shards = nullptr;  // the input is one of several shards, on any device; null: no shard
  std::string* lines = nullptr;   // of the explanation, also where the footprint of an explained call is asked
  std::string refused{};          // refusal reasons of kernel families, for the next of these lines
  bool steered = environment_steers();
  bool waits = false;            // for the compiler, whatever TORCH_CONV_COMPILE says
  bool replaces_fused = false;   // these launches replace a fused kernel, which is compiled meanwhile
  LaunchGraph* graph = nullptr;  // records the launches of a first call (graph/launch_graph.h)
  Footprint footprint{};

  bool runs() const { return purpose == Purpose::run; }
  bool prepares() const { return purpose == Purpose::prepare; }
  bool loads() const { return runs() || prepares(); }
  bool only_footprint() const { return purpose == Purpose::footprint; }
  void explain(const std::string& line) const {
    if (lines) *lines += std::string(op) + ": " + line + "\n";
  }
};

// Whether a call is on CUDA. The explanation of a call on the CPU counts as on CUDA if TORCH_CONV_EXPLAIN_FOR describes
// a GPU: a plan needs no GPU.
bool on_cuda(const Call& call, const Tensor& input);

// The device and the stream of one call. A GPU is current while its Target lives. `input` outlives the target.
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
