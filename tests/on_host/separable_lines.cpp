// separable2d's LINE_BUFFER as its plan launches it, on the host: the bits of the row chain and the column chain, and
// nothing written beside the output.
#include "separable_chain.h"
#include "kernels/separable2d/line_buffer/kernel.cuh"
#include "kernels/separable2d/line_buffer/plan.h"

namespace {

using namespace on_host;

using Kernel = void (*)(LineParams);
#define KERNEL(T, stride) \
  { "separable2d::separable_line_buffer<" #T ", " #stride ">", separable_line_buffer<T, stride> }
#define KERNELS(T) KERNEL(T, 0), KERNEL(T, 1), KERNEL(T, 2)
const std::map<std::string, Kernel> kKernels = {KERNELS(float), KERNELS(half_t), KERNELS(uint8_t)};

// As large as a GPU's, and as small.
constexpr Arch kMachines[] = {kMachine, {.major = 8, .minor = 9, .multiprocessors = 2, .shared_bytes = 101376}};

const Case kCases[] = {
    {70, 517, 5, 5, 2, 2, Border::reflect},
    {135, 131, 9, 4, 4, 1, Border::replicate},
    {37, 300, 31, 17, 15, 8, Border::symmetric},
    {40, 264, 70, 100, 35, 50, Border::circular},          // three boxes before the first outputs, late columns
    {70, 200, 33, 33, 16, 16, Border::constant, 2.5},
    {140, 300, 127, 127, 63, 63, Border::reflect},  // narrower on the small machine
    {35, 331, 5, 6, 2, 3, Border::zero_output},
    {66, 140, 7, 9, 3, 4, Border::skip},
    {5, 9, 9, 9, 4, 4, Border::skip},
    {66, 140, 7, 9, 3, 4, Border::skip, 0, 0, 0, false, 0, 0, 0, 1, 1, 1, 1, true},
    {40, 30, 5, 5, 2, 2, Border::skip, 0, 20, 15, false, 0, 0, 3, 2, 2, 1, 1, true},
    {20, 9, 5, 5, 2, 2, Border::reflect, 0, 0, 0, true},
    {40, 140, 3, 5, 1, 2, Border::circular, 0, 0, 0, true},
    {1, 33, 1, 1, 0, 0, Border::reflect},
    {40, 60, 5, 9, 2, 4, Border::reflect},         // two planes in a tile row
    {35, 28, 7, 7, 3, 3, Border::constant, 1.5},  // four
    {35, 14, 3, 3, 1, 1, Border::skip},
    {70, 40, 5, 5, 2, 2, Border::zero_output, 0, 35, 20, false, 0, 0, 0, 2, 2},
    {33, 1, 7, 1, 3, 0, Border::reflect},
    {90, 120, 9, 9, 0, 0, Border::constant, 0, 8, 8},
    {35, 143, 7, 7, 3, 3, Border::replicate, 0, 0, 0, false, 0, 0, 4},
    {70, 96, 3, 5, 1, 2, Border::reflect, 0, 0, 0, false, 0, 0, 3},
    {33, 32, 5, 5, 2, 2, Border::circular, 0, 0, 0, false, 0, 0, 2},
    {20, 9, 15, 15, 7, 7, Border::skip, 0, 0, 0, false, 0, 0, 3},
    {40, 37, 5, 5, 2, 2, Border::constant, 2, 0, 0, false, 0, 0, 7},
    {34, 35, 5, 5, 2, 2, Border::reflect, 0, 0, 0, false, 0, 0, 11},  // two blocks of channels
    {70, 300, 5, 5, 2, 2, Border::reflect, 0, 35, 150, false, 0, 0, 0, 2, 2},
    {99, 200, 9, 7, 4, 3, Border::replicate, 0, 66, 134, false, 0, 0, 3, 3, 3},
    {99, 300, 3, 2, 1, 0, Border::skip, 0, 74, 225, false, 0, 0, 0, 4, 4},  // rows that no window covers
    {70, 200, 5, 3, 4, 2, Border::circular, 0, 0, 0, false, 0, 0, 0, 1, 1, 2, 2},
    {70, 200, 5, 3, 4, 2, Border::reflect, 0, 35, 100, false, 0, 0, 0, 2, 2, 2, 2},  // equal, and not 1
    {70, 97, 5, 3, 3, 2, Border::skip, 0, 35, 64, false, 0, 0, 3, 2, 3, 3, 1},
    {40, 90, 4, 4, 2, 2, Border::zero_output, 0, 20, 45, false, 0, 0, 0, 2, 2, 1, 1},
};

template <typename T>
bool each_way(const Case& k, bool on_host, const Arch& machine) {
  const auto launch_lines = [&](const Separable& p, const PassTaps& taps, Plan& plan) -> std::string {
    if (const char* const no = line_buffer_refusal(p, machine)) return no;
    configure_line_buffer(p, machine, plan);
    const auto kernel = kKernels.find(plan.kernels[0].name);
    if (kernel == kKernels.end()) return "no kernel " + plan.kernels[0].name;
    if (plan.shared_bytes > int(sizeof(shared))) return "shared memory";
    const auto forget = [] { memset(shared, 0xff, sizeof(shared)); };  // what other blocks left
    on_host::launch_prepared(forget, kernel->second, {unsigned(plan.blocks), 1, 1}, {unsigned(plan.threads), 1, 1},
                             line_params(p, own_config<LineTile>(plan), taps));
    return "";
  };
  return check<T>(k, on_host, 0, launch_lines) & check<T>(k, on_host, 1, launch_lines);
}

}  // namespace

int main() {
  return status_of(kCases, [](const Case& k) {
    return with_taps(k, [&](bool on_host) {
      bool right = true;
      for (const Arch& machine : kMachines) {
        right &= each_way<float>(k, on_host, machine);
        right &= each_way<half_t>(k, on_host, machine);
        right &= each_way<uint8_t>(k, on_host, machine);
      }
      return right;
    });
  });
}
