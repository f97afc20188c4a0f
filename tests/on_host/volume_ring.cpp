// The loaders of direct3d's MARCH as its plan launches them, on the host: every plane that they hand on is the
// volume's, extended by the border as far as windows over stored outputs reach.
#include <atomic>
#include <random>
#include <string>

#include "cuda.h"
#include "report.h"
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
#include "direct3d/march_ring.cuh"
#include "direct3d/plan.h"

using namespace torch_conv;
using namespace torch_conv::direct3d;

namespace {

alignas(128) unsigned char shared[1 << 18];
uint64_t landed[kMostStages], ready[kMostStages], empty[kMostStages];

struct Wrong {
  std::atomic<bool> any = false;
  std::string what;
};

// The kernel, but that its first thread looks at the planes instead of filtering them.
template <int K, bool kWide, bool kPatched>
void look(TensorMap map, TensorMap side, VolumeArgs a, Wrong* wrong) {
  constexpr MarchShape S = march_shape(4, K, kWide, kPatched);
  constexpr int R = K / 2;
  using At = direct3d::Stage<float, K, S>;
  static Patches<K, S.rows_in(K)> patches;
  float* const ring = reinterpret_cast<float*>(shared);
  const MarchPlace at = march_place(a, At::width, S.height());
  const VolumeGeometry& v = a.volumes;
  const int warp = threadIdx.x / 32, planes = at.planes + K - 1;
  const int bx = at.x + a.shift_x, by = at.y + a.shift_y - R, bz = at.z + a.shift_z - R;
  const bool zeros = a.border == Border::zero_output || (a.border == Border::constant && a.value == 0);
  const bool patch = !zeros;
  if (threadIdx.x == 0) {
    find_patches<float, K, S>(a, bx, by, patches);
    for (int s = 0; s < a.stages; ++s) {
      tma::barrier_init(landed + s);
      tma::barrier_init(ready + s, kWarpArrivals);
      tma::barrier_init(empty + s, S.warps() * kWarpArrivals);
    }
  }
  __syncthreads();
  if (warp >= S.warps())
    return load_ring<float, K, S>(map, side, a, at, ring, landed, ready, empty, patch, patch ? &patches : nullptr);
  const float* const volume = v.in_volume<float>(at.n, at.c);
  for (int q = 0; q < planes; ++q) {
    const int slot = q % a.stages;
    tma::barrier_wait(ready + slot, q / a.stages % 2);
    const int z = map_index(bz + q, v.in_d, a.border);
    for (int r = 0; threadIdx.x == 0 && r < At::rows; ++r)
      for (int i = -R; i < At::width + R; ++i) {
        if (at.x + i < std::max(at.x, 0) - R || at.x + i > std::min(at.x + At::width, v.out_w) - 1 + R) continue;
        if (at.y + r - R > std::min(at.y + S.height(), v.out_h) - 1 + R) continue;
        const int y = map_index(by + r, v.in_h, a.border), x = map_index(bx + i, v.in_w, a.border);
        const float outside = zeros ? 0 : a.value;
        const float want = z < 0 || y < 0 || x < 0 ? outside : volume[z * v.in_stride_d + y * v.in_stride_h + x];
        const float got = ring[slot * At::elements + At::at(r, i)];
        if (want != got && !wrong->any.exchange(true))
          wrong->what = "plane " + std::to_string(bz + q) + ", row " + std::to_string(by + r) + ", column " +
                        std::to_string(bx + i) + " is " + std::to_string(got) + ", not " + std::to_string(want);
      }
    tma::warp_arrive(empty + slot);
  }
}

struct Case {
  int64_t d, h, w, k;
  Border border;
  int64_t pad = -1;  // in place of k / 2
  int64_t fewer = 0;
};

const Case kCases[] = {
    {9, 40, 256, 3, Border::circular},       {6, 33, 300, 3, Border::circular},
    {5, 70, 515, 3, Border::circular},       {5, 40, 130, 3, Border::circular},
    {3, 2, 5, 3, Border::circular},          {1, 1, 1, 3, Border::circular},
    {6, 33, 300, 3, Border::circular, 0},    {6, 33, 300, 3, Border::circular, 2},
    {6, 33, 300, 3, Border::circular, 2, 1}, {7, 50, 140, 5, Border::circular},
    {7, 50, 140, 5, Border::circular, 4},    {8, 29, 150, 7, Border::circular},
    {8, 17, 129, 7, Border::circular, 1},    {4, 3, 4, 7, Border::circular},
    {6, 33, 300, 3, Border::reflect},        {7, 50, 140, 5, Border::symmetric, 1},
    {8, 17, 129, 7, Border::reflect, 6},     {8, 17, 129, 7, Border::replicate},
    {6, 33, 300, 3, Border::constant},       {7, 50, 140, 5, Border::constant, 3},
    {8, 17, 129, 7, Border::zero_output},    {8, 29, 150, 7, Border::constant, 0, 6},
};

bool check(const Case& k) {
  std::mt19937 make(1);
  const int64_t pitch = round_up(k.w, 4) + 4, plane = k.h * pitch, pad = k.pad < 0 ? k.k / 2 : k.pad, c = 2;
  std::vector<float> from(c * k.d * plane + 32), taps(k.k * k.k * k.k);
  for (float& x : from) x = float(make() % 100000 + 1);
  void* const start = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(from.data()) + 127) / 128 * 128);
  const Image in{start, Dtype::f32, 1, c, k.d, k.h, k.w, c * k.d * plane, k.d * plane, plane, pitch, 1};
  Image out = in;
  out.d -= k.fewer, out.h -= k.fewer, out.w -= k.fewer;
  const Direct p{.in = in,
                 .out = out,
                 .taps = {taps.data(), true, 0, 0, 0},
                 .kd = k.k,
                 .kh = k.k,
                 .kw = k.k,
                 .place = {.pad_z = pad, .pad_y = pad, .pad_x = pad, .border = k.border, .value = 3},
                 .groups = c,
                 .bias = nullptr};
  const Arch arch{
      .major = 9, .minor = 0, .multiprocessors = 3, .shared_bytes = 232448, .bytes_per_second = 0, .bulk_copy = true};
  const Plan planned = plan(p, arch, "march_tma");
  Wrong wrong;
  if (!planned.variant) {
    wrong.what = planned.why;
  } else {
    const MarchConfig& march = std::any_cast<Config>(&planned.config)->march;
    const int rows = march.shape.rows_in(int(k.k));
    const bool wide = march.shape.warps_x == 2, patched = k.border != Border::zero_output;
    const auto kernel = k.k == 5   ? look<5, false, false>
                        : k.k == 7 ? look<7, false, false>
                        : wide     ? (patched ? look<3, true, true> : look<3, true, false>)
                                   : (patched ? look<3, false, true> : look<3, false, false>);
    memset(shared, 0xff, sizeof(shared));
    on_host::launch(kernel, {unsigned(planned.blocks), 1, 1}, planned.threads,
                    tma::map_of(p.in, march.shape.width(), rows), tma::map_of(p.in, 4, rows),
                    march_args(p, planned, march), &wrong);
  }
  return on_host::report(wrong.what, "%lld^3 in %lldx%lldx%lld %s, pad %lld", (long long)k.k, (long long)k.d,
                         (long long)k.h, (long long)k.w, name_of(k.border), (long long)pad);
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
