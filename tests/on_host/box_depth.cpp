// The depth passes of floats as their plans launch them, on the host: the bits of sums along z in the kernel family's
// order (box/order.h), made output by output; nothing is read behind the sums, and nothing written beside the output or
// the shared memory that the plan asks for.
#include "box_floats.h"
#include "kernels/box/depth/plan.h"
#include "kernels/box/depth/groups/kernel.cuh"
#include "kernels/box/depth/ring/kernel.cuh"

namespace {

struct Case {
  Dtype sums, out;
  int64_t d, w, kd, pad;
  Border border = Border::constant;
  double outside = 0;
  bool mean = true;
  int64_t first_plane = 0, lost = 0;  // of the output
  int64_t gap = 0;                    // columns between rows of the output
  const char* variant = "";           // pinned
  int shared_bytes = 232448;
};

constexpr int64_t kN = 2, kH = 3;

const Case kCases[] = {
    {F, F, 41, 180, 31, 15, Border::reflect},
    {F, F, 75, 180, 31, 15, Border::constant, 2.5},
    {F, F, 75, 180, 31, 15, Border::replicate, 0, false, 3},
    {F, F, 66, 180, 31, 0, Border::constant, 0, false, 0, 30},
    {F, F, 40, 180, 17, 8, Border::symmetric, 0, true, 5},
    {F, F, 40, 180, 17, 16, Border::circular, 0, false, 0, 0, 4},
    {F, F, 9, 180, 31, 15, Border::reflect, 0, true, 7},
    {F, F, 3, 180, 31, 30, Border::constant, -1},
    {F, F, 70, 180, 63, 31, Border::skip},
    {F, F, 70, 180, 63, 31, Border::skip, 0, true, 0, 0, 0, "depth_ring"},
    {F, F, 41, 180, 31, 15, Border::reflect, 0, true, 3, 0, 0, "depth_groups"},
    {F, F, 70, 180, 31, 10, Border::skip, 0, true, 2},
    {F, F, 50, 180, 25, 3, Border::zero_output},
    {F, F, 50, 180, 18, 9, Border::reflect, 0, true, 6},
    {F, F, 50, 180, 18, 9, Border::constant, 1, true, 0, 0, 0, "depth_ring", 101376},
    {F, F, 50, 180, 18, 9, Border::circular, 0, true, 1, 0, 0, "", 101376},
    {F, F, 50, 180, 24, 12, Border::symmetric, 0, true, 3},
    {F, F, 50, 180, 24, 23, Border::replicate, 0, false, 0, 0, 0, "", 166912},
    {F, F, 50, 180, 17, 8, Border::reflect, 0, true, 2, 0, 0, "", 166912},
    {F, H, 41, 180, 31, 15, Border::reflect, 0, true, 0, 0, 4},
    {D, D, 41, 90, 31, 15, Border::reflect},
    {F, F, 41, 181, 31, 15, Border::reflect},
    {F, F, 41, 180, 15, 7, Border::reflect, 0, true, 1},
    {F, F, 20, 180, 300, 150, Border::circular, 0, false},
};

using DepthKernel = void (*)(DepthArgs);
const std::map<std::string, DepthKernel> kKernels = {
    {"box::box_depth_ring<float, 4, float, 6>", box_depth_ring<float, 4, float, 6>},
    {"box::box_depth_ring<float, 4, float, 0>", box_depth_ring<float, 4, float, 0>},
    {"box::box_depth_ring<float, 4, float, 1>", box_depth_ring<float, 4, float, 1>},
    {"box::box_depth_ring<float, 4, float, 7>", box_depth_ring<float, 4, float, 7>},
    {"box::box_depth_groups<float, 4, float, 0, 1>", box_depth_groups<float, 4, float, 0, 1>},
    {"box::box_depth_groups<float, 4, float, 0, 7>", box_depth_groups<float, 4, float, 0, 7>},
    {"box::box_depth_ring<float, 4, half_t, 6>", box_depth_ring<float, 4, half_t, 6>},
    {"box::box_depth_ring<double, 2, double, 6>", box_depth_ring<double, 2, double, 6>},
    {"box::box_depth_groups<float, 1, void, 0, 6>", box_depth_groups<float, 1, void, 0, 6>},
    {"box::box_depth_groups<float, 4, float, 0, 6>", box_depth_groups<float, 4, float, 0, 6>},
    {"box::box_depth_groups<float, 4, float, 15, 0>", box_depth_groups<float, 4, float, 15, 0>},
    {"box::box_depth_groups<float, 4, float, 0, 3>", box_depth_groups<float, 4, float, 0, 3>},
};

Memory memory_of(Dtype dtype, int64_t d, int64_t w, int64_t gap) {
  const int64_t row = w + gap, plane = kH * row;
  return Memory(Image{nullptr, dtype, 1, kN, d, kH, w, 0, d * plane, plane, row, 1});
}

template <typename A>
double output(const BoxDepth& p, int64_t c, int64_t z, int64_t y, int64_t x) {
  const Placement& s = p.place;
  const int place = position_in_group(z + p.first_plane);
  A sum = column_sum<A>(
      [&](int64_t i) {
        const int m = map_index(int(z - place - s.pad_z + i), int(p.sums.d), s.border);
        return m < 0 ? A(p.outside) : A(get(p.sums, 0, c, m, y, x));
      },
      p.kd, place);
  const int64_t planes = inside(z - s.pad_z, p.kd, p.sums.d);
  const int64_t count = planes * inside(y - s.pad_y, p.kh, p.plane_h) * inside(x - s.pad_x, p.kw, p.plane_w);
  return ending(sum, s, planes == p.kd, count, p.scale, p.kd * p.kh * p.kw, p.out.dtype);
}

bool check(const Case& k) {
  const Memory from = memory_of(k.sums, k.d, k.w, 0), to = memory_of(k.out, k.d - k.lost, k.w, k.gap);
  fill(from.image);
  const BoxDepth p{.sums = from.image,
                   .out = to.image,
                   .source = k.sums,
                   .kd = k.kd,
                   .kh = 2,
                   .kw = 3,
                   .scale = k.mean ? 1 / double(6 * k.kd) : 1,
                   .outside = k.outside,
                   .place = {.pad_z = k.pad,
                             .pad_y = 1,
                             .pad_x = 1,
                             .border = k.border,
                             .value = k.outside / 6,
                             .normalized = k.mean && k.border == Border::skip},
                   .plane_h = kH,
                   .plane_w = k.w,
                   .first_plane = k.first_plane,
                   .whole_d = k.d};
  const Arch arch{.major = 9, .minor = 0, .multiprocessors = 1, .shared_bytes = k.shared_bytes, .bulk_copy = true};
  const Plan planned = plan_cuda(p, arch, k.variant);
  const auto kernel = kKernels.find(planned.kernels[0].name);
  if (kernel == kKernels.end()) return on_host::report("no such kernel here", "%s", planned.kernels[0].name.c_str());
  std::string wrong =
      on_host::launch_within(shared, planned, kernel->second, depth_args(p, planned, own_config<DepthConfig>(planned)));
  if (wrong.empty())
    wrong = judge(to, [&](int64_t, int64_t c, int64_t z, int64_t y, int64_t x) {
      return k.sums == D ? output<double>(p, c, z, y, x) : output<float>(p, c, z, y, x);
    });
  return on_host::report(wrong, "%s %lld planes of %lld, chunks of %d, %s", planned.kernels[0].name.c_str(),
                         (long long)k.kd, (long long)k.d, planned.tile_d, name_of(k.border));
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
