// What split.cpp tells an operator's own function about the part of an image that it is called for.
//
// The operators know nothing of shards: they are called on a tensor, with their own arguments. Around such a call this
// thread holds either a Probe, which lets the operator check its arguments for the whole image and say how far its
// outputs reach, or a Part, which changes where its window sits along one axis and where the result goes.
#pragma once

#include "ops/filters.h"

namespace torch_conv {

// Along one axis, output o reads input [o * stride - pad, o * stride - pad + length) and belongs to o * stride +
// middle.
struct AxisReach {
  int64_t pad = 0, length = 1, stride = 1, middle = 0;
  int64_t out = 1;  // outputs of the whole image
};

constexpr int kAxes = 3;  // d, h, w: the axes of an image in this order

// What a probe is told.
struct Reach {
  AxisReach axis[kAxes];
  Border border = Border::constant;
  Sizes result;  // of the whole image
  ScalarType dtype = ScalarType::Float;
  bool contiguous = false;  // the result is, whatever the input's memory format
  bool whole = false;       // a call makes the outputs of all rows of a tensor, no part of them
  bool ends = false;        // something stands outside the image that its border does not say
  bool direct = false;      // rooms that may read the rows of other shards serve the call
};

// Makes operators of the calling thread fill `reach` instead of running.
class Probe {
 public:
  explicit Probe(Reach& reach);
  ~Probe();  // the one before is current again
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

 private:
  Reach* before_;
};

class SplitStreams;

// A shard, its result, and the shards before and after it: what kernels may read where it lies.
struct Shard {
  const Tensor* own;
  Tensor result;
  const Tensor *above = nullptr, *below = nullptr;
  bool done = false;  // computed, with its seams
};

struct Part {
  int axis;
  int64_t pad, out;  // of the tensor at hand: output 0 starts `pad` before it
  Tensor result;     // receives `out` outputs
  // Offered: a room that can reads the shards beside the tensor itself, and may go on with further shards whose windows
  // lie alike. It says so by `done`; where it does not, nothing has run.
  std::vector<Shard*> shards{};  // the first is the one at hand
  SplitStreams* streams = nullptr;
};

// The part that the calling thread computes, or null. `of` makes one current while it lives.
class CurrentPart {
 public:
  explicit CurrentPart(Part& of);
  ~CurrentPart();  // the one before is current again
  CurrentPart(const CurrentPart&) = delete;
  CurrentPart& operator=(const CurrentPart&) = delete;

 private:
  Part* before_;
};
Part* current_part();
Reach* current_probe();

// Called by an operator once it knows its geometry: a probe takes notes, a part changes it.
void settle(Geometry& geometry, const AxisReach (&reach)[kAxes]);
// Called by an operator before it makes its result. True: a probe has taken notes, and nothing is made.
bool probing(const Sizes& result, ScalarType dtype, bool contiguous);
// The shards beside the image of a problem, if the part offers any.
Beside settle_neighbours(const Image& in, int axes);
Beside beside(const Shard& shard, Dtype dtype);

}  // namespace torch_conv
