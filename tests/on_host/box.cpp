// The box kernel family's kernels of floats as their plans launch them, on the host: the bits of sums in the kernel
// family's order (box/order.h), made output by output; nothing is read behind the image, and nothing written beside the
// output or the shared memory that the plan asks for. Also of an image that is cut along h, shard by shard: the whole
// image's bits.
#include "box_floats.h"
// These need the headers above.
#include "box_expected.h"
#include "kernels/box/groups/kernel.cuh"
#include "kernels/box/plan.h"
#include "kernels/box/strips/kernel.cuh"

namespace {

enum class Layout { planar, inner, unaligned, padded };

struct Case {
  Dtype in, out;
  int64_t h, w, kh, kw, pad_y, pad_x;
  Border border = Border::constant;
  double value = 0;
  bool mean = true;
  Layout layout = Layout::planar;
  int64_t first_row = 0;
  int64_t lost_h = 0, lost_w = 0;  // rows and columns that the output lacks
  int shared_bytes = 232448;
  const char* variant = "groups";
  int64_t c = 2;
  std::vector<int64_t> shards{};  // their rows
};

using Layout::inner, Layout::planar, Layout::padded, Layout::unaligned;
Case in_strips(Case k) {
  k.variant = "strips";
  return k;
}
Case of_channels(int64_t c, Case k) {
  k.c = c;
  return k;
}
Case in_shards(std::vector<int64_t> rows, Case k) {
  k.shards = rows;
  return in_strips(k);
}

constexpr int64_t kN = 2;

const Case kCases[] = {
    {F, F, 21, 40, 15, 15, 7, 7},
    {F, F, 21, 40, 9, 14, 4, 6, Border::constant, 2.5},
    {F, F, 37, 50, 31, 33, 15, 16, Border::reflect},
    {F, F, 19, 23, 1, 64, 0, 31, Border::symmetric},
    {F, F, 19, 23, 8, 1, 3, 0, Border::replicate},
    {F, F, 30, 29, 17, 40, 0, 39, Border::circular, 0, false},
    {F, F, 30, 29, 12, 7, 11, 0, Border::skip},
    {F, F, 30, 29, 12, 7, 11, 0, Border::skip, 0, false},
    {F, F, 30, 29, 12, 7, 5, 3, Border::zero_output},
    {F, F, 3, 5, 45, 37, 22, 18, Border::reflect},
    {F, F, 3, 5, 45, 37, 22, 18, Border::constant, -1},
    {F, U, 30, 29, 25, 7, 12, 3, Border::reflect},
    {F, D, 30, 29, 24, 7, 12, 3, Border::reflect, 0, true, Layout::inner},
    {F, F, 30, 29, 24, 7, 12, 3, Border::reflect, 0, true, Layout::unaligned},
    {F, F, 30, 29, 24, 7, 12, 3, Border::reflect, 0, true, Layout::planar, 13},
    {F, F, 60, 90, 24, 7, 0, 0, Border::constant, 0, true, Layout::planar, 0, 23, 6},
    {F, F, 20, 300, 10, 20, 4, 9, Border::reflect},
    {F, F, 9, 40, 10, 300, 4, 149, Border::reflect, 0, true, Layout::planar, 0, 0, 0, 20000},
    {F, F, 9, 70, 10, 256, 4, 149, Border::constant, 1, true, Layout::planar, 0, 0, 0, 10000},
    {H, H, 30, 29, 24, 7, 12, 3, Border::reflect},
    {B, B, 30, 29, 24, 7, 12, 3, Border::constant, 0.1},
    {D, D, 30, 29, 24, 13, 12, 3, Border::reflect},
    {F, F, 5, 12, 70000, 3, 34999, 1, Border::symmetric},
    {F, F, 11, 6, 10, 70000, 4, 100, Border::constant, 0.5},
    {F, F, 5, 6, 70000, 70001, 4, 100, Border::reflect, 0, false},
    in_strips({F, F, 20, 1100, 15, 15, 7, 7, Border::reflect}),
    in_strips({F, F, 20, 1101, 15, 15, 7, 7, Border::reflect}),
    in_strips({F, F, 21, 133, 16, 9, 15, 0, Border::constant, 2.5, true, padded}),
    in_strips({F, F, 21, 133, 16, 9, 15, 0, Border::constant, 2.5}),
    in_strips({F, F, 60, 200, 31, 33, 15, 16, Border::symmetric}),
    in_strips({F, F, 30, 300, 33, 31, 16, 15, Border::circular, 0, false}),
    in_strips(of_channels(1, {F, F, 30, 64, 63, 70, 31, 34, Border::reflect, 0, true, planar, 0, 0, 0, 81000})),
    in_strips({F, F, 19, 64, 1, 31, 0, 15, Border::replicate}),
    in_strips(of_channels(24, {F, F, 20, 64, 5, 9, 2, 4, Border::reflect, 0, false, unaligned})),
    in_strips(of_channels(24, {F, F, 12, 63, 33, 31, 16, 15, Border::constant, 1, true, unaligned})),
    in_strips(of_channels(24, {H, H, 20, 63, 15, 15, 7, 7, Border::reflect, 0, true, unaligned})),
    in_strips(of_channels(24, {H, H, 20, 64, 15, 15, 7, 7, Border::reflect, 0, true, unaligned})),
    in_strips(of_channels(24, {H, H, 21, 64, 25, 31, 12, 15, Border::constant, 0, true, unaligned})),
    in_strips({F, F, 19, 130, 8, 64, 3, 31, Border::symmetric, 0, true, padded}),
    in_strips({F, F, 30, 132, 12, 7, 11, 0, Border::skip}),
    in_strips({F, F, 30, 132, 20, 100, 5, 3, Border::zero_output}),
    in_strips({F, F, 5, 8, 45, 37, 22, 18, Border::reflect}),
    in_strips({F, F, 30, 132, 15, 15, 7, 7, Border::reflect, 0, true, planar, 13}),
    in_strips({F, F, 60, 92, 31, 33, 0, 0, Border::constant, 0, false, planar, 3, 30, 32}),
    in_strips({H, H, 30, 132, 25, 31, 12, 15, Border::reflect}),
    in_strips({H, H, 30, 131, 25, 31, 12, 15, Border::reflect}),
    in_strips(of_channels(1, {F, F, 30, 66, 63, 70, 31, 34, Border::reflect, 0, true, planar, 0, 0, 0, 81000})),
    in_strips({H, F, 30, 133, 12, 7, 11, 0, Border::circular, 0, false, padded}),
    in_strips({B, B, 30, 132, 31, 33, 15, 16, Border::constant, 2}),
    in_strips(of_channels(19, {F, F, 20, 40, 15, 15, 7, 7, Border::reflect})),
    in_strips(of_channels(3, {F, F, 20, 133, 16, 9, 15, 0, Border::constant, 2.5})),
    in_strips(of_channels(3, {F, F, 30, 133, 15, 15, 7, 7, Border::symmetric, 0, true, inner})),
    in_strips(of_channels(3, {F, F, 9, 700, 15, 15, 7, 7, Border::reflect, 0, true, inner})),
    in_strips(of_channels(3, {F, F, 9, 520, 15, 15, 7, 7, Border::reflect})),
    in_strips(of_channels(1, {F, F, 12, 400, 15, 700, 7, 349, Border::constant, 1})),
    in_strips(of_channels(5, {F, F, 9, 533, 16, 9, 15, 0, Border::constant, 2.5})),
    in_strips(of_channels(3, {F, F, 9, 260, 31, 33, 15, 16, Border::symmetric})),
    in_strips(of_channels(5, {F, F, 9, 640, 15, 15, 7, 7, Border::circular})),
    in_strips(of_channels(4, {F, F, 30, 300, 31, 33, 15, 16, Border::constant, 1.5, true, inner})),
    in_strips(of_channels(2, {F, F, 60, 92, 31, 33, 0, 0, Border::constant, 0, false, inner, 3, 30, 32})),
    in_strips(of_channels(3, {F, F, 20, 80, 20, 100, 5, 3, Border::zero_output, 0, true, inner})),
    in_strips(of_channels(7, {H, H, 20, 130, 25, 31, 12, 15, Border::reflect, 0, true, inner})),
    in_strips(of_channels(3, {H, H, 20, 131, 12, 7, 11, 0, Border::circular, 0, true, inner})),
    // Rows that start anywhere. Of 880 and 888 columns a warp's first one is the first behind the image.
    in_strips({F, F, 21, 888, 15, 15, 7, 7, Border::constant, 0, true, unaligned}),
    in_strips({F, F, 21, 887, 15, 15, 7, 7, Border::constant, 0, true, unaligned}),
    in_strips({F, F, 60, 880, 31, 31, 15, 15, Border::constant, 0, true, unaligned}),
    in_strips({F, F, 40, 1117, 31, 31, 15, 15, Border::constant, 1.5}),
    in_strips({F, F, 40, 1117, 31, 31, 15, 15, Border::circular}),
    in_strips({F, F, 20, 1118, 20, 100, 5, 3, Border::zero_output}),
    in_strips({F, F, 12, 1117, 5, 5, 2, 2, Border::symmetric}),
    in_strips({H, H, 21, 888, 15, 15, 7, 7, Border::constant, 0, true, unaligned}),
    in_strips({H, H, 21, 889, 15, 15, 7, 7, Border::constant}),
    in_strips({H, H, 21, 1117, 15, 15, 7, 7, Border::constant, 2}),
    in_strips({H, H, 60, 880, 31, 31, 15, 15, Border::constant, 0, true, unaligned}),
    in_strips({H, H, 41, 1117, 31, 31, 15, 15, Border::reflect}),
    in_strips({H, H, 41, 1118, 31, 31, 15, 15, Border::circular}),
    in_strips({H, H, 41, 1119, 31, 31, 15, 15, Border::constant}),
    in_strips({H, H, 40, 877, 63, 70, 31, 34, Border::constant, 0, true, planar, 0, 0, 0, 140000}),
    in_strips({H, H, 12, 1117, 5, 5, 2, 2, Border::replicate}),
    // Fewer column warps where shared memory has no room for the rows of 8.
    in_strips({H, H, 21, 1117, 15, 15, 7, 7, Border::reflect, 0, true, planar, 0, 0, 0, 101376}),
    in_strips({H, H, 41, 1117, 31, 31, 15, 15, Border::constant, 2, true, planar, 0, 0, 0, 101376}),
    in_strips({H, H, 41, 1118, 25, 25, 12, 12, Border::circular, 0, true, planar, 0, 0, 0, 101376}),
    in_strips({B, F, 30, 1115, 12, 7, 11, 0, Border::skip}),
    in_strips({H, H, 60, 1115, 33, 1, 0, 0, Border::constant, 0, false, unaligned, 3, 32}),
    in_strips(of_channels(3, {H, H, 40, 315, 31, 31, 15, 15, Border::constant, 0, true, inner})),
    in_strips(of_channels(3, {H, H, 20, 317, 15, 15, 7, 7, Border::reflect, 0, true, inner})),
    in_strips(of_channels(3, {H, H, 20, 333, 15, 15, 7, 7, Border::constant, 0, true, inner})),
    in_strips(of_channels(3, {F, F, 40, 315, 31, 31, 15, 15, Border::constant, 0, true, inner})),
    // Images in shards.
    in_shards({17, 15, 16}, {F, F, 48, 640, 15, 15, 7, 7, Border::reflect}),
    in_shards({9, 7, 16}, of_channels(1, {F, F, 32, 640, 15, 15, 7, 7, Border::constant, 2.5})),
    in_shards({16, 15, 9}, of_channels(1, {F, F, 40, 640, 15, 15, 7, 7, Border::skip})),
    in_shards({16, 15, 9}, of_channels(1, {F, F, 40, 640, 15, 15, 7, 7, Border::zero_output})),
    in_shards({20, 17, 23}, of_channels(1, {F, F, 60, 640, 15, 15, 0, 7, Border::constant, 0, true, planar, 0, 14})),
    in_shards({33, 31, 40}, of_channels(1, {F, F, 104, 640, 31, 31, 15, 15, Border::replicate})),
    in_shards({16, 35}, of_channels(1, {F, F, 51, 640, 31, 31, 15, 15, Border::circular})),
    in_shards({70, 65, 80}, of_channels(1, {F, F, 215, 640, 70, 70, 34, 34, Border::symmetric})),
    in_shards({6, 2, 3, 6}, of_channels(1, {F, F, 17, 640, 5, 5, 2, 2, Border::circular})),
    in_shards({16, 15, 17}, {F, F, 48, 64, 15, 15, 7, 7, Border::circular, 1}),
    in_shards({16, 15, 9}, of_channels(24, {F, F, 40, 63, 15, 15, 7, 7, Border::reflect, 0, true, unaligned})),
    in_shards({16, 15, 17}, of_channels(1, {F, F, 48, 653, 15, 15, 7, 7, Border::circular})),
    in_shards({33, 40}, of_channels(1, {F, F, 73, 653, 31, 31, 15, 15, Border::constant, 1.5, true, unaligned})),
    in_shards({16, 15, 17}, of_channels(3, {F, F, 48, 212, 15, 15, 7, 7, Border::reflect, 0, true, inner})),
    in_shards({17, 15, 16}, {H, H, 48, 640, 15, 15, 7, 7, Border::reflect}),
    in_shards({33, 31, 40}, of_channels(1, {H, H, 104, 640, 31, 31, 15, 15, Border::circular})),
    in_shards({17, 15, 16}, {H, H, 48, 653, 15, 15, 7, 7, Border::constant, 0, true, unaligned}),
    in_shards({17, 15, 16}, of_channels(1, {H, H, 48, 653, 15, 15, 7, 7, Border::reflect})),
    in_shards({33, 31, 40}, of_channels(1, {H, H, 104, 655, 31, 31, 15, 15, Border::constant})),
    in_shards({16, 15, 9}, of_channels(24, {H, H, 40, 63, 15, 15, 7, 7, Border::reflect, 0, true, unaligned})),
    in_shards({16, 15, 17}, of_channels(3, {H, H, 48, 211, 15, 15, 7, 7, Border::reflect, 0, true, inner})),
    in_shards({17, 16}, of_channels(1, {B, B, 33, 640, 15, 15, 7, 7, Border::constant, 2})),
};

using StripKernel = void (*)(StripArgs);
#define KERNEL(T, Out, ...)                                                  \
  {                                                                          \
    "box::box_strips<" #T ", " #Out ", box::StripPolicy{" #__VA_ARGS__ "}>", \
        box_strips<T, Out, StripPolicy{__VA_ARGS__}>                         \
  }
#define KERNEL_OF_SHARDS(T, Out, ...)                                              \
  {                                                                                \
    "box::box_strips<" #T ", " #Out ", box::StripPolicy{" #__VA_ARGS__ "}, true>", \
        box_strips<T, Out, StripPolicy{__VA_ARGS__}, true>                         \
  }
#define STRIPS(T, Out, above, clipped, ...) KERNEL(T, Out, box::Above::above, __VA_ARGS__, true, clipped)
#define SHARDS(T, Out, above, clipped, ...) KERNEL_OF_SHARDS(T, Out, box::Above::above, __VA_ARGS__, true, clipped)
const std::map<std::string, StripKernel> kStrips = {
    STRIPS(bhalf_t, bhalf_t, ring, false, 6, 33, 0, 2, 0, true),
    STRIPS(bhalf_t, float, kept, true, 12, 7, 0, 4, 1, false),
    STRIPS(float, float, chain, false, 1, 31, 1, 4, 0, true),
    STRIPS(float, float, chain, false, 5, 5, 2, 4, 1, false),
    STRIPS(float, float, chain, false, 5, 9, 0, 4, 0, false),
    STRIPS(float, float, chain, false, 8, 64, 1, 4, 1, true),
    STRIPS(float, float, kept, true, 12, 7, 0, 4, 0, true),
    STRIPS(float, float, kept, false, 15, 15, 0, 4, 3, false),
    STRIPS(float, float, kept, false, 15, 15, 0, 4, 3, true),
    STRIPS(float, float, kept, false, 15, 15, 1, 4, 0, true),
    STRIPS(float, float, kept, false, 15, 15, 1, 4, 1, false),
    STRIPS(float, float, kept, false, 15, 15, 1, 4, 1, true),
    STRIPS(float, float, kept, false, 15, 700, 3, 4, 1, true),
    STRIPS(float, float, kept, false, 16, 9, 0, 4, 0, false),
    STRIPS(float, float, kept, false, 16, 9, 0, 4, 1, false),
    STRIPS(float, float, kept, false, 16, 9, 0, 4, 1, true),
    STRIPS(float, float, reread, false, 6, 70, 2, 2, 1, false),
    STRIPS(float, float, reread, false, 6, 70, 2, 2, 1, true),
    STRIPS(float, float, ring, false, 0, 31, 1, 2, 0, false),
    STRIPS(float, float, ring, false, 0, 31, 1, 2, 1, true),
    STRIPS(float, float, ring, true, 3, 100, 0, 2, 3, true),
    STRIPS(float, float, ring, true, 3, 100, 1, 2, 0, true),
    STRIPS(float, float, ring, true, 3, 100, 1, 2, 1, false),
    STRIPS(float, float, ring, false, 4, 37, 2, 2, 1, true),
    STRIPS(float, float, ring, false, 6, 31, 0, 2, 3, false),
    STRIPS(float, float, ring, false, 6, 31, 1, 2, 1, false),
    STRIPS(float, float, ring, false, 6, 33, 0, 2, 0, true),
    STRIPS(float, float, ring, false, 6, 33, 0, 2, 2, true),
    STRIPS(float, float, ring, false, 6, 33, 0, 2, 4, true),
    STRIPS(half_t, float, kept, false, 12, 7, 0, 4, 0, true),
    STRIPS(half_t, half_t, chain, false, 5, 5, 2, 4, 1, false),
    STRIPS(half_t, half_t, kept, false, 12, 7, 0, 4, 3, false),
    STRIPS(half_t, half_t, kept, false, 15, 15, 0, 4, 3, false),
    STRIPS(half_t, half_t, kept, false, 15, 15, 1, 2, 1, false),
    STRIPS(half_t, half_t, kept, false, 15, 15, 1, 4, 0, false),
    STRIPS(half_t, half_t, kept, false, 15, 15, 1, 4, 1, false),
    STRIPS(half_t, half_t, reread, false, 6, 31, 1, 2, 1, false),
    STRIPS(half_t, half_t, reread, false, 6, 70, 2, 2, 1, false),
    STRIPS(half_t, half_t, ring, false, 0, 1, 0, 2, 1, false),
    STRIPS(half_t, half_t, ring, false, 0, 25, 0, 2, 1, false),
    STRIPS(half_t, half_t, ring, false, 0, 31, 0, 2, 7, false),
    STRIPS(half_t, half_t, ring, false, 0, 31, 1, 2, 0, false),
    STRIPS(half_t, half_t, ring, false, 0, 31, 1, 2, 0, true),
    STRIPS(half_t, half_t, ring, false, 6, 31, 0, 2, 3, false),
    STRIPS(half_t, half_t, ring, false, 6, 31, 1, 2, 1, false),
    SHARDS(bhalf_t, bhalf_t, kept, false, 15, 15, 1, 4, 1, true),
    SHARDS(float, float, chain, false, 5, 5, 2, 4, 1, true),
    SHARDS(float, float, kept, false, 15, 15, 0, 4, 3, true),
    SHARDS(float, float, kept, false, 15, 15, 1, 4, 0, false),
    SHARDS(float, float, kept, false, 15, 15, 1, 4, 0, true),
    SHARDS(float, float, kept, false, 15, 15, 1, 4, 1, false),
    SHARDS(float, float, kept, false, 15, 15, 1, 4, 1, true),
    SHARDS(float, float, kept, true, 15, 15, 1, 4, 1, true),
    SHARDS(float, float, ring, false, 5, 70, 2, 2, 1, true),
    SHARDS(float, float, ring, false, 6, 31, 1, 2, 1, false),
    SHARDS(float, float, ring, false, 6, 31, 1, 2, 1, true),
    SHARDS(half_t, half_t, kept, false, 15, 15, 0, 4, 3, false),
    SHARDS(half_t, half_t, kept, false, 15, 15, 1, 4, 0, false),
    SHARDS(half_t, half_t, kept, false, 15, 15, 1, 4, 1, false),
    SHARDS(half_t, half_t, kept, false, 15, 15, 1, 4, 1, true),
    SHARDS(half_t, half_t, ring, false, 6, 31, 1, 2, 1, false),
    SHARDS(half_t, half_t, ring, false, 6, 31, 1, 2, 1, true),
};

// `more`: rows between planes, and columns between rows.
Memory memory_of(Dtype dtype, int64_t c, int64_t h, int64_t w, Layout layout, int64_t more = 0) {
  const int64_t least = layout == unaligned ? w + 3 : layout == padded ? round_up(w + 4, 8) : w;
  const int64_t pitch = least + more * (layout == unaligned ? 1 : 8), plane = (h + more) * pitch;
  return Memory(layout == inner ? Image{nullptr, dtype, kN, c, 1, h, w, c * plane, 1, 0, pitch * c, c}
                                : Image{nullptr, dtype, kN, c, 1, h, w, c * plane, plane, 0, pitch, 1});
}

template <typename T>
std::string launch_groups(const Box& p, const Plan& plan) {
  const auto named = [&](const char* part) { return plan.kernels[0].name.find(part) != std::string::npos; };
  const auto kernel = named("wide")  ? box_groups_wide<T, acc_t<T>>
                      : named("far") ? box_groups_far<T, acc_t<T>>
                                     : box_groups<T, acc_t<T>>;
  return on_host::launch_within(shared, plan, kernel, group_args(p, plan));
}
std::string launch(const Box& p, const Plan& plan) {
  if (std::strcmp(plan.variant, "strips") == 0) {
    const auto kernel = kStrips.find(plan.kernels[0].name);
    if (kernel == kStrips.end()) return "no kernel " + plan.kernels[0].name;
    return on_host::launch_within(shared, plan, kernel->second, strip_args(p, plan, own_config<StripShape>(plan)));
  }
  switch (p.in.dtype) {
    case Dtype::f16: return launch_groups<half_t>(p, plan);
    case Dtype::bf16: return launch_groups<bhalf_t>(p, plan);
    case Dtype::f64: return launch_groups<double>(p, plan);
    default: return launch_groups<float>(p, plan);
  }
}

Box box_of(const Case& k, const Image& in, const Image& out) {
  return {.in = in,
          .out = out,
          .kh = k.kh,
          .kw = k.kw,
          .scale = k.mean ? 1 / double(k.kh * k.kw) : 1,
          .place = {.pad_y = k.pad_y,
                    .pad_x = k.pad_x,
                    .border = k.border,
                    .value = k.value,
                    .normalized = k.mean && k.border == Border::skip},
          .first_row = k.first_row,
          .whole_h = k.h,
          .whole_w = k.w};
}

// Filters `p` into `to`, which are the outputs of `whole` from row `first` on.
bool check_outputs(const Case& k, const Box& p, const Memory& to, const Box& whole, int64_t first) {
  const Arch arch{.major = 9, .minor = 0, .multiprocessors = 4, .shared_bytes = k.shared_bytes, .bulk_copy = true};
  const Plan planned = plan_cuda(p, arch, k.variant);
  std::string wrong = planned.variant ? launch(p, planned) : planned.why;
  RowOfColumns<double> doubles;
  RowOfColumns<float> floats;
  if (wrong.empty())
    wrong = judge(to, [&](int64_t n, int64_t c, int64_t, int64_t y, int64_t x) {
      y += first;
      return whole.in.dtype == Dtype::f64 ? output(whole, n, c, y, x, doubles) : output(whole, n, c, y, x, floats);
    });
  return on_host::report(wrong, "%s %lldx%lld in %lldx%lld %s, %lld rows from %lld on",
                         wrong.empty() ? planned.kernels[0].name.c_str() : "", (long long)k.kh, (long long)k.kw,
                         (long long)k.h, (long long)k.w, name_of(k.border), (long long)p.out.h, (long long)first);
}

// Rows of `whole` from `first` on, in memory of their own.
void copy_rows(const Image& whole, int64_t first, const Image& to) {
  for_each_element(to, [&](int64_t n, int64_t c, int64_t z, int64_t y, int64_t x) {
    const double value = get(whole, n, c, z, first + y, x);
    with_element(to, n, c, z, y, x,
                 [&](auto& element) { element = from_acc<std::decay_t<decltype(element)>>(float(value)); });
  });
}

bool check(const Case& k) {
  const Memory from = memory_of(k.in, k.c, k.h, k.w, k.layout);
  fill(from.image);
  const auto result = [&](int64_t rows) { return memory_of(k.out, k.c, rows, k.w - k.lost_w, k.layout); };
  const Memory to = result(k.h - k.lost_h);
  const Box whole = box_of(k, from.image, to.image);
  if (k.shards.empty()) return check_outputs(k, whole, to, whole, 0);
  std::vector<Memory> shards;
  std::vector<int64_t> starts{0};
  for (const int64_t rows : k.shards) {
    shards.push_back(memory_of(k.in, k.c, rows, k.w, k.layout, int64_t(shards.size())));
    copy_rows(from.image, starts.back(), shards.back().image);
    starts.push_back(starts.back() + rows);
  }
  bool right = true;
  const size_t count = shards.size();
  const bool circular = k.border == Border::circular;
  for (size_t i = 0; i < count; ++i) {
    // Output o belongs to the row under its window's middle, or with a border to row o.
    const auto outputs_before = [&](int64_t row) {
      return std::clamp<int64_t>(row - (k.lost_h > 0 ? k.lost_h / 2 : 0), 0, to.image.h);
    };
    const int64_t first = outputs_before(starts[i]), end = outputs_before(starts[i + 1]);
    const Memory part = result(end - first);
    Box p = box_of(k, shards[i].image, part.image);
    p.first_row = first;
    p.place.pad_y = k.pad_y + starts[i] - first;
    if (i > 0 || circular) p.peers.above = shards[(i + count - 1) % count].image;
    if (i + 1 < count || circular) p.peers.below = shards[(i + 1) % count].image;
    right = check_outputs(k, p, part, whole, first) && right;
  }
  return right;
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
