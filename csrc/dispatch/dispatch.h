// From the hall into the rooms: CPU or CUDA.
#pragma once

#include <optional>

#include "kernels/families.h"
#include "runtime/context.h"
#include "tensors/call.h"

namespace torch_conv {

// Is a call on CUDA? Explanations of calls on the CPU are, where the environment describes a GPU
// (TORCH_CONV_EXPLAIN_FOR): a plan needs none.
bool on_cuda(const Call& call, const Tensor& input);

// The device and stream of one call, current while it lives. On the CPU it does nothing.
class Place {
 public:
  Place(const Call& call, const Tensor& input);
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool cuda() const { return cuda_; }
  void* stream() const { return stream_; }
  const Arch& arch() const { return arch_; }

 private:
  bool cuda_;
  std::optional<cuda::OnDevice> device_;
  void* stream_ = nullptr;
  Arch arch_{};
};

// Plans and runs the problem, or explains its plan. `like` says where scratch memory is allocated.
void run(Call& call, const Place& place, const Tensor& like, const Direct& problem);
void run(Call& call, const Place& place, const Tensor& like, const ReadTiles& problem);
void run(Call& call, const Place& place, const Tensor& like, const WriteTiles& problem);
void run(Call& call, const Place& place, const Tensor& like, const Separable& problem);
void run(Call& call, const Place& place, const Tensor& like, const Box& problem);
void run(Call& call, const Place& place, const Tensor& like, const BoxDepth& problem);
void run(Call& call, const Place& place, const Tensor& like, const Combine& problem);
void run(Call& call, const Place& place, const Ladder1d& problem, ladder::Variant1d variant);
void run(Call& call, const Place& place, const Ladder2d& problem, ladder::Variant variant);
void run(Call& call, const Place& place, const Ladder3d& problem, ladder::Variant3d variant);

// Do kernels serve that read taps as they came (narrow ones)?
bool takes_narrow_taps(const Place& place, const Direct& problem);

// Does a large separable problem on images take fewer launches from float32 to float32? Those that convert are worth
// it: one NVIDIA H100, us, as it is (TWO_PASS) and by float32, of float16 | of uint8: 4096^2 191x191 890, 609 | 861,
// 599; 255x255 1078, 793 | 1058, 781; 8192^2 255x255 4191, 2564 | 4094, 2514; 16x3x1080x1920 191x191 5136, 3407 | 5014,
// 3340; 255x255 6350, 4558 | 6288, 4486; 4x3x1080x1920 255x255 1650, 1321 | 1629, 1309; 3000^2 639, 536 | 621, 533.
bool gains_in_float32(const Place& place, const Separable& problem);

// Is there a kernel for a shard of a volume that reads those beside it?
bool serves_shards(const Place& place, const Direct& problem);
// A separable problem on such shards; the call's part says whether that ran (sharding/launch_shards.h).
void run_on_shards(Call& call, const Place& place, const Separable& problem);

// A separable problem on volumes, if the room for them takes it: in one launch. False: it does not, and nothing ran.
bool run_in_one_launch(Call& call, const Place& place, const Tensor& like, const Separable& problem);
// The same for a depthwise convolution of images; where sums are `products`, or a variant of the room is pinned, what
// the room does not take makes a refusal.
bool run_depthwise(Call& call, const Place& place, const Tensor& like, const Depthwise& problem);
// Would it take the problem on CUDA? Where not, the next plan that is explained says why.
bool serves_depthwise(Call& call, const Place& place, const Depthwise& problem);
// The same for a chain; where it is `wanted` (algorithm 'fused'), a room that does not take it makes a refusal. On the
// CPU there is no room for volumes.
bool run_in_one_launch(Call& call, const Place& place, const Tensor& like, const Fused& problem);
// Is there a kernel for a shard of images that reads those beside it? And the call's shards by it, as above.
bool serves_shards(const Place& place, const Fused& problem);
void run_on_shards(Call& call, const Place& place, const Fused& problem);

// The shards beside the image of a problem, if the call's part offers any.
Beside beside_of(const Call& call, const Image& in, int axes);

}  // namespace torch_conv
