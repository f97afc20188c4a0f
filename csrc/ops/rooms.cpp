#include "ops/rooms.h"

#include <cstdlib>
#include <cstring>

#include "ops/part.h"
#include "ops/seams.h"
#include "ops/split_streams.h"
#include "ops/volumes.h"

namespace torch_conv {

namespace {

const CudaRooms* installed_cuda_rooms = nullptr;

// explain(): while on, this thread's calls record their plans instead of running.
thread_local bool explaining = false;
thread_local std::string explanation;

// Records the plan in explain mode; true means: do not run.
bool only_explain(const char* op, const Place& place, const Plan& plan) {
  if (!explaining) return false;
  std::ostringstream line;
  line << op << ": " << plan;
  if (place.cuda()) line << "; floor " << plan.bytes / place.arch().bytes_per_second * 1e6 << " us";
  explanation += line.str() + "\n";
  return true;
}

}  // namespace

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool explain_mode() { return explaining || current_probe(); }

bool explain_note(const char* op, const char* what) {
  if (explaining) explanation += std::string(op) + ": " + what + "\n";
  return explaining;
}

const CudaRooms* cuda_rooms() { return installed_cuda_rooms; }

Place::Place(const char* op, const Tensor& input) : cuda_(input.is_cuda()) {
  if (!cuda_) {
    check(input.is_cpu(), op, "input must be on cpu or cuda, got ", device_text(input));
    return;
  }
  check(installed_cuda_rooms != nullptr, op, "input is on ", device_text(input),
        ", but this build of torch_conv has no CUDA part");
  const int device = input.get_device_index();
  arch_ = installed_cuda_rooms->arch(device);
  // Tests force the plain path of GPUs before Hopper on any GPU.
  if (std::strcmp(environment("TORCH_CONV_NO_TMA"), "1") == 0) arch_.bulk_copy = false;
  stream_ = installed_cuda_rooms->enter(device, &previous_);
}

Place::~Place() {
  if (cuda_) installed_cuda_rooms->leave(previous_);
}

namespace {

// Where a problem goes: a room's doors on both devices.
template <typename Problem>
struct Doors {
  Plan (*plan_cpu)(const Problem&, const char*);
  void (*run_cpu)(const Problem&, const Plan&);
  Plan (*CudaRooms::*plan_cuda)(const Problem&, const Arch&, const char*);
  void (*CudaRooms::*run_cuda)(const Problem&, const Plan&, void*, void*);
};

constexpr Doors<Direct> kDirect2d{direct::plan_cpu, direct::run_cpu, &CudaRooms::direct2d_plan,
                                  &CudaRooms::direct2d_run};
constexpr Doors<Direct> kDirect3d{direct::plan_cpu, direct::run_cpu, &CudaRooms::direct3d_plan,
                                  &CudaRooms::direct3d_run};
constexpr Doors<Separable> kSeparable2d{separable2d::plan_cpu, separable2d::run_cpu, &CudaRooms::separable2d_plan,
                                        &CudaRooms::separable2d_run};
constexpr Doors<Separable> kSeparable3d{nullptr, nullptr, &CudaRooms::separable3d_plan, &CudaRooms::separable3d_run};
constexpr Doors<Box> kBox{box::plan_cpu, box::run_cpu, &CudaRooms::box_plan, &CudaRooms::box_run};
constexpr Doors<BoxDepth> kBoxDepth{box::plan_depth_cpu, box::run_depth_cpu, &CudaRooms::box_depth_plan,
                                    &CudaRooms::box_depth_run};
constexpr Doors<Fused> kFused{fused::plan_cpu, fused::run_cpu, &CudaRooms::fused_plan, &CudaRooms::fused_run};
constexpr Doors<Fused> kFused3d{nullptr, nullptr, &CudaRooms::fused3d_plan, &CudaRooms::fused3d_run};
constexpr Doors<Combine> kCombine{fused::plan_combine_cpu, fused::run_combine_cpu, &CudaRooms::combine_plan,
                                  &CudaRooms::combine_run};

template <typename Problem>
void run_plan(const char* op, const Place& place, const Tensor& like, const Problem& p, const Doors<Problem>& doors,
              const Plan& plan) {
  if (only_explain(op, place, plan)) return;
  if (!place.cuda()) return doors.run_cpu(p, plan);
  std::optional<Tensor> scratch;
  if (plan.scratch_bytes > 0) scratch = empty_contiguous(like, {plan.scratch_bytes}, ScalarType::Byte);
  (cuda_rooms()->*doors.run_cuda)(p, plan, scratch ? scratch->data_ptr() : nullptr, place.stream());
}

template <typename Problem>
void run_problem(const char* op, const Place& place, const Tensor& like, const Problem& p, const Doors<Problem>& doors,
                 const char* pinned) {
  const Plan plan =
      place.cuda() ? (cuda_rooms()->*doors.plan_cuda)(p, place.arch(), pinned) : doors.plan_cpu(p, pinned);
  check(plan.variant != nullptr || *pinned == 0, op, "variant '", pinned, "' cannot serve this call");
  check(plan.variant != nullptr, op, "no kernel serves this call: ", plan.why);
  run_plan(op, place, like, p, doors, plan);
}

// Does a problem hold no memory of a device but its images?
bool on_any_device(const Direct& p) { return p.taps.on_host && !p.bias; }
bool on_any_device(const Separable& p) { return p.taps_x.on_host && p.taps_y.on_host; }

// A shard with neighbours: the interior on the current stream, and beside it the seams, which read other shards.
template <typename Problem>
bool run_shard(const char* op, const Place& place, const Shard& shard, const Problem& p, const Doors<Problem>& doors,
               const char* pinned) {
  const Seams<Problem> seams = Seams<Problem>::of(p);
  const Problem* parts[] = {&seams.interior, &seams.above, &seams.below};
  Plan plans[3];
  for (int i = 0; i < 3; ++i) {
    if (parts[i]->out.h == 0) continue;
    plans[i] = (cuda_rooms()->*doors.plan_cuda)(*parts[i], place.arch(), pinned);
    if (!plans[i].variant || plans[i].scratch_bytes > 0) return false;
  }
  const auto run = [&](int i, void* stream) {
    if (parts[i]->out.h == 0 || only_explain(op, place, plans[i])) return;
    (cuda_rooms()->*doors.run_cuda)(*parts[i], plans[i], nullptr, stream);
  };
  // Taps in device memory may just have been put there.
  SplitStreams& streams = *current_part()->streams;
  void* side = streams.begin(*shard.own, {shard.above, shard.below}, !on_any_device(p));
  run(0, place.stream());
  run(1, side);
  run(2, side);
  streams.end(*shard.own);
  return true;
}

// The shard at hand, and the further ones if its problem is theirs but for the images: that saves them the call. If the
// room cannot, nothing runs, and the shards are not `done`.
template <typename Problem>
void run_shards(const char* op, const Place& place, const Problem& p, const Doors<Problem>& doors, const char* pinned) {
  if (!place.cuda()) return;
  const std::vector<Shard*>& shards = current_part()->shards;
  shards[0]->done = run_shard(op, place, *shards[0], p, doors, pinned);
  if (!shards[0]->done || !on_any_device(p)) return;
  for (size_t i = 1; i < shards.size(); ++i) {
    Shard& shard = *shards[i];
    const Place there(op, *shard.own);
    Problem q = p;
    const auto in = merge_leading(*shard.own, p.in.dtype, 2), out = merge_leading(shard.result, p.out.dtype, 2);
    if (!in || !out) continue;
    q.in = *in, q.out = *out, q.beside = beside(shard, p.in.dtype);
    shard.done = run_shard(op, there, shard, q, doors, pinned);
  }
}

bool is_image(const Direct& p) { return p.in.d == 1 && p.out.d == 1 && p.kd == 1 && p.place.pad_z == 0; }

// What TORCH_CONV_VARIANT pins: the kernel of the room that a call goes to. "passes" is no kernel, it takes a separable
// filter of volumes apart; the rooms that serve the parts choose for themselves.
const char* kPasses = "passes";
const char* pinned_variant() {
  const char* pinned = environment("TORCH_CONV_VARIANT");
  return std::strcmp(pinned, kPasses) == 0 ? "" : pinned;
}

}  // namespace

void run(const char* op, const Place& place, const Tensor& like, const Direct& problem) {
  const char* pinned = pinned_variant();
  Direct p = problem;
  // One channel expanded to many, each with a window of its own: one input channel with many outputs. It is read less
  // often, and bulk copies take no stride of 0.
  if (p.beside.any()) return run_shards(op, place, p, kDirect2d, pinned);
  if (p.in.c > 1 && p.in.stride_c == 0 && p.groups == p.in.c && p.out.c == p.in.c) p.in.c = p.groups = 1;
  if (is_image(p)) return run_problem(op, place, like, p, kDirect2d, pinned);
  // Only the rooms for images have the loops that planes and columns profit from; a pinned variant is one of volumes.
  const auto images = *pinned ? std::nullopt : as_images(p);
  if (images) run_problem(op, place, like, *images, kDirect2d, "");
  else run_problem(op, place, like, p, kDirect3d, pinned);
}

void run(const char* op, const Place& place, const Tensor& like, const Separable& p) {
  const char* pinned = pinned_variant();
  if (p.beside.any()) run_shards(op, place, p, kSeparable2d, pinned);
  else run_problem(op, place, like, p, kSeparable2d, pinned);
}

bool run_in_one_launch(const char* op, const Place& place, const Tensor& like, const Separable& p) {
  if (!place.cuda() || std::strcmp(environment("TORCH_CONV_VARIANT"), kPasses) == 0) return false;
  const Plan plan = (cuda_rooms()->*kSeparable3d.plan_cuda)(p, place.arch(), pinned_variant());
  if (plan.variant) run_plan(op, place, like, p, kSeparable3d, plan);
  return plan.variant != nullptr;
}

void run(const char* op, const Place& place, const Tensor& like, const Box& p) {
  run_problem(op, place, like, p, kBox, pinned_variant());
}

void run(const char* op, const Place& place, const Tensor& like, const BoxDepth& p) {
  run_problem(op, place, like, p, kBoxDepth, "");
}

void run(const char* op, const Place& place, const Tensor& like, const Combine& p) {
  run_problem(op, place, like, p, kCombine, "");
}

namespace {

bool is_volume(const Fused& p) {
  if (p.in.d > 1) return true;
  for (int i = 0; i < p.count; ++i)
    if (p.stages[i].kd > 1) return true;
  return false;
}

}  // namespace

bool run_in_one_launch(const char* op, const Place& place, const Tensor& like, const Fused& p) {
  const bool volume = is_volume(p);
  if (volume && !place.cuda()) return false;
  const char* pinned = pinned_variant();
  const Doors<Fused>& doors = volume ? kFused3d : kFused;
  const Plan plan =
      place.cuda() ? (cuda_rooms()->*doors.plan_cuda)(p, place.arch(), pinned) : doors.plan_cpu(p, pinned);
  if (plan.variant) run_plan(op, place, like, p, doors, plan);
  check(plan.variant || !p.wanted || *pinned == 0, op, "variant '", pinned, "' cannot serve this call");
  check(plan.variant || !p.wanted, op, "algorithm 'fused' cannot serve this call: ", plan.why);
  return plan.variant != nullptr;
}

namespace {

Plan ladder_plan(double elements, double taps, int launches) {
  return {.algorithm = "ladder",
          .variant = "textbook",
          .why = "the caller's choice",
          .launches = launches,
          .bytes = 8 * elements,
          .flops = 2 * taps * elements};
}

}  // namespace

void run(const char* op, const Place& place, const Ladder2d& p, ladder::Variant variant) {
  if (only_explain(op, place, ladder_plan(double(p.planes) * double(p.h) * double(p.w), double(p.k) * p.k, 1))) return;
  if (place.cuda()) cuda_rooms()->ladder2d_run(p, variant, place.stream());
  else ladder::run_cpu(p, variant);
}

void run(const char* op, const Place& place, const Ladder3d& p, ladder::Variant3d variant) {
  const bool passes = variant == ladder::Variant3d::separable;
  const double taps = passes ? double(p.kd) + p.kh + p.kw : double(p.kd) * p.kh * p.kw;
  const double voxels = double(p.volumes) * double(p.d) * double(p.h) * double(p.w);
  if (only_explain(op, place, ladder_plan(voxels, taps, passes ? 3 : 1))) return;
  if (place.cuda()) cuda_rooms()->ladder3d_run(p, variant, place.stream());
  else ladder::run_cpu(p, variant);
}

namespace {

void explain_begin() {
  explaining = true;
  explanation.clear();
}

std::string explain_end() {
  explaining = false;
  return std::move(explanation);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CompositeExplicitAutograd, m) {
  m.impl("_explain_begin", TORCH_BOX(&explain_begin));
  m.impl("_explain_end", TORCH_BOX(&explain_end));
}

}  // namespace torch_conv

// Called by torch_conv/_library.py (or a C++ program) with torch_conv_cuda_rooms() of the module _cuda.
extern "C" __attribute__((visibility("default"))) void torch_conv_install_cuda(const void* rooms) {
  torch_conv::installed_cuda_rooms = static_cast<const torch_conv::CudaRooms*>(rooms);
}
