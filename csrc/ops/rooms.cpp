#include "ops/rooms.h"

#include <cstdlib>
#include <cstring>

#include "cuda/store.h"
#include "ops/images.h"
#include "ops/seams.h"
#include "ops/split_streams.h"
#include "ops/steps.h"
#include "ops/volumes.h"

namespace torch_conv {

namespace {

// True means: the plan was explained, do not run it.
bool only_explain(Call& call, const Place& place, const Plan& plan) {
  if (call.runs()) return false;
  std::ostringstream line;
  line << plan << call.refused;
  call.refused.clear();
  if (place.cuda()) line << "; floor " << plan.bytes / place.arch().bytes_per_second * 1e6 << " us";
  call.explain(line.str());
  return true;
}

// Of a plan that could not be: the next plan that is explained says why.
void pass_on(Call& call, const Plan& plan) {
  if (call.runs()) return;
  for (const Refusal& r : plan.refused)
    call.refused += std::string("; not ") + plan.algorithm + "/" + r.variant + ": " + r.why;
}

}  // namespace

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Place::Place(const char* op, const Tensor& input) {
  if (!input.is_cuda()) {
    check(input.is_cpu(), op, "input must be on cpu or cuda, got ", device_text(input));
    return;
  }
  const char* why = cuda::unavailable();
  check(*why == 0, op, "input is on ", device_text(input), ", but ", why);
  const int device = input.get_device_index();
  device_.emplace(device);
  arch_ = cuda::arch_of(device);
  // Tests force the plain path of GPUs before Hopper on any GPU.
  if (std::strcmp(environment("TORCH_CONV_NO_TMA"), "1") == 0) arch_.bulk_copy = false;
  stream_ = cuda::current_stream(device);
}

namespace {

Beside beside(const Shard& shard, Dtype dtype) {
  const auto image = [&](const Tensor* t) {
    const auto view = t ? merge_leading(*t, dtype, 2) : std::nullopt;
    return view ? *view : Image{};
  };
  return {image(shard.above), image(shard.below)};
}

}  // namespace

Beside beside_of(const Call& call, const Image& in, int axes) {
  return call.part && axes == 2 && !call.part->shards.empty() ? beside(*call.part->shards[0], in.dtype) : Beside{};
}

namespace {

// Where a problem goes: a room's doors on both devices.
template <typename Problem>
struct Doors {
  Plan (*plan_cpu)(const Problem&, const char*);
  void (*run_cpu)(const Problem&, const Plan&);
  Plan (*plan_cuda)(const Problem&, const Arch&, const char*);
  void (*run_cuda)(const Problem&, const Plan&, const Site&);
};

constexpr Doors<Direct> kDirect2d{direct::plan_cpu, direct::run_cpu, direct2d::plan_cuda, direct2d::run_cuda};
constexpr Doors<Direct> kDirect3d{direct::plan_cpu, direct::run_cpu, direct3d::plan_cuda, direct3d::run_cuda};
constexpr Doors<Separable> kSeparable2d{separable2d::plan_cpu, separable2d::run_cpu, separable2d::plan_cuda,
                                        separable2d::run_cuda};
constexpr Doors<Separable> kSeparable3d{nullptr, nullptr, separable3d::plan_cuda, separable3d::run_cuda};
constexpr Doors<Box> kBox{box::plan_cpu, box::run_cpu, box::plan_cuda, box::run_cuda};
constexpr Doors<BoxDepth> kBoxDepth{box::plan_depth_cpu, box::run_depth_cpu, box::plan_depth_cuda, box::run_depth_cuda};
constexpr Doors<Fused> kFused{fused::plan_cpu, fused::run_cpu, fused::plan_cuda, fused::run_cuda};
constexpr Doors<Fused> kFused3d{nullptr, nullptr, fused3d::plan_cuda, fused3d::run_cuda};
constexpr Doors<Combine> kCombine{fused::plan_combine_cpu, fused::run_combine_cpu, fused::plan_combine_cuda,
                                  fused::run_combine_cuda};

// A plan with its kernels loaded.
struct Planned {
  Plan plan;
  std::vector<const LoadedKernel*> kernels;
};

std::vector<const LoadedKernel*> load_all(const std::vector<Kernel>& kernels, const Arch& arch) {
  std::vector<const LoadedKernel*> loaded;
  for (const Kernel& kernel : kernels) loaded.push_back(&cuda::load(kernel, arch));
  return loaded;
}

// The plan of a problem, on CUDA with its kernels loaded if the call runs or prepares.
template <typename Problem>
std::shared_ptr<const Planned> plan_of(const Call& call, const Place& place, const Problem& p,
                                       const Doors<Problem>& doors, const char* pinned) {
  if (!place.cuda()) return std::make_shared<Planned>(Planned{doors.plan_cpu(p, pinned), {}});
  // The call may bring a large window to the device. No bytes: this loads what brings it.
  if (call.prepares()) cuda::upload(nullptr, nullptr, 0, place.arch(), place.stream());
  auto planned = std::make_shared<Planned>(Planned{doors.plan_cuda(p, place.arch(), pinned), {}});
  if (!planned->plan.variant) return planned;
  if (call.loads()) planned->kernels = load_all(planned->plan.kernels, place.arch());
  return planned;
}

// f(address) for every address of memory that a problem holds.
template <typename F>
void each_address(Direct& p, const F& f) {
  f(p.in.data), f(p.out.data), f(p.taps.data), f(p.bias), f(p.beside.above.data), f(p.beside.below.data);
}
template <typename F>
void each_address(Separable& p, const F& f) {
  f(p.in.data), f(p.out.data), f(p.taps_x.data), f(p.taps_y.data), f(p.taps_z.data);
  f(p.beside.above.data), f(p.beside.below.data);
}
template <typename F>
void each_address(Box& p, const F& f) {
  f(p.in.data), f(p.out.data);
}
template <typename F>
void each_address(BoxDepth& p, const F& f) {
  f(p.sums.data), f(p.out.data);
}
template <typename F>
void each_address(Combine& p, const F& f) {
  for (int i = 0; i < p.windows; ++i) f(p.sums[i].data);
  f(p.centre.data), f(p.out.data);
}
template <typename F>
void each_address(Fused& p, const F& f) {
  f(p.in.data), f(p.out.data);
  for (Stage& s : std::span(p.stages, p.count))
    for (int i = 0; i < s.windows; ++i) f(s.taps_x[i].data), f(s.taps_y[i].data), f(s.taps_z[i].data);
}

// A planned problem as a step of its call: the same launch on other memory.
template <typename Problem>
class Launch {
 public:
  Launch(Steps& steps, const Problem& p, const Doors<Problem>& doors, std::shared_ptr<const Planned> planned)
      : problem_(p), doors_(&doors), planned_(std::move(planned)) {
    each_address(problem_, [&](auto*& address) { slots_.push_back(address ? steps.find(address) : Slot{-1, 0}); });
  }
  void on_cpu(const Replay& r) const { doors_->run_cpu(at(r), planned_->plan); }
  void on_cuda(const Replay& r, void* stream, void* scratch) const {
    doors_->run_cuda(at(r), planned_->plan, {stream, scratch, planned_->kernels.data()});
  }

 private:
  Problem at(const Replay& r) const {
    Problem p = problem_;
    const Slot* slot = slots_.data();
    each_address(
        p, [&](auto*& address) { address = static_cast<std::remove_reference_t<decltype(address)>>(r.at(*slot++)); });
    return p;
  }

  Problem problem_;
  const Doors<Problem>* doors_;
  std::shared_ptr<const Planned> planned_;
  std::vector<Slot> slots_;
};

template <typename Problem>
void run_plan(Call& call, const Place& place, const Tensor& like, const Problem& p, const Doors<Problem>& doors,
              const std::shared_ptr<const Planned>& planned) {
  const Plan& plan = planned->plan;
  if (only_explain(call, place, plan)) return;
  if (!place.cuda()) {
    doors.run_cpu(p, plan);
    if (call.steps)
      call.steps->then([launch = Launch<Problem>(*call.steps, p, doors, planned)](Replay& r) { launch.on_cpu(r); });
    return;
  }
  std::optional<Tensor> scratch;
  if (plan.scratch_bytes > 0) scratch = allocate(call, like, {plan.scratch_bytes}, ScalarType::Byte);
  void* const at = scratch ? scratch->data_ptr() : nullptr;
  doors.run_cuda(p, plan, {place.stream(), at, planned->kernels.data()});
  if (!call.steps) return;
  const Slot slot = at ? call.steps->find(at) : Slot{-1, 0};
  const int device = like.get_device_index();
  call.steps->then([device, slot, launch = Launch<Problem>(*call.steps, p, doors, planned)](Replay& r) {
    const cuda::OnDevice current(device);
    launch.on_cuda(r, cuda::current_stream(device), r.at(slot));
  });
}

// Why a plan has no variant: the sentence that refuses the call.
void check_planned(const Call& call, const Plan& plan, const char* pinned) {
  check(plan.variant != nullptr || *pinned == 0, call.op, "variant '", pinned, "' cannot serve this call",
        plan.refused.empty() ? "" : ": ", plan.refused.empty() ? "" : plan.refused.back().why);
  check(plan.variant != nullptr, call.op, "no kernel serves this call: ", plan.why);
}

template <typename Problem>
void run_problem(Call& call, const Place& place, const Tensor& like, const Problem& p, const Doors<Problem>& doors,
                 const char* pinned) {
  const auto planned = plan_of(call, place, p, doors, pinned);
  check_planned(call, planned->plan, pinned);
  run_plan(call, place, like, p, doors, planned);
}

// Does a problem hold no memory of a device but its images?
bool on_any_device(const Direct& p) { return p.taps.on_host && !p.bias; }
bool on_any_device(const Separable& p) { return p.taps_x.on_host && p.taps_y.on_host; }

// What a shard with neighbours is filtered by: the interior, and `aside` the seams, which read other shards. Together
// where the call has one stream for both.
template <typename Problem>
struct Piece {
  Problem problem;
  bool aside;
  std::shared_ptr<const Planned> planned{};
};

template <typename Problem>
std::vector<Piece<Problem>> pieces_of(const Problem& p, bool together) {
  if (together) return {{p, false}};
  const Seams<Problem> seams = Seams<Problem>::of(p);
  std::vector<Piece<Problem>> pieces{{seams.interior, false}, {seams.above, true}, {seams.below, true}};
  std::erase_if(pieces, [](const auto& piece) { return piece.problem.out.h == 0; });
  return pieces;
}

// The same as steps of the call on all shards. `fresh` as in SplitStreams::begin.
template <typename Problem>
void write_down(Steps& steps, const Shard& shard, const std::vector<Piece<Problem>>& pieces,
                const Doors<Problem>& doors, bool fresh) {
  const int own = steps.index_of(*shard.own);
  std::vector<int> lenders;
  for (const Tensor* other : {shard.above, shard.below})
    if (other) lenders.push_back(steps.index_of(*other));
  steps.guard([own, lenders](const std::vector<Tensor>& given) {
    const auto reads = [&](int i) { return can_read(given[own], given[i]); };
    return std::all_of(lenders.begin(), lenders.end(), reads);
  });
  std::vector<std::pair<Launch<Problem>, bool>> launches;
  for (const Piece<Problem>& piece : pieces)
    launches.push_back({{steps, piece.problem, doors, piece.planned}, piece.aside});
  steps.then([own, lenders, launches, fresh, device = shard.own->get_device_index()](Replay& r) {
    std::vector<const Tensor*> others;
    for (int i : lenders) others.push_back(&r.tensor(i));
    void* const side = r.streams->begin(r.tensor(own), others, fresh);
    {
      const cuda::OnDevice current(device);
      void* const stream = cuda::current_stream(device);
      for (const auto& [launch, aside] : launches) launch.on_cuda(r, aside ? side : stream, nullptr);
    }
    r.streams->end(r.tensor(own));
  });
}

template <typename Problem>
bool run_shard(Call& call, const Place& place, const Shard& shard, const Problem& p, const Doors<Problem>& doors,
               const char* pinned) {
  SplitStreams& streams = *call.part->streams;
  std::vector<Piece<Problem>> pieces = pieces_of(p, streams.together());
  for (Piece<Problem>& piece : pieces) {
    piece.planned = plan_of(call, place, piece.problem, doors, pinned);
    if (!piece.planned->plan.variant || piece.planned->plan.scratch_bytes > 0) return false;
  }
  const bool fresh = !on_any_device(p);  // taps in device memory may just have been put there
  void* const side = streams.begin(*shard.own, {shard.above, shard.below}, fresh);
  for (const Piece<Problem>& piece : pieces) {
    const Planned& planned = *piece.planned;
    if (!only_explain(call, place, planned.plan))
      doors.run_cuda(piece.problem, planned.plan,
                     {piece.aside ? side : place.stream(), nullptr, planned.kernels.data()});
  }
  streams.end(*shard.own);
  if (call.steps) write_down(*call.steps, shard, pieces, doors, fresh);
  return true;
}

// The shard at hand, and the further ones if its problem is theirs but for the images: that saves them the call. If the
// room cannot, nothing runs, and the shards are not `done`.
template <typename Problem>
void run_shards(Call& call, const Place& place, const Problem& p, const Doors<Problem>& doors, const char* pinned) {
  if (!place.cuda()) return;
  const std::vector<Shard*>& shards = call.part->shards;
  shards[0]->done = run_shard(call, place, *shards[0], p, doors, pinned);
  if (!shards[0]->done || !on_any_device(p)) return;
  for (size_t i = 1; i < shards.size(); ++i) {
    Shard& shard = *shards[i];
    const Place there(call.op, *shard.own);
    Problem q = p;
    const auto in = merge_leading(*shard.own, p.in.dtype, 2), out = merge_leading(shard.result, p.out.dtype, 2);
    if (!in || !out) continue;
    q.in = *in, q.out = *out, q.beside = beside(shard, p.in.dtype);
    shard.done = run_shard(call, there, shard, q, doors, pinned);
  }
}

bool is_image(const Direct& p) { return p.in.d == 1 && p.out.d == 1 && p.kd == 1 && p.place.pad_z == 0; }

// What TORCH_CONV_VARIANT pins: the kernel of the room that a call goes to. "passes" is no kernel, it takes a separable
// filter of volumes apart; the rooms that serve the parts choose for themselves.
bool passes_pinned() { return std::strcmp(environment("TORCH_CONV_VARIANT"), "passes") == 0; }
const char* pinned_variant() { return passes_pinned() ? "" : environment("TORCH_CONV_VARIANT"); }

}  // namespace

void run(Call& call, const Place& place, const Tensor& like, const Direct& problem) {
  const char* pinned = pinned_variant();
  if (problem.beside.any()) return run_shards(call, place, problem, kDirect2d, pinned);
  Direct p = problem;
  // One channel expanded to many, each with a window of its own: one input channel with many outputs. It is read less
  // often, and bulk copies take no stride of 0.
  if (p.in.c > 1 && p.in.stride_c == 0 && p.groups == p.in.c && p.out.c == p.in.c) p.in.c = p.groups = 1;
  if (is_image(p)) return run_problem(call, place, like, p, kDirect2d, pinned);
  // Only the rooms for images have the loops that planes and columns profit from; a pinned variant is one of volumes.
  const auto images = *pinned ? std::nullopt : as_images(p);
  if (images) run_problem(call, place, like, *images, kDirect2d, "");
  else run_problem(call, place, like, p, kDirect3d, pinned);
}

void run(Call& call, const Place& place, const Tensor& like, const Separable& p) {
  const char* pinned = pinned_variant();
  if (p.beside.any()) run_shards(call, place, p, kSeparable2d, pinned);
  else run_problem(call, place, like, p, kSeparable2d, pinned);
}

bool run_in_one_launch(Call& call, const Place& place, const Tensor& like, const Separable& p) {
  if (!place.cuda() || passes_pinned()) return false;
  const auto planned = plan_of(call, place, p, kSeparable3d, pinned_variant());
  if (planned->plan.variant) run_plan(call, place, like, p, kSeparable3d, planned);
  else pass_on(call, planned->plan);
  return planned->plan.variant != nullptr;
}

bool serves_in_one_launch(const Place& place, const Separable& p) {
  if (!place.cuda() || passes_pinned()) return false;
  Arch any = place.arch();
  any.offers = nullptr;  // what is compiled decides no algorithm
  return kSeparable3d.plan_cuda(p, any, pinned_variant()).variant != nullptr;
}

void run(Call& call, const Place& place, const Tensor& like, const Box& p) {
  run_problem(call, place, like, p, kBox, pinned_variant());
}

void run(Call& call, const Place& place, const Tensor& like, const BoxDepth& p) {
  run_problem(call, place, like, p, kBoxDepth, "");
}

void run(Call& call, const Place& place, const Tensor& like, const Combine& p) {
  run_problem(call, place, like, p, kCombine, "");
}

namespace {

bool is_volume(const Fused& p) {
  if (p.in.d > 1) return true;
  for (int i = 0; i < p.count; ++i)
    if (p.stages[i].kd > 1) return true;
  return false;
}

}  // namespace

bool run_in_one_launch(Call& call, const Place& place, const Tensor& like, const Fused& p) {
  const bool volume = is_volume(p);
  if (volume && !place.cuda()) return false;
  const char* pinned = pinned_variant();
  const Doors<Fused>& doors = volume ? kFused3d : kFused;
  const auto planned = plan_of(call, place, p, doors, pinned);
  const Plan& plan = planned->plan;
  if (plan.variant) run_plan(call, place, like, p, doors, planned);
  else pass_on(call, plan);
  check(plan.variant || !p.wanted || *pinned == 0, call.op, "variant '", pinned, "' cannot serve this call");
  check(plan.variant || !p.wanted, call.op, "algorithm 'fused' cannot serve this call: ", plan.why);
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

template <typename Problem, typename Variant>
void run_ladder(Call& call, const Place& place, const Problem& p, Variant variant, const Plan& plan) {
  if (call.steps) call.steps->spoil();
  std::vector<const LoadedKernel*> kernels;
  if (place.cuda() && call.loads()) kernels = load_all(ladder::kernels_cuda(p, variant), place.arch());
  if (only_explain(call, place, plan)) return;
  if (!place.cuda()) return ladder::run_cpu(p, variant);
  ladder::run_cuda(p, variant, {place.stream(), nullptr, kernels.data()});
}

}  // namespace

void run(Call& call, const Place& place, const Ladder2d& p, ladder::Variant variant) {
  const double pixels = double(p.planes) * double(p.h) * double(p.w);
  run_ladder(call, place, p, variant, ladder_plan(pixels, double(p.k) * p.k, 1));
}

void run(Call& call, const Place& place, const Ladder3d& p, ladder::Variant3d variant) {
  const bool passes = variant == ladder::Variant3d::separable;
  const double taps = passes ? double(p.kd) + p.kh + p.kw : double(p.kd) * p.kh * p.kw;
  const double voxels = double(p.volumes) * double(p.d) * double(p.h) * double(p.w);
  run_ladder(call, place, p, variant, ladder_plan(voxels, taps, passes ? 3 : 1));
}

}  // namespace torch_conv
