// Operations on one register of A. Text of each_isa.h: compiled once per instruction set.

template <typename A>
struct VecOf {
  typedef A type __attribute__((vector_size(TC_VEC_BYTES)));
};
template <typename A>
using Vec = typename VecOf<A>::type;

template <typename A>
constexpr int kLanes = TC_VEC_BYTES / sizeof(A);

template <typename A>
TC_HD Vec<A> load(const A* p) {
  Vec<A> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Elements of an image, A's or bytes. (g++ 12 converts the bytes of a vector one by one.)
template <typename A, typename E>
TC_HD Vec<A> load_as(const E* p) {
  if constexpr (std::is_same_v<A, E>) {
    return load(p);
  } else {
    static_assert(std::is_same_v<A, float> && std::is_same_v<E, uint8_t>);
#if TC_X86_FMA && TC_VEC_BYTES == 64
    return (Vec<A>)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif TC_X86_FMA
    return (Vec<A>)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
    Vec<A> v;
    for (int lane = 0; lane < kLanes<A>; ++lane) v[lane] = p[lane];
    return v;
#endif
  }
}

template <typename A>
TC_HD void store(A* p, const Vec<A>& v) {
  __builtin_memcpy(p, &v, sizeof v);
}

template <typename A>
TC_HD Vec<A> splat(A a) {
  return a - Vec<A>{};  // a - 0 keeps the sign of a zero, a + 0 would not
}

// a * b + c with one rounding where the hardware has FMA instructions, else with two: the exact library call takes a
// hundred times as long.
#if TC_X86_FMA && TC_VEC_BYTES == 64
TC_HD Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) { return (Vec<float>)_mm512_fmadd_ps(a, b, c); }
TC_HD Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) { return (Vec<double>)_mm512_fmadd_pd(a, b, c); }
#elif TC_X86_FMA
TC_HD Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) { return (Vec<float>)_mm256_fmadd_ps(a, b, c); }
TC_HD Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) { return (Vec<double>)_mm256_fmadd_pd(a, b, c); }
#else
template <typename V>
TC_HD V fma(V a, V b, V c) {
#ifdef __FP_FAST_FMA
  for (size_t lane = 0; lane < sizeof(V) / sizeof(a[0]); ++lane)
    c[lane] = sizeof(a[0]) == 8 ? __builtin_fma(a[lane], b[lane], c[lane]) : __builtin_fmaf(a[lane], b[lane], c[lane]);
  return c;
#else
  return a * b + c;
#endif
}
#endif
