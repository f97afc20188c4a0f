// separable2d's TYPED_RING as its plan launches it, on the host: the bits of the row chain and the column
// chain, and nothing written beside the output.
#include "separable_chain.h"
#include "kernels/separable2d/typed_ring/kernel.cuh"
#include "kernels/separable2d/typed_ring/plan.h"

namespace {

using namespace on_host;

using Kernel = void (*)(TypedParams, TensorMap);
#define KERNEL(T, pixel) \
  {"separable2d::separable_typed_ring<" #T ", " #pixel ">", separable_typed_ring<T, pixel>}
#define KERNELS(T) KERNEL(T, 1), KERNEL(T, 2), KERNEL(T, 3), KERNEL(T, 4)
const std::map<std::string, Kernel> kKernels = {KERNELS(half_t), KERNELS(uint8_t)};

const Case kCases[] = {
    {70, 136, 15, 15, 7, 7},
    {70, 136, 15, 15, 7, 7, Border::reflect},
    {130, 260, 31, 31, 15, 15, Border::reflect},
    {130, 260, 31, 31, 15, 15, Border::circular, 0, 0, 0, true},
    {90, 132, 63, 63, 31, 31, Border::symmetric},
    {40, 140, 47, 15, 23, 7, Border::replicate},
    {40, 140, 15, 47, 7, 23, Border::zero_output},
    {60, 136, 21, 9, 10, 4, Border::constant, 3},
    {45, 136, 1, 21, 0, 10, Border::reflect},
    {5, 8, 31, 31, 15, 15, Border::reflect},
    {100, 264, 34, 32, 16, 16, Border::circular},
    {33, 136, 34, 32, 16, 16, Border::circular},
    {60, 160, 18, 16, 0, 0, Border::constant, 0, 17, 15},
    {60, 160, 18, 16, 17, 8, Border::constant, 1, 0, 1},
    {33, 136, 31, 31, 15, 15, Border::reflect, 0, 0, 0, false, 20, 15},
    {33, 136, 31, 31, 15, 15, Border::constant, 0, 0, 0, false, 3, 15},
    {33, 136, 15, 15, 7, 7, Border::zero_output, 0, 0, 0, false, 0, 2},
    {70, 130, 5, 5, 2, 2, Border::reflect, 0, 0, 0, false, 0, 0, 2},
    {40, 70, 31, 31, 15, 15, Border::zero_output, 0, 0, 0, false, 0, 0, 2},
    {70, 100, 5, 5, 2, 2, Border::constant, 0, 0, 0, false, 0, 0, 3},
    {40, 100, 9, 15, 4, 7, Border::constant, 3, 0, 0, false, 9, 2, 3},
    {40, 36, 31, 31, 15, 15, Border::circular, 0, 0, 0, false, 0, 0, 3},
    {40, 8, 31, 31, 15, 15, Border::reflect, 0, 0, 0, false, 0, 15, 3},
    {60, 88, 18, 40, 0, 0, Border::constant, 0, 17, 39, false, 0, 0, 3},
    {40, 36, 9, 15, 4, 7, Border::zero_output, 0, 0, 0, false, 5, 0, 3},
    {34, 33, 3, 3, 1, 1, Border::symmetric, 0, 0, 0, false, 0, 0, 4},
    {40, 136, 3, 5, 1, 2, Border::reflect},  // each rest of the taps by four, each skew
    {40, 136, 6, 7, 3, 3, Border::circular},
    {40, 136, 8, 6, 4, 2, Border::replicate},
    {40, 136, 4, 4, 1, 1, Border::constant, 1},
    {140, 136, 130, 9, 64, 4, Border::reflect},
    {40, 200, 5, 150, 2, 75, Border::circular},
    {70, 65, 15, 15, 7, 7, Border::replicate, 0, 0, 0, false, 0, 0, 4},
};

std::string launch_typed(const Separable& p, const PassTaps& taps, Plan& plan) {
  if (const char* const no = typed_ring_refusal(p, kMachine)) return no;
  configure_typed_ring(p, kMachine, plan);
  const TypedTile& tile = own_config<TypedTile>(plan);
  const auto kernel = kKernels.find(plan.kernels[0].name);
  if (kernel == kKernels.end()) return "no kernel " + plan.kernels[0].name;
  const Image rows = as_rows(p).in;
  on_host::launch(kernel->second, {unsigned(plan.blocks), 1, 1}, plan.threads, typed_params(p, tile, taps),
                  tma::map_of(rows, tile.pitch / tma::pack_of(size_of(rows.dtype)), kRingPiece));
  return "";
}

// Rows of narrow pixels that are not whole words are refused.
template <typename T>
bool served(const Case& k, bool on_host) {
  const bool words = k.w * std::max(k.hwc, 1) % tma::pack_of(sizeof(T)) == 0;
  return !words || check<T>(k, on_host, 0, launch_typed);
}

}  // namespace

int main() {
  const auto each = [](const auto& check) {
    return [check](const Case& k) { return with_taps(k, [&](bool on_host) { return check(k, on_host); }); };
  };
  return status_of(kCases, each(served<half_t>)) | status_of(kCases, each(served<uint8_t>));
}
