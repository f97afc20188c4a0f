// Compiles TC_CPU_BODY once per instruction-set level, each in its own namespace. Include this file after all others:
// g++ would compile functions of a header between the pragmas for AVX-512, and the linker could choose these for all.
// The macros of a level are defined here because g++ 12 does not update __FMA__ and the like inside a target pragma.
//
// No #pragma once, no namespaces and no includes in the bodies: they are text in the middle of this file.
#include <limits>

#include "core/cpu/isa.h"
#include "core/cpu/strips.h"
#include "core/problem.h"

// clang-format off

#define TC_VEC_BYTES 16
#define TC_X86_FMA 0
namespace torch_conv::cpu_baseline {
#include "core/cpu/isa_body.h"
}  // namespace torch_conv::cpu_baseline
#undef TC_VEC_BYTES
#undef TC_X86_FMA

#if TC_X86_LEVELS
#define TC_X86_FMA 1

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define TC_VEC_BYTES 32
namespace torch_conv::cpu_v3 {
#include "core/cpu/isa_body.h"
}  // namespace torch_conv::cpu_v3
#undef TC_VEC_BYTES
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#define TC_VEC_BYTES 64
namespace torch_conv::cpu_v4 {
#include "core/cpu/isa_body.h"
}  // namespace torch_conv::cpu_v4
#undef TC_VEC_BYTES
#pragma GCC pop_options

#undef TC_X86_FMA
#endif
// clang-format on
