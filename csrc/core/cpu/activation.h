// Activations of registers of sums. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
// The last elements of a row take the same formula, so that a number has the same bits at every position.

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
  // 2^n in two factors, because n exceeds the range of one exponent.
  const Words power = __builtin_convertvector(n, Words), first = power >> 1, second = power - first;
  return sum * (Vec<float>)((first + 127) << 23) * (Vec<float>)((second + 127) << 23);
}

// x Phi(x), where 2 Phi(x) = 1 + erf(x / sqrt(2)) is within 2^-22 of the exact number. Both signs use
// tail = 2 Phi(-|x|) = 2^(|x| Q(|x|)). The tail is below 2^-26 beyond 5.7, and 0 here. Q on (0, 5.7] and the polynomial
// of 2^r, |r| <= 1/2, are minimax fits.
TC_HD Vec<float> gelu(Vec<float> x) {
  typedef int32_t Words __attribute__((vector_size(TC_VEC_BYTES)));
  const Vec<float> size = x < 0.f ? -x : x, round = splat(12582912.f);  // 1.5 * 2^23
  Vec<float> power = splat(-2.83491272e-06f);
  for (float term : {3.93776905e-05f, -0.000186180239f, -0.000136936373f, 0.00706342013f, -0.0524961783f, -0.459208197f,
                     -1.15110521f})
    power = fma(power, size, splat(term));
  power *= size;
  const Vec<float> n = (power + round) - round, r = power - n;
  Vec<float> tail = splat(0.00132647273f);
  for (float term : {0.00967151279f, 0.0555073374f, 0.240222421f, 0.693146978f, 1.f}) tail = fma(tail, r, splat(term));
  tail = (Vec<float>)((Words)tail + (__builtin_convertvector(n, Words) << 23));  // n > -30: tail stays normal
  tail = size > 5.7f ? splat(0.f) : tail;
  return 0.5f * x * (x < 0.f ? tail : 2.f - tail);
}

// activated() of core/activation.h, in the same order of operations, with the exp and gelu above for float.
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
      else return gelu(v);
    } else {
      for (int lane = 0; lane < kLanes<A>; ++lane) v[lane] = activated<kind>(A(v[lane]));
      return v;
    }
  }
}

// Activates a row in place.
template <typename A>
void activate_row(Activation kind, A* row, int64_t n) {
  if (kind == Activation::none) return;
  with_activation(kind, [&](auto of) {
    constexpr Activation kKind = decltype(of)::value;
    int64_t x = 0;
    for (; x + kLanes<A> <= n; x += kLanes<A>) store(row + x, activated_lanes<kKind, A>(load(row + x)));
    if (x == n) return;
    A tail[kLanes<A>] = {};
    std::copy(row + x, row + n, tail);
    store(tail, activated_lanes<kKind, A>(load(tail)));
    std::copy_n(tail, n - x, row + x);
  });
}
