// The depth passes of floats as their plans launch them, on the host: the bits of sums along z in the room's order
// (box/order.h), made output by output, and nothing written beside the output.
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "cuda.h"
#include "report.h"
using std::fma;
using std::fmaf;
unsigned __ballot_sync(unsigned, bool);  // of the kernel for integers, which does not run here
#undef __shared__
#define __shared__
#include "box/depth_plan.h"
#include "box/kernel_depth_ring.cuh"

namespace torch_conv::box {
alignas(128) unsigned char shared[1 << 18];
}

using namespace torch_conv;
using namespace torch_conv::box;

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

constexpr int64_t kN = 2, kH = 3, kSpare = 256;
const Dtype F = Dtype::f32, H = Dtype::f16, D = Dtype::f64;

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

struct Memory {
  std::vector<double> words;
  Image image;
  Memory(Dtype dtype, int64_t d, int64_t w, int64_t gap) : words(kN * d * kH * (w + gap) + 2 * kSpare, -7) {
    char* const start =
        reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(words.data() + kSpare / 2) + 63) / 64 * 64);
    const int64_t row = w + gap, plane = kH * row;
    image = {start, dtype, 1, kN, d, kH, w, 0, d * plane, plane, row, 1};
  }
};

template <typename F>
auto with_voxel(const Image& x, int64_t c, int64_t z, int64_t y, int64_t at, const F& f) {
  return with_type(x.dtype, [&](auto zero) {
    return f(static_cast<decltype(zero)*>(x.data)[c * x.stride_c + z * x.stride_d + y * x.stride_h + at]);
  });
}
double get(const Image& x, int64_t c, int64_t z, int64_t y, int64_t at) {
  return with_voxel(x, c, z, y, at, [](auto& voxel) { return to_acc<double>(voxel); });
}

template <typename A>
double output(const BoxDepth& p, int64_t c, int64_t z, int64_t y, int64_t x) {
  const Placement& s = p.place;
  const int place = place_in_group(z + p.first_plane);
  A sum = column_sum<A>(
      [&](int64_t i) {
        const int m = map_index(int(z - place - s.pad_z + i), int(p.sums.d), s.border);
        return m < 0 ? A(p.outside) : A(get(p.sums, c, m, y, x));
      },
      p.kd, place);
  const auto inside = [](int64_t first, int64_t k, int64_t length) {
    return std::max<int64_t>(0, std::min(first + k, length) - std::max<int64_t>(first, 0));
  };
  const int64_t planes = inside(z - s.pad_z, p.kd, p.sums.d);
  const int64_t count = planes * inside(y - s.pad_y, p.kh, p.plane_h) * inside(x - s.pad_x, p.kw, p.plane_w);
  if (s.border == Border::zero_output && planes < p.kd) sum = 0;
  else if (s.border == Border::skip && s.normalized) sum = count > 0 ? sum / A(count) : A(0);
  else if (p.scale != 1) sum = mean_of_sum(sum, reciprocal<A>(double(p.kd * p.kh * p.kw)));
  return with_type(p.out.dtype, [&](auto zero) { return to_acc<double>(from_acc<decltype(zero)>(sum)); });
}

bool check(const Case& k) {
  std::mt19937 make(1);
  Memory from(k.sums, k.d, k.w, 0), to(k.out, k.d - k.lost, k.w, k.gap);
  const std::vector<double> blank = to.words;
  for (int64_t c = 0; c < kN; ++c)
    for (int64_t z = 0; z < k.d; ++z)
      for (int64_t y = 0; y < kH; ++y)
        for (int64_t x = 0; x < k.w; ++x)
          with_voxel(from.image, c, z, y, x, [&](auto& voxel) {
            voxel = from_acc<std::decay_t<decltype(voxel)>>(float(make() % 100000) / 300 - 40);
          });
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
  const Arch arch{
      .major = 9, .minor = 0, .multiprocessors = 1, .shared_bytes = k.shared_bytes, .bytes_per_second = 0, .bulk_copy = true};
  const Plan planned = depth_plan(p, arch, k.variant);
  std::string wrong;
  const auto kernel = kKernels.find(planned.kernels[0].name);
  if (kernel == kKernels.end()) wrong = "no kernel " + planned.kernels[0].name;
  if (wrong.empty()) {
    memset(shared, 0xff, sizeof(shared));
    on_host::launch(kernel->second, {unsigned(planned.blocks), 1, 1}, planned.threads,
                    depth_args(p, planned, *std::any_cast<DepthConfig>(&planned.config)));
    for (int64_t c = 0; c < kN; ++c)
      for (int64_t z = 0; z < p.out.d; ++z)
        for (int64_t y = 0; y < kH; ++y)
          for (int64_t x = 0; x < k.w && wrong.empty(); ++x) {
            const double got = get(p.out, c, z, y, x),
                         want = k.sums == D ? output<double>(p, c, z, y, x) : output<float>(p, c, z, y, x);
            if (want != got)
              wrong = "(" + std::to_string(c) + ", " + std::to_string(z) + ", " + std::to_string(y) + ", " +
                      std::to_string(x) + ") is " + std::to_string(got) + ", not " + std::to_string(want);
            with_voxel(p.out, c, z, y, x, [&](auto& voxel) {
              const size_t at = reinterpret_cast<char*>(&voxel) - reinterpret_cast<char*>(to.words.data());
              memcpy(&voxel, reinterpret_cast<const char*>(blank.data()) + at, sizeof(voxel));
            });
          }
    // What is left is what was there before.
    if (wrong.empty() && memcmp(to.words.data(), blank.data(), to.words.size() * 8) != 0)
      wrong = "something beside the output was written";
  }
  return on_host::report(wrong, "%s %lld planes of %lld, chunks of %d, %s", planned.kernels[0].name.c_str(),
                         (long long)k.kd, (long long)k.d, planned.tile_d, name_of(k.border));
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
