// The seven element types, their accumulation types, and the one rounding rule.
// Compiled by g++ (the host) and NVRTC (kernels) alike; no CUDA header is needed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __CUDACC__
#define TC_HD __host__ __device__ __forceinline__
#else
#define TC_HD inline __attribute__((always_inline))
#endif

namespace torch_conv {

enum class Dtype : int8_t { f32, f16, bf16, f64, u8, i16, u16 };
constexpr int kDtypes = 7;

inline int size_of(Dtype d) {
  constexpr int kSizes[kDtypes] = {4, 2, 2, 8, 1, 2, 2};
  return kSizes[int(d)];
}

// Bytes of the accumulation type, which taps have, too.
constexpr int acc_bytes(Dtype d) { return d == Dtype::f64 ? 8 : 4; }

constexpr bool is_half(Dtype d) { return d == Dtype::f16 || d == Dtype::bf16; }
constexpr bool is_integer(Dtype d) { return d == Dtype::u8 || d == Dtype::i16 || d == Dtype::u16; }

inline const char* name_of(Dtype d) {
  constexpr const char* kNames[kDtypes] = {"float32", "float16", "bfloat16", "float64", "uint8", "int16", "uint16"};
  return kNames[int(d)];
}

// The spelling of a kernel's template argument.
inline const char* type_name(Dtype d) {
  constexpr const char* kTypes[kDtypes] = {"float", "half_t", "bhalf_t", "double", "uint8_t", "int16_t", "uint16_t"};
  return kTypes[int(d)];
}

// A 16-bit type without arithmetic (bfloat16 in g++ 12, both in kernels) is storage; the functions below convert it.
#ifdef __CUDACC__
struct half_t {
  uint16_t bits;
};
#else
using half_t = _Float16;
#endif
struct bhalf_t {
  uint16_t bits;
};

// Sums are float32, or float64 for float64 images.
template <typename T>
using acc_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename A, typename T>
TC_HD A to_acc(T v) {
  if constexpr (std::is_same_v<T, bhalf_t>) {
    const uint32_t bits = uint32_t(v.bits) << 16;
    float f;
    memcpy(&f, &bits, 4);
    return A(f);
  } else if constexpr (std::is_same_v<T, half_t>) {
#ifdef __CUDACC__
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
    return A(f);
#else
    return A(v);
#endif
  } else {
    return A(v);
  }
}

#ifdef __CUDACC__
// One instruction for the whole rule: nearest even, saturating, NaN to 0 (which float64's does not keep for int16).
template <typename T, typename A>
__device__ __forceinline__ T saturate(A v) {
  static_assert(sizeof(A) == 4 || sizeof(A) == 8);
  int r;
  if constexpr (sizeof(A) == 4) {
    if constexpr (std::is_same_v<T, uint8_t>)
      asm("{.reg .u8 t; cvt.rni.sat.u8.f32 t, %1; cvt.u32.u8 %0, t;}" : "=r"(r) : "f"(v));
    else if constexpr (std::is_same_v<T, int16_t>)
      asm("{.reg .s16 t; cvt.rni.sat.s16.f32 t, %1; cvt.s32.s16 %0, t;}" : "=r"(r) : "f"(v));
    else asm("{.reg .u16 t; cvt.rni.sat.u16.f32 t, %1; cvt.u32.u16 %0, t;}" : "=r"(r) : "f"(v));
  } else {
    if (v != v) return T(0);
    if constexpr (std::is_same_v<T, uint8_t>)
      asm("{.reg .u8 t; cvt.rni.sat.u8.f64 t, %1; cvt.u32.u8 %0, t;}" : "=r"(r) : "d"(v));
    else if constexpr (std::is_same_v<T, int16_t>)
      asm("{.reg .s16 t; cvt.rni.sat.s16.f64 t, %1; cvt.s32.s16 %0, t;}" : "=r"(r) : "d"(v));
    else asm("{.reg .u16 t; cvt.rni.sat.u16.f64 t, %1; cvt.u32.u16 %0, t;}" : "=r"(r) : "d"(v));
  }
  return T(r);
}
#endif

// Integers: round half to even, clamp, NaN becomes 0. Floats: the hardware's round to nearest even.
template <typename T, typename A>
TC_HD T from_acc(A v) {
  if constexpr (std::is_same_v<T, bhalf_t>) {
#ifdef __CUDACC__
    T rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(float(v)));
    return rounded;
#else
    float f = float(v);
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (f != f) return bhalf_t{uint16_t((bits >> 16) | 0x40)};
    bits += 0x7fff + ((bits >> 16) & 1);
    return bhalf_t{uint16_t(bits >> 16)};
#endif
  } else if constexpr (std::is_same_v<T, half_t>) {
#ifdef __CUDACC__
    T rounded;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(float(v)));
    return rounded;
#else
    return T(v);
#endif
  } else if constexpr (std::is_integral_v<T>) {
#ifdef __CUDA_ARCH__
    return saturate<T>(v);
#else
    constexpr A lo = std::is_same_v<T, int16_t> ? A(-32768) : A(0);
    constexpr A hi = std::is_same_v<T, uint8_t> ? A(255) : std::is_same_v<T, int16_t> ? A(32767) : A(65535);
    v = v == v ? v : A(0);
    v = v < lo ? lo : v;
    v = v > hi ? hi : v;
    return T(int(std::rint(v)));
#endif
  } else {
    return T(v);
  }
}

// Whether an element can hold `value` exactly. Kernels must not store other border values in elements.
inline bool holds(Dtype d, double value) {
  switch (d) {
    case Dtype::f64:
    case Dtype::f32: return true;  // its sums are float32 as well
    case Dtype::f16:
    case Dtype::bf16: return value == double(int(value)) && value >= -256 && value <= 256;  // both hold these integers
    case Dtype::u8: return value == double(int(value)) && value >= 0 && value <= 255;
    case Dtype::i16: return value == double(int(value)) && value >= -32768 && value <= 32767;
    case Dtype::u16: return value == double(int(value)) && value >= 0 && value <= 65535;
  }
  __builtin_unreachable();
}

// Calls f(T{}) with the element type of d.
template <typename F>
decltype(auto) with_type(Dtype d, F&& f) {
  switch (d) {
    case Dtype::f32: return f(float{});
    case Dtype::f16: return f(half_t{});
    case Dtype::bf16: return f(bhalf_t{});
    case Dtype::f64: return f(double{});
    case Dtype::u8: return f(uint8_t{});
    case Dtype::i16: return f(int16_t{});
    case Dtype::u16: return f(uint16_t{});
  }
  __builtin_unreachable();
}

}  // namespace torch_conv
