// WINDOW: any window at stride and dilation 1, any layout and pair of dtypes.
//
//   a plane in shared memory, twice          A block computes a tile of one or two output planes. Four warps add the
//   +--------------------------+  -          window to one plane of the input after the other; the next plane and its
//   | halo                     |  |          taps arrive meanwhile, border map and conversion included: asynchronous
//   |   +------------------+   |  | height   copies where nothing is converted, else by loader warps.
//   |   | warp 0 .. warp 3 |   |  | + kh
//   |   +------------------+   |  | - 1      A lane owns 16 neighbours of a row in two planes, or 8 in one where that
//   |                          |  |          would leave multiprocessors idle. It steps along a row of the window by
//   +--------------------------+  -          four taps: one read of four pixels and one of four taps for each plane
//   one plane of taps for each output        (a broadcast) serve 128 multiply-adds, or 32. The row's last one to three
//   plane, and the next; rows padded to 4    taps have code of their own: padding is never multiplied.
//
// A row of pixels lies four by four in turn in `Pixels` / 4 parts, so that the lanes' reads hit different banks.
// Device memory: the tile's planes come from L2; 2 kd kh kw flops a voxel.
#pragma once

#include "direct3d/window_load.cuh"

namespace torch_conv::direct3d {

template <int N>
using Index = std::integral_constant<int, N>;

template <typename A>
__device__ __forceinline__ Pack<4, A> four(const A* from) {
  return *reinterpret_cast<const Pack<4, A>*>(from);
}

// The first pixels and taps of a row of the window, for `Sums` planes of sums.
template <int Pixels, int Sums, typename A>
struct RowStart {
  Pack<4, A> pixel[Pixels / 4 + 1], tap[Sums];
  __device__ __forceinline__ void read(const A* from, int part, const A* const (&taps)[Sums]) {
    constexpr int parts = Pixels / 4;
#pragma unroll
    for (int n = 0; n <= parts; ++n) pixel[n] = four(from + n % parts * part + n / parts * 4);
#pragma unroll
    for (int o = 0; o < Sums; ++o) tap[o] = four(taps[o]);
  }
};

// Adds one row of the window to the sums of planes [Lo, Lo + Sums).
template <int Pixels, int Lo, int Sums, int Planes, typename A>
__device__ __forceinline__ void add_row(const RowStart<Pixels, Sums, A>& start, const A* from, int part,
                                        const A* const (&row_taps)[Sums], int kw, A (&sum)[Planes][Pixels]) {
  constexpr int parts = Pixels / 4, steps = 4;
  Pack<4, A> pixel[parts + 1 + steps], tap[2][Sums];  // taps of this step and of the next
  const A* taps[Sums];
#pragma unroll
  for (int n = 0; n <= parts; ++n) pixel[n] = start.pixel[n];
#pragma unroll
  for (int o = 0; o < Sums; ++o) tap[0][o] = start.tap[o], taps[o] = row_taps[o];
  int rest = kw;
  // Four taps, those of step u; false at the end of the row.
  const auto step = [&](auto step_index) {
    constexpr int u = decltype(step_index)::value, ahead = u + parts + 1;
    const auto add = [&](int t) {
#pragma unroll
      for (int o = 0; o < Sums; ++o)
#pragma unroll
        for (int q = 0; q < Pixels; ++q)
          sum[Lo + o][q] = fma(tap[u % 2][o].v[t], pixel[u + (q + t) / 4].v[(q + t) % 4], sum[Lo + o][q]);
    };
    if (rest < 4) {
      if (rest > 0) add(0);
      if (rest > 1) add(1);
      if (rest > 2) add(2);
      return false;
    }
    // The next step's pixels and taps arrive during this one; those after the last step are never used.
    pixel[ahead] = four(from + ahead % parts * part + ahead / parts * 4);
#pragma unroll
    for (int o = 0; o < Sums; ++o) tap[(u + 1) % 2][o] = four(taps[o] + 4 * (u + 1));
    add(0), add(1), add(2), add(3);
    rest -= 4;
    return true;
  };
  while (step(Index<0>{}) && step(Index<1>{}) && step(Index<2>{}) && step(Index<3>{})) {
    from += steps / parts * 4;
#pragma unroll
    for (int o = 0; o < Sums; ++o) taps[o] += 4 * steps;
#pragma unroll
    for (int n = 0; n <= parts; ++n) pixel[n] = pixel[n + steps];
  }
}

// Adds one plane of the input to the sums of planes [Lo, Lo + Sums); taps[o] is the window's plane for sum Lo + o.
template <int Pixels, int Lo, int Sums, int Planes, typename A>
__device__ __forceinline__ void add_plane(const A* from, const A* (&taps)[Sums], const WindowArgs& a,
                                          A (&sum)[Planes][Pixels]) {
  const int kh = int(a.p.kh), kw = int(a.p.kw);
  const auto down = [&] {
    from += a.pitch;
#pragma unroll
    for (int o = 0; o < Sums; ++o) taps[o] += a.tap_pitch;
  };
  using Start = RowStart<Pixels, Sums, A>;
  if constexpr (Planes > 1 || sizeof(A) == 8) {
#pragma unroll 1
    for (int i = 0; i < kh; ++i) {
      Start start;
      start.read(from, a.part, taps);
      add_row<Pixels, Lo>(start, from, a.part, taps, kw, sum);
      down();
    }
  } else {
    // A multiprocessor has few other warps to turn to: the next row's first pixels are read a row ahead (of float64
    // they would not fit the registers).
    // There is no row behind the last (the next plane is being written there): the last is read once more, unused, as
    // a branch around the read costs 19 % (15^3 on 8x128x128 on one NVIDIA H200: 51.6 -> 61.3 us).
    const auto row = [&](const Start& start, Start& next, bool more) {
      const A* const at = from;
      const A* const at_taps[Sums] = {taps[0]};
      down();
      const A* const next_taps[Sums] = {more ? taps[0] : at_taps[0]};
      next.read(more ? from : at, a.part, next_taps);
      add_row<Pixels, Lo>(start, at, a.part, at_taps, kw, sum);
    };
    Start even, odd;
    even.read(from, a.part, taps);
#pragma unroll 1
    for (int i = 0; i < kh; i += 2) {
      row(even, odd, i + 1 < kh);
      if (i + 1 == kh) break;
      row(odd, even, i + 2 < kh);
    }
  }
}

// One plane of a warp's sums, rounded to O; `mine` holds them as the tile lies, `first` is the lane's first column.
template <typename O, int parts, typename A>
__device__ __forceinline__ void store_plane(const WindowArgs& a, const WindowPlace& at, const A* mine, int first,
                                            int warp_rows, int o, A bias) {
  const Direct& p = a.p;
  const int lane = threadIdx.x % 32, y0 = at.y + threadIdx.x / 32 * warp_rows;
  const bool fits_z = at.bz + o >= 0 && at.bz + o + int(p.kd) <= p.in.d;
  O* to = static_cast<O*>(p.out.data) + at.n * p.out.stride_n + at.co * p.out.stride_c + (at.z + o) * p.out.stride_d +
          y0 * p.out.stride_h + (at.x + lane) * p.out.stride_w;
  const int64_t right = 32 * p.out.stride_w, down = p.out.stride_h;
#pragma unroll 1
  for (int r = 0; r < warp_rows; ++r, to += down) {
    const int y = y0 + r;
    if (y >= p.out.h) break;
    const bool fits_y = fits_z && y >= p.place.pad_y && y - p.place.pad_y + int(p.kh) <= p.in.h;
    const A* from = mine + r * a.pitch + first;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int x = at.x + lane + 32 * k;
      if (32 * k >= at.width || x >= p.out.w) break;
      const bool fits = fits_y && x >= p.place.pad_x && x - p.place.pad_x + int(p.kw) <= p.in.w;
      const A value = from[32 / parts * k];
      const bool zero = p.place.border == Border::zero_output && !fits;
      to[k * right] = from_acc<O>(zero ? A(0) : p.bias ? value + bias : value);
    }
  }
}

template <typename T, bool Large>
__global__ void __launch_bounds__(window_tile(Large, sizeof(T)).threads(), window_tile(Large, sizeof(T)).resident)
    direct3d_window(const __grid_constant__ WindowArgs a, const __grid_constant__ ParamTaps param_taps) {
  using A = acc_t<T>;
  constexpr WindowTile config = window_tile(Large, sizeof(T));
  constexpr int loaders = config.loaders, Pixels = config.pixels, Planes = config.planes, parts = Pixels / 4;
  const Direct& p = a.p;
  const int kd = int(p.kd);
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  const int stage = a.pitch * a.rows, tap_stage = window_tap_stage(a.tap_pitch, int(p.kh));
  A* stages = reinterpret_cast<A*>(shared_bytes);
  A* tap_stages = stages + 2 * stage;

  const WindowPlace at(a, config);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int lanes = at.width / Pixels, warp_rows = 32 / lanes;  // lanes of a row
  WindowLoader<T, parts> loader{a, param_taps, at, reinterpret_cast<int64_t*>(tap_stages + (Planes + 1) * tap_stage)};
  loader.map_border();
  __syncthreads();
  const auto load = [&](int s, int ci, int l, int one, int of) {
    if (l < kd) loader.load_taps(tap_stages + s % (Planes + 1) * tap_stage, ci, l, one, of);
    loader.load_plane(stages + s % 2 * stage, ci, l, one, of);
  };

  A sum[Planes][Pixels] = {};
  const int row_in = warp * warp_rows + lane / lanes, first = row_in * a.pitch + lane % lanes * 4;
  const int planes = a.in_per_group * at.depth;
  load(0, 0, 0, warp, kWindowWarps + loaders);
  async_wait_all();
  __syncthreads();
  for (int s = 0, l = 0, ci = 0; s < planes; ++s) {
    const int now = l;
    if (++l == at.depth) l = 0, ++ci;
    if (s + 1 < planes && (loaders == 0 || warp >= kWindowWarps))
      load(s + 1, ci, l, loaders == 0 ? warp : warp - kWindowWarps, loaders == 0 ? kWindowWarps : loaders);
    if (warp < kWindowWarps) {
      const A* from = stages + s % 2 * stage + first;
      const A* tap_now = tap_stages + s % (Planes + 1) * tap_stage;
      if constexpr (Planes == 1) {
        const A* taps[1] = {tap_now};
        add_plane<Pixels, 0>(from, taps, a, sum);
      } else {
        const A* tap_before = tap_stages + (s + Planes) % (Planes + 1) * tap_stage;
        if (now < kd && now > 0 && at.count > 1) {
          const A* taps[2] = {tap_now, tap_before};
          add_plane<Pixels, 0>(from, taps, a, sum);
        } else if (now < kd) {
          const A* taps[1] = {tap_now};
          add_plane<Pixels, 0>(from, taps, a, sum);
        } else {
          const A* taps[1] = {tap_before};
          add_plane<Pixels, 1>(from, taps, a, sum);
        }
      }
    }
    async_wait_all();
    __syncthreads();
  }
  if (warp >= kWindowWarps) return;

  // Through shared memory, so that a warp stores neighbours.
  const A bias = p.bias ? static_cast<const A*>(p.bias)[at.co] : A(0);
  A* mine = stages + warp * warp_rows * a.pitch;
#pragma unroll
  for (int o = 0; o < Planes; ++o) {
    if (o >= at.count) break;
    __syncwarp();
#pragma unroll
    for (int c = 0; c < parts; ++c) {
      Pack<4, A> to;
#pragma unroll
      for (int q = 0; q < 4; ++q) to.v[q] = sum[o][4 * c + q];
      *reinterpret_cast<Pack<4, A>*>(mine + lane / lanes * a.pitch + c * a.part + lane % lanes * 4) = to;
    }
    __syncwarp();
    // One switch a plane of the tile, not one a pixel.
    with_type(p.out.dtype, [&](auto zero) {
      store_plane<decltype(zero), parts>(a, at, mine, loader.first_place, warp_rows, o, bias);
    });
  }
}

}  // namespace torch_conv::direct3d
