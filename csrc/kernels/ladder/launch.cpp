// The ladder: textbook kernels that benchmarks compare the library with. The rungs in their order:
//
//     signals   naive1d, constant1d, tiled1d, l2_halo1d
//     images    naive, constant, tiled, l2_halo, fused
//     volumes   naive3d, constant3d, tiled3d, l2_halo3d, separable3d
//
// All but fused and separable3d compute the same fma chain, and so the same bits.
#include "runtime/launch.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/ladder/entry_points.h"
#include "kernels/ladder/params.h"

namespace torch_conv::ladder {
namespace {

// ---- signals -----------------------------------------------------------------------------------------------------

// One thread per number. Rungs differ in kernel and shared memory only.
void launch(const Ladder1d& p, int64_t shared_bytes, const Site& site) {
  const Rows rows{.in = p.in, .out = p.out, .w = int(p.w)};
  launch_kernel(*site.kernels[0], {ceil_div(p.w, p.block), unsigned(p.rows)}, {unsigned(p.block)}, int(shared_bytes),
                site.stream, rows, p.k, ConstantWindow<kMaxTaps>::from(p.taps, p.k));
}

int64_t shared_bytes_of(const Ladder1d& p, Variant1d variant) {
  return variant == Variant1d::tiled ? p.tile_bytes() : variant == Variant1d::l2_halo ? 4 * int64_t(p.block) : 0;
}

// ---- images ------------------------------------------------------------------------------------------------------

// The tiled rungs are compiled for three windows and four blocks. Other problems take the naive rung.
bool has_tile(const Ladder2d& p) {
  const auto block_is = [&](int x, int y) { return p.block_x == x && p.block_y == y; };
  return (p.k == 3 || p.k == 5 || p.k == 7) &&
         (block_is(8, 8) || block_is(16, 16) || block_is(32, 8) || block_is(32, 16));
}

Variant served(const Ladder2d& p, Variant variant) {
  const bool tiled = variant == Variant::tiled || variant == Variant::l2_halo;
  return tiled && !has_tile(p) ? Variant::naive : variant;
}

// One thread per pixel.
template <typename... Parameters>
void launch_rung(const Ladder2d& p, const Site& site, const Parameters&... parameters) {
  const Planes planes{.in = p.in, .out = p.out, .h = int(p.h), .w = int(p.w)};
  const GridSize blocks{ceil_div(p.w, p.block_x), unsigned(ceil_div(p.h, p.block_y)), unsigned(p.planes)};
  launch_kernel(*site.kernels[0], blocks, {unsigned(p.block_x), unsigned(p.block_y)}, 0, site.stream, planes,
                parameters...);
}

void launch_tile(const Ladder2d& p, const Site& site) {
  switch (p.k) {
    case 3: return launch_rung(p, site, ConstantWindow<9>::from(p.taps, 9));
    case 5: return launch_rung(p, site, ConstantWindow<25>::from(p.taps, 25));
    case 7: return launch_rung(p, site, ConstantWindow<49>::from(p.taps, 49));
  }
}

void launch(const Ladder2d& p, Variant variant, const Site& site) {
  switch (served(p, variant)) {
    case Variant::naive:
    case Variant::constant: return launch_rung(p, site, p.k, ConstantWindow<kMaxTaps>::from(p.taps, p.k * p.k));
    case Variant::tiled:
    case Variant::l2_halo: return launch_tile(p, site);
    case Variant::fused: return launch_rung(p, site, ConstantWindow<9>::from(p.taps, 9));
  }
}

// ---- volumes -----------------------------------------------------------------------------------------------------

int layers_of(const Ladder3d& p) { return int(ceil_div(p.d, p.block_z)); }

// The smallest of three windows that holds the taps.
int window_size(int taps) { return taps <= kFewTaps ? kFewTaps : taps <= kMaxTaps ? kMaxTaps : kMaxTaps3d; }

// Calls launch(window) with it.
template <typename Launch>
void with_window(const float* taps, int count, Launch&& launch) {
  switch (window_size(count)) {
    case kFewTaps: return launch(ConstantWindow<kFewTaps>::from(taps, count));
    case kMaxTaps: return launch(ConstantWindow<kMaxTaps>::from(taps, count));
    default: return launch(ConstantWindow<kMaxTaps3d>::from(taps, count));
  }
}

// One thread per voxel; volumes follow each other along the grid's z.
template <typename... Parameters>
void launch_rung(const Ladder3d& p, const LoadedKernel& kernel, const float* in, float* out, int64_t shared_bytes,
                 const Site& site, const Parameters&... parameters) {
  const int layers = layers_of(p);
  const Volumes volumes{.in = in, .out = out, .d = int(p.d), .h = int(p.h), .w = int(p.w), .layers = layers};
  const GridSize blocks{ceil_div(p.w, p.block_x), unsigned(ceil_div(p.h, p.block_y)), unsigned(p.volumes * layers)};
  const BlockSize threads{unsigned(p.block_x), unsigned(p.block_y), unsigned(p.block_z)};
  launch_kernel(kernel, blocks, threads, int(shared_bytes), site.stream, volumes, parameters...);
}

void launch_window(const Ladder3d& p, int64_t shared_bytes, const Site& site) {
  with_window(p.taps, p.kd * p.kh * p.kw, [&](const auto& window) {
    launch_rung(p, *site.kernels[0], p.in, p.out, shared_bytes, site, p.kd, p.kh, p.kw, window);
  });
}

// in -- x pass --> out -- y pass --> scratch -- z pass --> out
void launch_passes(const Ladder3d& p, const Site& site) {
  const float *taps_z = p.taps, *taps_y = taps_z + p.kd, *taps_x = taps_y + p.kh;
  const auto pass = [&](int i, const float* taps, int k, const float* in, float* out, int64_t shared_bytes) {
    with_window(taps, k,
                [&](const auto& window) { launch_rung(p, *site.kernels[i], in, out, shared_bytes, site, k, window); });
  };
  pass(0, taps_x, p.kw, p.in, p.out, p.tile_bytes(1, 1, p.kw));
  pass(1, taps_y, p.kh, p.out, p.scratch, p.tile_bytes(1, p.kh, 1));
  pass(2, taps_z, p.kd, p.scratch, p.out, p.tile_bytes(p.kd, 1, 1));
}

void launch(const Ladder3d& p, Variant3d variant, const Site& site) {
  switch (variant) {
    case Variant3d::naive:
    case Variant3d::constant: return launch_window(p, 0, site);
    case Variant3d::tiled: return launch_window(p, p.tile_bytes(p.kd, p.kh, p.kw), site);
    case Variant3d::l2_halo: return launch_window(p, p.tile_bytes(1, 1, 1), site);
    case Variant3d::separable: return launch_passes(p, site);
  }
}

// The rungs in the order of all three enumerations; 4 is FUSED of images only.
Kernel kernel_of_rung(int rung, const char* prefix, std::initializer_list<TemplateArgument> arguments) {
  constexpr const char* kFiles[] = {"kernels/ladder/naive.cuh", "kernels/ladder/constant.cuh",
                                    "kernels/ladder/tiled.cuh", "kernels/ladder/l2_halo.cuh",
                                    "kernels/ladder/fused.cuh"};
  constexpr const char* kNames[] = {"naive", "constant", "tiled", "l2_halo", "fused"};
  return kernel_of(kFiles[rung], std::string(prefix) + kNames[rung], arguments);
}

constexpr int64_t kGridLimit = 65535;               // of a grid's y and z
constexpr int64_t kColumnLimit = int64_t(1) << 30;  // coordinates are 32-bit, the window's radius included

}  // namespace

std::vector<Kernel> kernels_cuda(const Ladder1d&, Variant1d variant) {
  return {kernel_of_rung(int(variant), "ladder::ladder1d_", {})};
}

std::vector<Kernel> kernels_cuda(const Ladder2d& p, Variant variant) {
  variant = served(p, variant);
  if (variant == Variant::tiled || variant == Variant::l2_halo)
    return {kernel_of_rung(int(variant), "ladder::ladder2d_", {p.block_x, p.block_y, p.k})};
  return {kernel_of_rung(int(variant), "ladder::ladder2d_", {})};
}

std::vector<Kernel> kernels_cuda(const Ladder3d& p, Variant3d variant) {
  const auto pass = [](const char* axis, int k) {
    return kernel_of("kernels/ladder/separable3d.cuh", "ladder::ladder3d_pass", {axis, window_size(k)});
  };
  if (variant == Variant3d::separable) return {pass("'x'", p.kw), pass("'y'", p.kh), pass("'z'", p.kd)};
  return {kernel_of_rung(int(variant), "ladder::ladder3d_", {window_size(p.kd * p.kh * p.kw)})};
}

void run_cuda(const Ladder1d& p, Variant1d variant, const Site& site) {
  if (p.w > kColumnLimit)
    throw std::runtime_error("ladder1d: input must have at most 2^30 columns on CUDA, got " + std::to_string(p.w));
  for (int64_t first = 0; first < p.rows; first += kGridLimit) {
    Ladder1d part = p;
    part.in += first * p.w;
    part.out += first * p.w;
    part.rows = std::min(kGridLimit, p.rows - first);
    launch(part, shared_bytes_of(p, variant), site);
  }
}

void run_cuda(const Ladder2d& p, Variant variant, const Site& site) {
  if (ceil_div(p.h, p.block_y) > kGridLimit)
    throw std::runtime_error("ladder2d: input must have at most 65535 * block[1] rows on CUDA, got " +
                             std::to_string(p.h));
  for (int64_t first = 0; first < p.planes; first += kGridLimit) {
    Ladder2d part = p;
    part.in += first * p.h * p.w;
    part.out += first * p.h * p.w;
    part.planes = std::min(kGridLimit, p.planes - first);
    launch(part, variant, site);
  }
}

void run_cuda(const Ladder3d& p, Variant3d variant, const Site& site) {
  const auto at_most = [](int64_t got, int64_t limit, const char* sentence) {
    if (got > limit)
      throw std::runtime_error(std::string("ladder3d: input must have at most ") + sentence + " on CUDA, got " +
                               std::to_string(got));
  };
  at_most(p.d, kGridLimit * p.block_z, "65535 * block[2] planes");
  at_most(p.h, kGridLimit * p.block_y, "65535 * block[1] rows");
  at_most(p.w, kColumnLimit, "2^30 columns");
  const int64_t together = kGridLimit / layers_of(p), volume = p.d * p.h * p.w;
  for (int64_t first = 0; first < p.volumes; first += together) {
    Ladder3d part = p;
    part.in += first * volume;
    part.out += first * volume;
    part.volumes = std::min(together, p.volumes - first);
    launch(part, variant, site);
  }
}

}  // namespace torch_conv::ladder
