#include "dispatch/dispatch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "dispatch/long_rows.h"
#include "dispatch/volumes.h"
#include "sharding/launch_shards.h"
#include "tensors/images.h"

namespace torch_conv {

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool environment_steers() {
  for (char** entry = environ; entry && *entry; ++entry)
    if (**entry == 'T' && std::strncmp(*entry, "TORCH_CONV_", 11) == 0) return true;
  return false;
}

namespace {

// "9.0 132 232448 4.8e12": compute capability, multiprocessors, bytes of shared memory and bytes a second.
std::optional<Arch> described_gpu(const char* op) {
  const std::string text = environment("TORCH_CONV_EXPLAIN_FOR");
  if (text.empty()) return std::nullopt;
  std::istringstream words(text);
  Arch arch{};
  char point = 0;
  words >> arch.major >> point >> arch.minor >> arch.multiprocessors >> arch.shared_bytes >> arch.bytes_per_second;
  check(bool(words) && point == '.', op, "TORCH_CONV_EXPLAIN_FOR must be like '9.0 132 232448 4.8e12', got '", text,
        "'");
  arch.bulk_copy = arch.major >= 9;
  return arch;
}

// Tests force the plain path of GPUs before Hopper on any GPU.
void respect_environment(Arch& arch) {
  if (std::strcmp(environment("TORCH_CONV_NO_TMA"), "1") == 0) arch.bulk_copy = false;
}

bool is_question(const Call& call) { return call.purpose == Purpose::explain || call.of_question; }

}  // namespace

bool on_cuda(const Call& call, const Tensor& input) {
  return input.is_cuda() || (is_question(call) && *environment("TORCH_CONV_EXPLAIN_FOR"));
}

Place::Place(const Call& call, const Tensor& input) : cuda_(on_cuda(call, input)) {
  const char* op = call.op;
  if (!input.is_cuda() && !input.is_cpu()) refuse(op, "input must be on cpu or cuda, got ", device_text(input));
  if (!cuda_) return;
  if (input.is_cuda()) {
    const char* why = cuda::unavailable();
    check(*why == 0, op, "input is on ", device_text(input), ", but ", why);
    const int device = input.get_device_index();
    device_.emplace(device);
    arch_ = cuda::arch_of(device);
    stream_ = cuda::current_stream(device);
  }
  if (const auto described = is_question(call) ? described_gpu(op) : std::nullopt) arch_ = *described;
  respect_environment(arch_);
}

Beside beside_of(const Call& call, const Image& in, int axes) {
  return call.part && !call.part->shards.empty() ? beside(*call.part->shards[0], in.dtype, axes) : Beside{};
}

namespace {

constexpr Doors<Direct> kDirect2d{direct::plan_cpu, direct::run_cpu, direct2d::plan_cuda, direct2d::run_cuda};
constexpr Doors<ReadTiles> kReadTiles{overlap_save::plan_read_cpu, overlap_save::run_read_cpu,
                                      overlap_save::plan_read_cuda, overlap_save::run_read_cuda};
constexpr Doors<WriteTiles> kWriteTiles{overlap_save::plan_write_cpu, overlap_save::run_write_cpu,
                                        overlap_save::plan_write_cuda, overlap_save::run_write_cuda};
constexpr Doors<Depthwise> kDepthwise{depthwise::plan_cpu, depthwise::run_cpu, depthwise::plan_cuda,
                                      depthwise::run_cuda};
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

template <typename Problem>
void run_problem(Call& call, const Place& place, const Tensor& like, const Problem& p, const Doors<Problem>& doors,
                 const char* pinned, const char* wanted = "") {
  const auto planned = plan_of(call, place, p, doors, pinned);
  check_planned(call, planned->plan, pinned, wanted);
  run_plan(call, place, like, p, doors, planned);
}

// The algorithm that alone makes such sums.
const char* wanted_by(Sums sums) { return sums == Sums::products ? "tensor_core" : ""; }

bool is_image(const Direct& p) { return p.in.d == 1 && p.out.d == 1 && p.kd == 1 && p.place.pad_z == 0; }

// What TORCH_CONV_VARIANT pins: the kernel of the room that a call goes to. "passes" is no kernel, it takes a separable
// filter of volumes apart; the rooms that serve the parts choose for themselves.
bool passes_pinned() { return std::strcmp(environment("TORCH_CONV_VARIANT"), "passes") == 0; }
const char* pinned_variant() { return passes_pinned() ? "" : environment("TORCH_CONV_VARIANT"); }
// The box of a volume goes to two kernels, that of its planes and that of the depth pass, whose names begin with
// "depth": the other one is chosen.
bool depth_pass_pinned() { return std::strncmp(environment("TORCH_CONV_VARIANT"), "depth", 5) == 0; }

}  // namespace

// The hall asks before it brings the window to the device in one dtype or the other.
bool takes_narrow_taps(const Place& place, const Direct& problem) {
  return kDirect2d.plan_cuda(with_channels_read_once(problem), place.arch(), pinned_variant()).variant != nullptr;
}

// Windows along z alone go by images, whose room is not asked for planes of other shards.
bool serves_shards(const Place& place, const Direct& p) {
  const char* pinned = pinned_variant();
  if (!place.cuda() || (!*pinned && as_images(p))) return false;
  return kDirect3d.plan_cuda(with_channels_read_once(p), place.arch(), pinned).variant != nullptr;
}

void run(Call& call, const Place& place, const Tensor& like, const Direct& problem) {
  const char* pinned = pinned_variant();
  if (problem.beside.any()) {
    if (axes_of(*call.part) == 2) return run_shards(call, place, problem, kDirect2d, pinned);
    if (serves_shards(place, problem)) run_shards(call, place, problem, kDirect3d, pinned);
    return;
  }
  const Direct p = with_channels_read_once(problem);
  const auto rows = place.cuda() && is_image(p) && !*pinned ? long_rows(p) : std::vector<Direct>{};
  for (const Direct& part : rows) run_problem(call, place, like, part, kDirect2d, "", wanted_by(p.sums));
  if (!rows.empty()) return;
  if (is_image(p)) return run_problem(call, place, like, p, kDirect2d, pinned, wanted_by(p.sums));
  // Only the rooms for images have the loops that planes and columns profit from; a pinned variant is one of volumes.
  const auto images = *pinned ? std::nullopt : as_images(p);
  if (images) run_problem(call, place, like, *images, kDirect2d, "");
  else run_problem(call, place, like, p, kDirect3d, pinned);
}

void run(Call& call, const Place& place, const Tensor& like, const ReadTiles& p) {
  run_problem(call, place, like, p, kReadTiles, "");
}

void run(Call& call, const Place& place, const Tensor& like, const WriteTiles& p) {
  run_problem(call, place, like, p, kWriteTiles, "");
}

bool serves_depthwise(Call& call, const Place& place, const Depthwise& p) {
  if (!place.cuda()) return false;
  const Plan plan = kDepthwise.plan_cuda(p, place.arch(), pinned_variant());
  if (!plan.variant) pass_on(call, plan);
  return plan.variant != nullptr;
}

bool run_depthwise(Call& call, const Place& place, const Tensor& like, const Depthwise& p) {
  const char* pinned = pinned_variant();
  const auto planned = plan_of(call, place, p, kDepthwise, pinned);
  const Plan& plan = planned->plan;
  if (plan.variant) run_plan(call, place, like, p, kDepthwise, planned);
  else pass_on(call, plan);
  if (const char* wanted = wanted_by(p.sums); *wanted) check_planned(call, plan, pinned, wanted);
  return plan.variant != nullptr;
}

void run(Call& call, const Place& place, const Tensor& like, const Separable& p) {
  const char* pinned = pinned_variant();
  if (p.beside.any()) run_shards(call, place, p, kSeparable2d, pinned);
  else run_problem(call, place, like, p, kSeparable2d, pinned, wanted_by(p.sums));
}

bool gains_in_float32(const Place& place, const Separable& p) {
  constexpr int64_t least = 128;  // taps along each axis: what was measured is larger, what is thin has less to gain
  if (std::min(p.kh, p.kw) < least) return false;
  const bool converts = p.in.dtype != Dtype::f32 || p.out.dtype != Dtype::f32;
  if (!place.cuda() || !converts || accumulation_dtype(p.in.dtype) != Dtype::f32 || p.beside.any() || *pinned_variant())
    return false;
  Separable wide = p;
  wide.in.dtype = wide.out.dtype = Dtype::f32;
  const auto launches = [&](const Separable& q) { return kSeparable2d.plan_cuda(q, place.arch(), "").launches; };
  return launches(wide) < launches(p);
}

bool run_in_one_launch(Call& call, const Place& place, const Tensor& like, const Separable& p) {
  if (!place.cuda() || passes_pinned()) return false;
  const auto planned = plan_of(call, place, p, kSeparable3d, pinned_variant());
  if (planned->plan.variant) run_plan(call, place, like, p, kSeparable3d, planned);
  else pass_on(call, planned->plan);
  return planned->plan.variant != nullptr;
}

void run_on_shards(Call& call, const Place& place, const Separable& p) {
  if (!passes_pinned()) run_shards(call, place, p, kSeparable3d, pinned_variant());
}

void run(Call& call, const Place& place, const Tensor& like, const Box& p) {
  const char* pinned = depth_pass_pinned() ? "" : pinned_variant();
  if (p.beside.any()) run_shards(call, place, p, kBox, pinned);
  else run_problem(call, place, like, p, kBox, pinned);
}

void run(Call& call, const Place& place, const Tensor& like, const BoxDepth& p) {
  run_problem(call, place, like, p, kBoxDepth, depth_pass_pinned() ? pinned_variant() : "");
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
  if (p.wanted) check_planned(call, plan, pinned, "fused");
  return plan.variant != nullptr;
}

bool serves_shards(const Place& place, const Fused& p) {
  return place.cuda() && !is_volume(p) && kFused.plan_cuda(p, place.arch(), pinned_variant()).variant;
}

void run_on_shards(Call& call, const Place& place, const Fused& p) {
  run_shards(call, place, p, kFused, pinned_variant());
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
  if (call.graph) call.graph->invalidate();
  std::vector<const LoadedKernel*> kernels;
  if (place.cuda() && call.loads()) kernels = load_all(ladder::kernels_cuda(p, variant), place.arch());
  if (only_explain(call, place, plan)) return;
  if (!place.cuda()) return ladder::run_cpu(p, variant);
  ladder::run_cuda(p, variant, {place.stream(), nullptr, kernels.data()});
}

}  // namespace

void run(Call& call, const Place& place, const Ladder1d& p, ladder::Variant1d variant) {
  run_ladder(call, place, p, variant, ladder_plan(double(p.rows) * double(p.w), p.k, 1));
}

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
