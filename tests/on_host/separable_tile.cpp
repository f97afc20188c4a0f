// separable2d's TILE as its plan launches it, on the host: the bits of the row chain and the column chain, and nothing
// written beside the output.
#include "separable_chain.h"
#include "kernels/separable2d/tile/kernel.cuh"
#include "kernels/separable2d/tile/plan.h"

namespace {

using namespace on_host;

using Kernel = void (*)(TileParams, TensorMap);
#define KERNEL(...) \
  { "separable2d::separable_tile<" #__VA_ARGS__ ">", separable_tile<__VA_ARGS__> }
#define KERNELS(...) KERNEL(__VA_ARGS__, true), KERNEL(__VA_ARGS__, false)
#define TYPES(...) KERNELS(float, __VA_ARGS__), KERNELS(half_t, __VA_ARGS__), KERNELS(uint8_t, __VA_ARGS__)
const std::map<std::string, Kernel> kKernels = {TYPES(3, 1), TYPES(5, 1), TYPES(3, 3), TYPES(5, 2),
                                                TYPES(5, 3), TYPES(7, 4), TYPES(9, 3)};

const Case kCases[] = {
    {70, 517, 5, 5, 2, 2, Border::reflect},
    {35, 1031, 3, 3, 1, 1, Border::zero_output},
    {35, 331, 5, 5, 2, 2, Border::zero_output, 0, 0, 0, false, 0, 0, 3},
    {35, 143, 7, 7, 3, 3, Border::replicate, 0, 0, 0, false, 0, 4, 4},
    {20, 9, 5, 5, 2, 2, Border::reflect, 0, 0, 0, false, 0, 0, 3},
    {70, 288, 5, 5, 2, 2, Border::reflect},
    {40, 264, 3, 3, 1, 1, Border::circular, 0, 0, 0, true},
    {70, 96, 3, 3, 1, 1, Border::reflect, 0, 0, 0, false, 0, 0, 3},
    {40, 112, 5, 5, 2, 2, Border::constant, 2, 0, 0, false, 9, 3, 3},
    {33, 32, 5, 5, 2, 2, Border::circular, 0, 0, 0, false, 0, 0, 2},
    {40, 16, 7, 7, 3, 3, Border::symmetric, 0, 0, 0, false, 0, 0, 4},
    {37, 80, 7, 7, 3, 3, Border::zero_output, 0, 0, 0, false, 3, 4, 4},
    {60, 48, 9, 9, 4, 4, Border::replicate, 0, 0, 0, false, 0, 0, 3},
    {60, 96, 9, 9, 0, 0, Border::constant, 0, 8, 8, false, 0, 0, 3},
    {60, 96, 5, 5, 3, 1, Border::zero_output, 0, 0, 0, false, 0, 0, 3},
    {5, 16, 9, 9, 4, 4, Border::reflect, 0, 0, 0, false, 0, 15, 3},
    {9, 127, 5, 5, 2, 2, Border::zero_output},  // the last tile makes what it would share with a further one
    {9, 251, 5, 5, 2, 2, Border::reflect},
    {9, 245, 5, 5, 0, 0, Border::constant, 0, 4, 4},
};

template <typename T>
bool each_way(const Case& k, bool on_host) {
  // Rows that start on 16 bytes by bulk copies (which bring whole words) and by loads, and others by loads.
  const bool words = k.w * std::max(k.hwc, 1) * sizeof(T) % 16 == 0;
  bool right = true;
  for (int way = words ? 0 : 1; way < 3; ++way) {
    const auto launch_tile = [&](const Separable& p, const PassTaps& taps, Plan& plan) -> std::string {
      const bool bulk = way == 0;
      if (const char* const no = bulk ? tile_tma_refusal(p, kMachine) : tile_refusal(p, kMachine)) return no;
      configure_tile(p, bulk, plan);
      const TileShape& shape = own_config<TileConfig>(plan).shape;
      const auto kernel = kKernels.find(plan.kernels[0].name);
      if (kernel == kKernels.end()) return "no kernel " + plan.kernels[0].name;
      const Image rows = as_rows(p).in;
      on_host::launch(kernel->second, {unsigned(plan.blocks), 1, 1}, plan.threads, tile_params(p, shape, bulk, taps),
                      tma::map_of(rows, shape.pitch * int(sizeof(T)) / 4, shape.box_h));
      return "";
    };
    right = check<T>(k, on_host, way == 2 ? 1 : 0, launch_tile) && right;
  }
  return right;
}

}  // namespace

int main() {
  return status_of(kCases, [](const Case& k) {
    return with_taps(k, [&](bool on_host) {
      const bool floats = each_way<float>(k, on_host), halves = each_way<half_t>(k, on_host);
      return each_way<uint8_t>(k, on_host) && floats && halves;
    });
  });
}
