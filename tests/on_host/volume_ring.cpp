// The loaders of direct3d's STREAMING as its plan launches them, on the host: every plane that they hand on is the
// volume's, extended by the border as far as windows over stored outputs reach; of a shard of one, also those of the
// neighbour shards.
#include <random>
#include <string>
#include <utility>

#include "cuda.h"
#include "report.h"
#include "kernels/direct3d/streaming/ring.cuh"
#include "kernels/direct3d/plan.h"

using namespace torch_conv;
using namespace torch_conv::direct3d;

namespace {

alignas(128) unsigned char shared[1 << 18];
uint64_t landed[kMostStages], ready[kMostStages], empty[kMostStages];

struct Wrong {
  Image whole;    // the volume that the shard at hand is of, by itself in memory
  int64_t above;  // its planes before that one
  bool any = false;
  std::string what;
};

// The kernel, but that its first thread looks at the planes instead of filtering them.
template <int K, bool kWide, bool kPatched, typename Map>
void look(Map map, Map side, VolumeArgs a, Wrong* wrong) {
  constexpr VolumeTile S = volume_tile(4, K, kWide, kPatched);
  constexpr int R = K / 2;
  using At = direct3d::RingStage<float, K, S>;
  static Patches<K, S.rows_in(K)> patches;
  float* const ring = reinterpret_cast<float*>(shared);
  const VolumePosition at = streaming_position(a, At::width, S.height());
  const VolumeGeometry& v = a.volumes;
  const int warp = threadIdx.x / 32, planes = at.planes + K - 1;
  const int bx = at.x + a.shift_x, by = at.y + a.shift_y - R, bz = at.z + a.shift_z - R;
  const bool zeros = a.border == Border::zero_output || (a.border == Border::constant && a.value == 0);
  // As the kernel says it: with one function for both it is longer, and 7x7x7 spills 8 bytes (sm_90).
  const bool edge = bx - R < 0 || by < 0 || std::min(at.x + At::width, v.out_w) + a.shift_x + R > v.in_w ||
                    std::min(at.y + S.height(), v.out_h) + a.shift_y + R > v.in_h;
  const bool edge_z = bz < first_plane(map) || bz + planes > end_of_planes(map, v.in_d);
  const bool patch = edge && !zeros, post = patch || (!zeros && edge_z && a.border == Border::constant);
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
    return load_ring<float, K, S>(map, side, a, at, ring, landed, ready, empty, post, patch ? &patches : nullptr);
  for (int q = 0; q < planes; ++q) {
    const int slot = q % a.stages;
    tma::barrier_wait(ready + slot, q / a.stages % 2);
    const Image& whole = wrong->whole;
    const int64_t z = map_index(bz + q + wrong->above, whole.d, a.border);
    const float* const plane = static_cast<const float*>(whole.data) + at.c * whole.stride_c + z * whole.stride_d;
    for (int r = 0; threadIdx.x == 0 && r < At::rows; ++r)
      for (int i = -R; i < At::width + R; ++i) {
        if (at.x + i < std::max(at.x, 0) - R || at.x + i > std::min(at.x + At::width, v.out_w) - 1 + R) continue;
        if (at.y + r - R > std::min(at.y + S.height(), v.out_h) - 1 + R) continue;
        const int y = map_index(by + r, v.in_h, a.border), x = map_index(bx + i, v.in_w, a.border);
        const float outside = zeros ? 0 : a.value;
        const float want = z < 0 || y < 0 || x < 0 ? outside : plane[y * whole.stride_h + x];
        const float got = ring[slot * At::elements + At::at(r, i)];
        if (want != got && !std::exchange(wrong->any, true))
          wrong->what = on_host::difference({bz + q, by + r, bx + i}, got, want);
      }
    tma::warp_arrive(empty + slot);
  }
}

struct Case {
  int64_t d, h, w, k;
  Border border;
  int64_t pad = -1;  // in place of k / 2
  int64_t fewer = 0;
  int64_t above = 0, below = 0;  // planes of the neighbour shards
};

const Case kCases[] = {
    {9, 40, 256, 3, Border::circular},
    {6, 33, 300, 3, Border::circular},
    {5, 70, 515, 3, Border::circular},
    {5, 40, 130, 3, Border::circular},
    {3, 2, 5, 3, Border::circular},
    {1, 1, 1, 3, Border::circular},
    {6, 33, 300, 3, Border::circular, 0},
    {6, 33, 300, 3, Border::circular, 2},
    {6, 33, 300, 3, Border::circular, 2, 1},
    {7, 50, 140, 5, Border::circular},
    {7, 50, 140, 5, Border::circular, 4},
    {8, 29, 150, 7, Border::circular},
    {8, 17, 129, 7, Border::circular, 1},
    {4, 3, 4, 7, Border::circular},
    {6, 33, 300, 3, Border::reflect},
    {7, 50, 140, 5, Border::symmetric, 1},
    {8, 17, 129, 7, Border::reflect, 6},
    {8, 17, 129, 7, Border::replicate},
    {6, 33, 300, 3, Border::constant},
    {7, 50, 140, 5, Border::constant, 3},
    {8, 17, 129, 7, Border::zero_output},
    {8, 29, 150, 7, Border::constant, 0, 6},
    // Shards: in the middle, at either end, with one plane, as thin as windows reach.
    {6, 33, 300, 3, Border::reflect, -1, 0, 2, 3},
    {6, 33, 300, 3, Border::circular, -1, 0, 1, 1},
    {6, 33, 300, 3, Border::constant, -1, 0, 1, 0},
    {1, 33, 130, 3, Border::symmetric, -1, 0, 1, 1},
    {9, 40, 256, 3, Border::zero_output, -1, 0, 0, 1},
    {7, 50, 140, 5, Border::constant, 4, 0, 4, 0},
    {7, 50, 140, 5, Border::replicate, -1, 1, 2, 2},
    {8, 29, 150, 7, Border::circular, -1, 0, 3, 5},
    {8, 29, 150, 7, Border::constant, -1, 0, 0, 3},
    {8, 17, 129, 7, Border::reflect, 6, 0, 6, 0},
    {2, 17, 129, 7, Border::zero_output, -1, 0, 3, 3},
    // With blocks that lie inside every plane and patch nothing.
    {9, 110, 700, 3, Border::constant},
    {9, 110, 700, 3, Border::reflect, -1, 0, 1, 2},
    {9, 40, 400, 7, Border::constant, -1, 0, 0, 3},
    {9, 40, 400, 5, Border::circular, -1, 0, 3, 2},
};

constexpr int64_t kC = 2;

struct Memory {
  std::vector<float> words;
  Image image;
  // `gap` elements between planes.
  Memory(int64_t d, const Case& k, int64_t pitch, int64_t gap) {
    const int64_t plane = k.h * pitch + gap;
    words.assign(kC * d * plane + 32, NAN);
    void* const start = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(words.data()) + 127) / 128 * 128);
    image = {start, Dtype::f32, 1, kC, d, k.h, k.w, kC * d * plane, d * plane, plane, pitch, 1};
  }
  float* row(int64_t c, int64_t z, int64_t y) {
    return static_cast<float*>(image.data) + c * image.stride_c + z * image.stride_d + y * image.stride_h;
  }
};

bool check(const Case& k) {
  std::mt19937 make(1);
  const int64_t pitch = round_up(k.w, 4) + 4, pad = k.pad < 0 ? k.k / 2 : k.pad, c = kC;
  std::vector<float> taps(k.k * k.k * k.k);
  Memory whole(k.above + k.d + k.below, k, pitch, 0), own(k.d, k, pitch, 0), above(k.above, k, pitch, 4),
      below(k.below, k, pitch, 12);
  for (int64_t i = 0; i < c; ++i)
    for (int64_t z = 0; z < whole.image.d; ++z)
      for (int64_t y = 0; y < k.h; ++y) {
        float* const row = whole.row(i, z, y);
        for (int64_t x = 0; x < k.w; ++x) row[x] = float(make() % 100000 + 1);
        const int64_t at = z - k.above;
        std::copy_n(row, k.w, at < 0 ? above.row(i, z, y) : at < k.d ? own.row(i, at, y) : below.row(i, at - k.d, y));
      }
  const Image& in = own.image;
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
                 .bias = nullptr,
                 .peers = {k.above ? above.image : Image{}, k.below ? below.image : Image{}}};
  const Arch arch{.major = 9, .minor = 0, .multiprocessors = 3, .shared_bytes = 232448, .bulk_copy = true};
  const Plan planned = plan_cuda(p, arch, "streaming_tma");
  Wrong wrong{.whole = whole.image, .above = k.above};
  if (!planned.variant) {
    wrong.what = planned.why;
  } else {
    const auto& streaming = own_config<VolumeStreamingConfig>(planned);
    const int rows = streaming.shape.rows_in(int(k.k));
    const bool wide = streaming.shape.warps_x == 2, patched = k.border != Border::zero_output;
    const auto launch = [&]<typename Map>(const Map& map, const Map& side) {
      const auto kernel = k.k == 5   ? look<5, false, false, Map>
                          : k.k == 7 ? look<7, false, false, Map>
                          : wide     ? (patched ? look<3, true, true, Map> : look<3, true, false, Map>)
                                     : (patched ? look<3, false, true, Map> : look<3, false, false, Map>);
      on_host::launch(kernel, {unsigned(planned.blocks), 1, 1}, planned.threads, map, side,
                      streaming_args(p, planned, streaming), &wrong);
    };
    const auto map_of = [&](const Image& x) { return tma::map_of(x, streaming.shape.width(), rows); };
    const auto side_map_of = [&](const Image& x) { return tma::map_of(x, 4, rows); };
    memset(shared, 0xff, sizeof(shared));
    if (p.peers.any()) launch(ShardMaps::of(p.in, p.peers, map_of), ShardMaps::of(p.in, p.peers, side_map_of));
    else launch(map_of(p.in), side_map_of(p.in));
  }
  return on_host::report(wrong.what, "%lld^3 in %lldx%lldx%lld %s, pad %lld, beside %lld and %lld planes",
                         (long long)k.k, (long long)k.d, (long long)k.h, (long long)k.w, name_of(k.border),
                         (long long)pad, (long long)k.above, (long long)k.below);
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
