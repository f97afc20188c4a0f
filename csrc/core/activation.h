// The activations of a convolution, on the CPU and on CUDA, in the accumulation type.
#pragma once

#include "core/problem.h"

namespace torch_conv {

// The activations of torch.nn.functional; gelu by the error function. NaN stays NaN.
template <Activation kind, typename A>
TC_HD A activated(A v) {
  if constexpr (kind == Activation::relu) return v < A(0) ? A(0) : v;
  if constexpr (kind == Activation::relu6) return v < A(0) ? A(0) : v > A(6) ? A(6) : v;
  if constexpr (kind == Activation::gelu) return A(0.5) * v * (A(1) + std::erf(v * A(0.70710678118654752440)));
  if constexpr (kind == Activation::silu) return v / (A(1) + std::exp(-v));
  if constexpr (kind == Activation::hardswish) {
    const A gate = v + A(3);
    return v * (gate < A(0) ? A(0) : gate > A(6) ? A(6) : gate) / A(6);
  }
  return v;
}

// f(std::integral_constant<Activation, kind>) for a kind known only at run time.
template <typename F>
TC_HD auto with_activation(Activation kind, const F& f) {
  switch (kind) {
    case Activation::relu: return f(std::integral_constant<Activation, Activation::relu>{});
    case Activation::relu6: return f(std::integral_constant<Activation, Activation::relu6>{});
    case Activation::gelu: return f(std::integral_constant<Activation, Activation::gelu>{});
    case Activation::silu: return f(std::integral_constant<Activation, Activation::silu>{});
    case Activation::hardswish: return f(std::integral_constant<Activation, Activation::hardswish>{});
    case Activation::none: break;
  }
  return f(std::integral_constant<Activation, Activation::none>{});
}

// The spelling of a kernel's template argument.
inline const char* argument_of(Activation kind) {
  constexpr const char* kNames[] = {"Activation::none", "Activation::relu", "Activation::relu6",
                                    "Activation::gelu", "Activation::silu", "Activation::hardswish"};
  return kNames[int(kind)];
}

}  // namespace torch_conv
