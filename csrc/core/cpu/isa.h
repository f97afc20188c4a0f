// Instruction-set levels of the CPU kernels, chosen once at run time.
#pragma once

// Clang has another name for the pragma of each_isa.h, and compiles the baseline level only.
#if defined(__x86_64__) && !defined(__clang__)
#define TC_X86_LEVELS 1
#include <immintrin.h>
#else
#define TC_X86_LEVELS 0
#endif

namespace torch_conv {

enum class Isa { baseline, v3, v4 };

// The highest x86-64 level this processor and system offer (v3: AVX2 + FMA, v4: AVX-512).
inline Isa best_isa() {
#if TC_X86_LEVELS
  static const Isa best = __builtin_cpu_supports("x86-64-v4")   ? Isa::v4
                          : __builtin_cpu_supports("x86-64-v3") ? Isa::v3
                                                                : Isa::baseline;
  return best;
#else
  return Isa::baseline;
#endif
}

// Whether the processor has v4 and AVX512-BF16: two products of bfloat16 and their sum in one instruction.
inline bool has_bf16_pairs() {
#if TC_X86_LEVELS
  static const bool has = best_isa() == Isa::v4 && __builtin_cpu_supports("avx512bf16");
  return has;
#else
  return false;
#endif
}

}  // namespace torch_conv

// The best level's function of a body that each_isa.h compiled.
#if TC_X86_LEVELS
#define TC_BEST_ISA(...)                                     \
  (best_isa() == Isa::v4   ? torch_conv::cpu_v4::__VA_ARGS__ \
   : best_isa() == Isa::v3 ? torch_conv::cpu_v3::__VA_ARGS__ \
                           : torch_conv::cpu_baseline::__VA_ARGS__)
#else
#define TC_BEST_ISA(...) torch_conv::cpu_baseline::__VA_ARGS__
#endif
