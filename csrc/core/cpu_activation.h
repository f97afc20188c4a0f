// Activations of registers of sums. Text of core/cpu_each_isa.h: compiled once per instruction set.
//
// A number has the same bits in every lane and in every row, because no other formula takes what is left of a row.

// e^x, within 2 units in the last place: 2^n times the series of e^r to the seventh power, |r| <= ln(2) / 2.
TC_HD Vec<float> exponential(Vec<float> x) {
  typedef int32_t Words __attribute__((vector_size(TC_VEC_BYTES)));
  const Vec<float> least = splat(-150.f), most = splat(130.f), round = splat(12582912.f);  // 1.5 * 2^23
  x = x < least ? least : x;
  x = x > most ? most : x;
  const Vec<float> n = (x * 1.44269504f + round) - round;
  Vec<float> r = fma(n, splat(-0.693359375f), x);  // ln(2) in two parts, the first exact times n
  r = fma(n, splat(2.12194440e-4f), r);
  Vec<float> sum = splat(1.f / 5040);
  for (float term : {1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, 0.5f, 1.f, 1.f}) sum = fma(sum, r, splat(term));
  // 2^n in two factors: n goes beyond what one exponent holds.
  const Words power = __builtin_convertvector(n, Words), first = power >> 1, second = power - first;
  return sum * (Vec<float>)((first + 127) << 23) * (Vec<float>)((second + 127) << 23);
}

// The error function, within 2 units in the last place. Up to 0.95 x + x P(x^2), beyond 1 - exp(-x Q(x)); P and Q are
// least-maximum fits of erf(x) / x - 1 on [0, 0.95^2] and of -log(1 - erf(x)) / x on [0.9, 4].
TC_HD Vec<float> error_function(Vec<float> x) {
  const Vec<float> size = x < 0.f ? -x : x, square = x * x;
  Vec<float> near = splat(8.215422712964937e-05f);
  for (float term : {-0.0008105964516289532f, 0.00519779697060585f, -0.026858104392886162f, 0.11283672600984573f,
                     -0.37612631916999817f, 0.12837916612625122f})
    near = fma(near, square, splat(term));
  near = fma(near, x, x);
  const Vec<float> t = size > 4.f ? splat(4.f) : size;
  Vec<float> far = splat(1.043291649693856e-05f);
  for (float term : {-0.00031485623912885785f, 0.003610334824770689f, -0.02369455248117447f, 0.1061590313911438f,
                     0.6351980566978455f, 1.1286370754241943f})
    far = fma(far, t, splat(term));
  far = 1.f - exponential(-(far * t));
  far = x < 0.f ? -far : far;
  return size > 0.95f ? far : near;
}

// core/activation.h, in the same order of operations; float's exp and erf are those above.
template <Activation kind, typename A>
TC_HD Vec<A> activated_lanes(Vec<A> v) {
  const Vec<A> zero = {}, six = splat(A(6));
  if constexpr (kind == Activation::none) return v;
  if constexpr (kind == Activation::relu) return v < zero ? zero : v;
  if constexpr (kind == Activation::relu6) return v < zero ? zero : (v > six ? six : v);
  if constexpr (kind == Activation::hardswish) {
    const Vec<A> gate = v + A(3);
    return v * (gate < zero ? zero : (gate > six ? six : gate)) / six;
  }
  if constexpr (kind == Activation::gelu || kind == Activation::silu) {
    if constexpr (std::is_same_v<A, float>) {
      if constexpr (kind == Activation::silu) return v / (1.f + exponential(-v));
      else return 0.5f * v * (1.f + error_function(v * 0.70710678118654752440f));
    } else {
      for (int lane = 0; lane < kLanes<A>; ++lane) v[lane] = activated<kind>(A(v[lane]));
      return v;
    }
  }
}

// In place.
template <typename A>
void activate_row(Activation kind, A* row, int64_t n) {
  if (kind == Activation::none) return;
  with_activation(kind, [&](auto of) {
    constexpr Activation kKind = decltype(of)::value;
    int64_t x = 0;
    for (; x + kLanes<A> <= n; x += kLanes<A>) store(row + x, activated_lanes<kKind, A>(load(row + x)));
    A rest[kLanes<A>] = {};
    std::copy(row + x, row + n, rest);
    store(rest, activated_lanes<kKind, A>(load(rest)));
    std::copy_n(rest, n - x, row + x);
  });
}
