// separable2d's RING as its plan launches it, on the host: the bits of the row chain and the column chain, and nothing
// written beside the output.
#include "separable_chain.h"
#include "kernels/separable2d/ring/kernel.cuh"
#include "kernels/separable2d/ring/plan.h"

namespace {

using namespace on_host;

using Kernel = void (*)(RingParams, TensorMap);
#define KERNEL(...) \
  { "separable2d::separable_ring<separable2d::RingPolicy{" #__VA_ARGS__ "}>", separable_ring<RingPolicy{__VA_ARGS__}> }
#define KERNELS(kh, kw, skew, pixel)                                                 \
  KERNEL(kh, kw, skew, pixel, true, true), KERNEL(kh, kw, skew, pixel, false, true), \
      KERNEL(kh, kw, 0, pixel, true, false), KERNEL(kh, kw, 0, pixel, false, false)
const std::map<std::string, Kernel> kKernels = {
    KERNELS(15, 15, 1, 1), KERNELS(31, 31, 1, 1), KERNELS(63, 63, 1, 1), KERNELS(47, 15, 1, 1), KERNELS(15, 47, 1, 1),
    KERNELS(21, 9, 4, 1),  KERNELS(1, 21, 6, 1),  KERNELS(34, 32, 0, 1), KERNELS(18, 16, 0, 1), KERNELS(5, 5, 4, 2),
    KERNELS(31, 31, 2, 2), KERNELS(5, 5, 2, 3),   KERNELS(9, 15, 3, 3),  KERNELS(31, 31, 3, 3), KERNELS(18, 40, 0, 3),
    KERNELS(3, 3, 4, 4),   KERNELS(15, 15, 4, 4), KERNELS(130, 9, 4, 1), KERNELS(5, 150, 5, 1),
};

const Case kCases[] = {
    {70, 136, 15, 15, 7, 7},
    {70, 136, 15, 15, 7, 7, Border::reflect},
    {130, 260, 31, 31, 15, 15, Border::reflect},
    {130, 260, 31, 31, 15, 15, Border::circular, 0, 0, 0, true},
    {90, 132, 63, 63, 31, 31, Border::symmetric},
    {40, 140, 47, 15, 23, 7, Border::replicate},
    {40, 140, 15, 47, 7, 23, Border::zero_output},
    {60, 136, 21, 9, 10, 4, Border::constant, 2.5},
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
    {40, 100, 9, 15, 4, 7, Border::constant, 2.5, 0, 0, false, 9, 2, 3},
    {40, 36, 31, 31, 15, 15, Border::circular, 0, 0, 0, false, 0, 0, 3},
    {40, 8, 31, 31, 15, 15, Border::reflect, 0, 0, 0, false, 0, 15, 3},
    {60, 88, 18, 40, 0, 0, Border::constant, 0, 17, 39, false, 0, 0, 3},
    {40, 36, 9, 15, 4, 7, Border::zero_output, 0, 0, 0, false, 5, 0, 3},
    {34, 33, 3, 3, 1, 1, Border::symmetric, 0, 0, 0, false, 0, 0, 4},
    {70, 65, 15, 15, 7, 7, Border::replicate, 0, 0, 0, false, 0, 0, 4},
};

// Boxes of more than 256 columns, and a ring that leaves no room for a second block.
const Case kLarge[] = {
    {140, 136, 130, 9, 64, 4, Border::reflect},
    {40, 200, 5, 150, 2, 75, Border::circular},
    {40, 133, 5, 150, 2, 75},
};

template <bool kBulk>
std::string launch_ring(const Separable& p, const PassTaps& taps, Plan& plan) {
  if (const char* const no = kBulk ? ring_refusal(p, kMachine) : ring_unaligned_refusal(p, kMachine)) return no;
  configure_ring(p, kBulk, kMachine, plan);
  const RingPolicy& shape = own_config<RingPolicy>(plan);
  const auto kernel = kKernels.find(plan.kernels[0].name);
  if (kernel == kKernels.end()) return "no kernel " + plan.kernels[0].name;
  const Image rows = as_rows(p).in;
  on_host::launch(kernel->second, {unsigned(plan.blocks), 1, 1}, plan.threads, ring_params(p, plan, shape, taps),
                  tma::map_of(rows, shape.pitch(), kRingPiece));
  return "";
}

bool bulk(const Case& k, bool on_host) { return check<float>(k, on_host, 0, launch_ring<true>); }
// Rows start on 16 bytes, or so many elements behind.
template <int kShift>
bool loads(const Case& k, bool on_host) {
  return check<float>(k, on_host, kShift, launch_ring<false>);
}

}  // namespace

int main() {
  const auto each = [](const auto& check) {
    return [check](const Case& k) { return with_taps(k, [&](bool on_host) { return check(k, on_host); }); };
  };
  return status_of(kCases, each(bulk)) | status_of(kCases, each(loads<0>)) | status_of(kCases, each(loads<3>)) |
         status_of(kLarge, each(loads<1>));
}
