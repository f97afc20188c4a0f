// Compiles TC_CPU_BODY as core/cpu/each_isa.h does, for processors with AVX-512 and AVX512-BF16 alone (has_bf16_pairs).
// Include this after every other include.
#include "core/cpu/isa.h"
#include "core/cpu/strips.h"
#include "core/problem.h"

// clang-format off
#if TC_X86_LEVELS
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,avx512bf16,prefer-vector-width=512")
#define TC_X86_FMA 1
#define TC_X86_BF16 1
#define TC_VEC_BYTES 64
namespace torch_conv::cpu_v4_bf16 {
#include "core/cpu/isa_body.h"
}  // namespace torch_conv::cpu_v4_bf16
#undef TC_VEC_BYTES
#undef TC_X86_BF16
#undef TC_X86_FMA
#pragma GCC pop_options
#endif
// clang-format on
