#include "dispatch/dispatch.h"

#include <algorithm>
#include <cstring>

#include "dispatch/long_rows.h"
#include "dispatch/volumes.h"
#include "sharding/launch_shards.h"

namespace torch_conv {

namespace {

constexpr Doors<Direct> kDirect2d{direct::plan_cpu, direct::run_cpu, direct2d::plan_cuda, direct2d::run_cuda};
constexpr Doors<Direct> kDirect3d{direct::plan_cpu, direct::run_cpu, direct3d::plan_cuda, direct3d::run_cuda};
constexpr Doors<ReadTiles> kReadTiles{overlap_save::plan_read_cpu, overlap_save::run_read_cpu,
                                      overlap_save::plan_read_cuda, overlap_save::run_read_cuda};
constexpr Doors<WriteTiles> kWriteTiles{overlap_save::plan_write_cpu, overlap_save::run_write_cpu,
                                        overlap_save::plan_write_cuda, overlap_save::run_write_cuda};
constexpr Doors<Depthwise> kDepthwise{depthwise::plan_cpu, depthwise::run_cpu, depthwise::plan_cuda,
                                      depthwise::run_cuda};
constexpr Doors<Separable> kSeparable2d{separable2d::plan_cpu, separable2d::run_cpu, separable2d::plan_cuda,
                                        separable2d::run_cuda};
constexpr Doors<Separable> kSeparable3d{nullptr, nullptr, separable3d::plan_cuda, separable3d::run_cuda};
constexpr Doors<Box> kBox{box::plan_cpu, box::run_cpu, box::plan_cuda, box::run_cuda};
constexpr Doors<BoxDepth> kBoxDepth{box::plan_depth_cpu, box::run_depth_cpu, box::plan_depth_cuda, box::run_depth_cuda};
constexpr Doors<Fused> kFused{fused::plan_cpu, fused::run_cpu, fused::plan_cuda, fused::run_cuda};
constexpr Doors<Fused> kFused3d{nullptr, nullptr, fused3d::plan_cuda, fused3d::run_cuda};
constexpr Doors<Combine> kCombine{fused::plan_combine_cpu, fused::run_combine_cpu, fused::plan_combine_cuda,
                                  fused::run_combine_cuda};

// The variant that TORCH_CONV_VARIANT pins, of the family that a call goes to. "passes" is no variant, it takes a
// separable filter of volumes apart; the families that serve the parts choose for themselves.
bool passes_pinned() { return std::strcmp(environment("TORCH_CONV_VARIANT"), "passes") == 0; }
const char* pinned_variant() { return passes_pinned() ? "" : environment("TORCH_CONV_VARIANT"); }
// The box of a volume takes two kernels, that of its planes and that of the depth pass, whose names begin with "depth":
// the other one is chosen.
bool depth_pass_pinned() { return std::strncmp(environment("TORCH_CONV_VARIANT"), "depth", 5) == 0; }

bool is_image(const Direct& p) { return p.in.d == 1 && p.out.d == 1 && p.kd == 1 && p.place.pad_z == 0; }

bool is_volume(const Fused& p) {
  const auto deep = [](const Stage& stage) { return stage.kd > 1; };
  return p.in.d > 1 || std::any_of(p.stages, p.stages + p.count, deep);
}

template <typename Problem>
void run_checked(Call& call, const Place& place, const Tensor& like, const Decision<Problem>& d,
                 const char* wanted = "") {
  check_serves(call, d, wanted);
  launch(call, place, like, d);
}

}  // namespace

Beside beside_of(const Call& call, const Image& in, int axes) {
  return call.part && !call.part->shards.empty() ? beside(*call.part->shards[0], in.dtype, axes) : Beside{};
}

const char* wanted_by(Sums sums) { return sums == Sums::products ? "tensor_core" : ""; }

std::vector<Decision<Direct>> dispatch(const Place& place, const Direct& problem) {
  const Direct p = with_channels_read_once(problem);
  const char* pinned = pinned_variant();
  std::vector<Decision<Direct>> parts;
  if (!is_image(p)) {
    // Only the families for images have the loops that planes and columns profit from; a pinned variant is of volumes.
    const auto images = *pinned ? std::nullopt : as_images(p);
    parts.push_back(images ? decide(place, *images, kDirect2d, "") : decide(place, p, kDirect3d, pinned));
    return parts;
  }
  if (place.cuda() && p.kh == 1 && !*pinned)
    for (const Direct& rows : long_rows(p)) parts.push_back(decide(place, rows, kDirect2d, ""));
  if (parts.empty()) parts.push_back(decide(place, p, kDirect2d, pinned));
  return parts;
}

bool all_serve(const std::vector<Decision<Direct>>& parts) {
  return std::all_of(parts.begin(), parts.end(), [](const auto& d) { return d.serves(); });
}

Decision<Depthwise> dispatch(const Place& place, const Depthwise& p) {
  return decide(place, p, kDepthwise, pinned_variant());
}

Decision<Separable> dispatch(const Place& place, const Separable& p) {
  return decide(place, p, kSeparable2d, pinned_variant());
}

std::optional<Decision<Separable>> dispatch_volumes(const Place& place, const Separable& p) {
  if (!place.cuda() || passes_pinned()) return std::nullopt;
  return decide(place, p, kSeparable3d, pinned_variant());
}

std::optional<Decision<Fused>> dispatch(const Place& place, const Fused& p) {
  const bool volume = is_volume(p);
  if (volume && !place.cuda()) return std::nullopt;
  return decide(place, p, volume ? kFused3d : kFused, pinned_variant());
}

void run(Call& call, const Place& place, const Tensor& like, const Direct& p) {
  if (p.beside.any()) {
    const char* pinned = pinned_variant();
    if (axes_of(*call.part) == 2) return run_shards(call, place, p, kDirect2d, pinned);
    if (*pinned || !as_images(p)) run_shards(call, place, p, kDirect3d, pinned);
    return;
  }
  for (const Decision<Direct>& part : dispatch(place, p)) run_checked(call, place, like, part, wanted_by(p.sums));
}

void run(Call& call, const Place& place, const Tensor& like, const ReadTiles& p) {
  run_checked(call, place, like, decide(place, p, kReadTiles, ""));
}

void run(Call& call, const Place& place, const Tensor& like, const WriteTiles& p) {
  run_checked(call, place, like, decide(place, p, kWriteTiles, ""));
}

void run(Call& call, const Place& place, const Tensor& like, const Separable& p) {
  if (p.beside.any()) run_shards(call, place, p, kSeparable2d, pinned_variant());
  else run_checked(call, place, like, dispatch(place, p), wanted_by(p.sums));
}

void run(Call& call, const Place& place, const Tensor& like, const Box& p) {
  const char* pinned = depth_pass_pinned() ? "" : pinned_variant();
  if (p.beside.any()) run_shards(call, place, p, kBox, pinned);
  else run_checked(call, place, like, decide(place, p, kBox, pinned));
}

void run(Call& call, const Place& place, const Tensor& like, const BoxDepth& p) {
  run_checked(call, place, like, decide(place, p, kBoxDepth, depth_pass_pinned() ? pinned_variant() : ""));
}

void run(Call& call, const Place& place, const Tensor& like, const Combine& p) {
  run_checked(call, place, like, decide(place, p, kCombine, ""));
}

bool run_depthwise(Call& call, const Place& place, const Tensor& like, const Depthwise& p) {
  const Decision<Depthwise> d = dispatch(place, p);
  if (p.sums == Sums::products) check_serves(call, d, wanted_by(p.sums));
  return launch_if_served(call, place, like, d);
}

bool run_in_one_launch(Call& call, const Place& place, const Tensor& like, const Fused& p) {
  const auto d = dispatch(place, p);
  if (d && p.wanted) check_serves(call, *d, "fused");
  return d && launch_if_served(call, place, like, *d);
}

// Windows along z alone filter images, whose family is not asked for planes of other shards.
bool serves_shards(const Place& place, const Direct& p) {
  const char* pinned = pinned_variant();
  if (!place.cuda() || (!*pinned && as_images(p))) return false;
  return decide(place, with_channels_read_once(p), kDirect3d, pinned).serves();
}

bool serves_shards(const Place& place, const Fused& p) {
  return place.cuda() && !is_volume(p) && decide(place, p, kFused, pinned_variant()).serves();
}

void run_on_shards(Call& call, const Place& place, const Separable& p) {
  if (!passes_pinned()) run_shards(call, place, p, kSeparable3d, pinned_variant());
}

void run_on_shards(Call& call, const Place& place, const Fused& p) {
  run_shards(call, place, p, kFused, pinned_variant());
}

}  // namespace torch_conv
