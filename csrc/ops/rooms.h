// From the hall into the rooms: CPU or CUDA, run or only explain.
#pragma once

#include "core/rooms.h"
#include "torch_api.h"

namespace torch_conv {

// The CUDA doors, or null while the module _cuda is not loaded.
const CudaRooms* cuda_rooms();

// A variable that steers tests and benchmarks; "" if it is not set.
const char* environment(const char* name);

// In explain mode: true, and nothing may run on this thread. The second also records a line.
bool explain_mode();
bool explain_note(const char* op, const char* what);

// The device and stream of one call, current while it lives. On the CPU it does nothing.
class Place {
 public:
  Place(const char* op, const Tensor& input);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool cuda() const { return cuda_; }
  void* stream() const { return stream_; }
  const Arch& arch() const { return arch_; }

 private:
  bool cuda_;
  void* stream_ = nullptr;
  int previous_ = 0;
  Arch arch_{};
};

// Plans and runs the problem (or records its plan in explain mode). `like` says where scratch memory is allocated.
void run(const char* op, const Place& place, const Tensor& like, const Direct& problem);
void run(const char* op, const Place& place, const Tensor& like, const Separable& problem);
void run(const char* op, const Place& place, const Tensor& like, const Box& problem);
void run(const char* op, const Place& place, const Tensor& like, const BoxDepth& problem);
void run(const char* op, const Place& place, const Tensor& like, const Combine& problem);
void run(const char* op, const Place& place, const Ladder2d& problem, ladder::Variant variant);
void run(const char* op, const Place& place, const Ladder3d& problem, ladder::Variant3d variant);

// A separable problem on volumes, if the room for them takes it: in one launch. False: it does not, and nothing ran.
bool run_in_one_launch(const char* op, const Place& place, const Tensor& like, const Separable& problem);
// The same for a chain; where it is `wanted` (algorithm 'fused'), a room that does not take it makes a refusal. On the
// CPU there is no room for volumes.
bool run_in_one_launch(const char* op, const Place& place, const Tensor& like, const Fused& problem);

}  // namespace torch_conv
