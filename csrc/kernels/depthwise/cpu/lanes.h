// Masked registers, half registers, conversions and activations. Text of core/cpu/each_isa.h: compiled once per
// instruction set.

typedef int32_t Words __attribute__((vector_size(TC_VEC_BYTES)));  // a register of float's bits

// Calls f.operator()<i>() for i = 0 ... N - 1, unrolled by the compiler: registers in arrays stay registers.
template <int N, typename F>
TC_HD void unrolled(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) { (f.template operator()<i>(), ...); }
  (std::make_integer_sequence<int, N>{});
}

// Calls f(T{}) for the floating-point type of `dtype`, whose accumulation type is A.
template <typename A, typename F>
auto with_pixels(Dtype dtype, const F& f) -> decltype(f(A{})) {
  return with_type(dtype, [&](auto t) -> decltype(f(A{})) {
    using T = decltype(t);
    if constexpr (std::is_same_v<A, acc_t<T>> && !std::is_integral_v<T>) return f(t);
    else __builtin_unreachable();
  });
}

// The elements of two registers that a shuffle selects.
template <typename I, int count>
struct Selection {
  alignas(64) I at[count];
  template <typename F>
  static constexpr Selection of(F f) {
    Selection s{};
    for (int i = 0; i < count; ++i) s.at[i] = I(f(i));
    return s;
  }
  TC_HD Words words() const {
    Words w;
    __builtin_memcpy(&w, at, sizeof w);
    return w;
  }
};
using Lanes = Selection<int32_t, kLanes<float>>;
constexpr Lanes kEven = Lanes::of([](int lane) { return 2 * lane; });
constexpr Lanes kOdd = Lanes::of([](int lane) { return 2 * lane + 1; });

#if TC_X86_FMA && TC_VEC_BYTES == 64
TC_HD __mmask32 first_lanes(int64_t n) { return n >= 32 ? 0xffffffff : n <= 0 ? 0 : (1u << n) - 1; }

// 16 numbers of bfloat16 and the upper halves of a register's words, in one shuffle each.
using Halfwords = Selection<int16_t, 32>;
constexpr Halfwords kSpread = Halfwords::of([](int word) { return word / 2; });
constexpr Halfwords kUpper = Halfwords::of([](int word) { return word * 2 % 32 + 1; });

TC_HD Vec<float> from_bfloat(__m256i bits) {
  const __m512i spread = _mm512_load_si512(kSpread.at);
  return (Vec<float>)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, spread, _mm512_castsi256_si512(bits));
}

// Rounds as from_acc. NaN needs no case: the lower half of a NaN that arithmetic on bfloat16 makes is 0.
TC_HD __m256i to_bfloat(Vec<float> v) {
  const __m512i bits = (__m512i)v, one = _mm512_set1_epi32(1);
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __m512i up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_mask_add_epi32(up, odd, up, one);
  return _mm512_castsi512_si256(_mm512_permutexvar_epi16(_mm512_load_si512(kUpper.at), rounded));
}
#endif

// Half a register, for the ends of rows. If the processor splits a register into two passes, half a register costs one.
typedef float Half __attribute__((vector_size(TC_VEC_BYTES / 2)));
constexpr int kHalfLanes = TC_VEC_BYTES / 2 / sizeof(float);

TC_HD Half fma_half(Half a, Half b, Half c) {
#if TC_X86_FMA && TC_VEC_BYTES == 64
  return (Half)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif TC_X86_FMA
  return (Half)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
#else
  for (int lane = 0; lane < kHalfLanes; ++lane) {
#ifdef __FP_FAST_FMA
    c[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
#else
    c[lane] = a[lane] * b[lane] + c[lane];
#endif
  }
  return c;
#endif
}

TC_HD Half load_half(const float* p) {
  Half v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Loads the first n elements (all, if n is more than kLanes), converted, and zeros.
template <typename A, typename T>
TC_HD Vec<A> load_some(const T* p, int64_t n) {
#if TC_X86_FMA && TC_VEC_BYTES == 64
  if constexpr (std::is_same_v<A, float> && sizeof(T) <= 4) {
    const __mmask16 some = n >= 16 ? 0xffff : (1 << n) - 1;
    if constexpr (std::is_same_v<T, float>) return (Vec<A>)_mm512_maskz_loadu_ps(some, p);
    const __m256i bits = _mm256_maskz_loadu_epi16(some, p);
    if constexpr (std::is_same_v<T, half_t>) return (Vec<A>)_mm512_cvtph_ps(bits);
    else return from_bfloat(bits);
  }
#elif TC_X86_FMA
  if constexpr (std::is_same_v<A, float> && sizeof(T) == 2)
    if (n >= 8) {
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      if constexpr (std::is_same_v<T, half_t>) return (Vec<A>)_mm256_cvtph_ps(bits);
      else return (Vec<A>)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    }
#endif
  if constexpr (std::is_same_v<T, A>)
    if (n >= kLanes<A>) return load(p);
  Vec<A> v = {};
  for (int64_t i = 0; i < n && i < kLanes<A>; ++i) v[i] = to_acc<A>(p[i]);
  return v;
}

// Rounds and stores the first n elements (all, if n is more than kLanes).
template <typename A, typename T>
TC_HD void store_some(T* p, Vec<A> v, int64_t n) {
#if TC_X86_FMA
  if constexpr (std::is_same_v<A, float> && sizeof(T) == 2) {
#if TC_VEC_BYTES == 64
    __m256i to;
    if constexpr (std::is_same_v<T, half_t>) to = _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
    else to = to_bfloat(v);
    if (n >= 16) _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to);
    else _mm256_mask_storeu_epi16(p, (1 << n) - 1, to);
    return;
#else
    if (n >= kLanes<A>) {
      __m128i to;
      if constexpr (std::is_same_v<T, half_t>) {
        to = _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
      } else {  // as to_bfloat does
        const Words bits = (Words)v + 0x7fff + (((Words)v >> 16) & 1);
        const __m256i words = _mm256_srli_epi32((__m256i)bits, 16);
        to = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to);
      return;
    }
#endif
  }
#if TC_VEC_BYTES == 64
  if constexpr (std::is_same_v<A, float> && std::is_same_v<T, float>) {
    if (n >= 16) return store(p, v);
    return _mm512_mask_storeu_ps(p, (1 << n) - 1, (__m512)v);
  }
#endif
#endif
  if constexpr (std::is_same_v<T, A>)
    if (n >= kLanes<A>) return store(p, v);
  for (int64_t i = 0; i < n && i < kLanes<A>; ++i) p[i] = from_acc<T>(A(v[i]));
}

// Activates and rounds n sums of a row.
template <typename A, typename T, Activation kind>
void finish_row(const A* sums, int64_t n, T* to) {
  for (int64_t x = 0; x < n; x += kLanes<A>) store_some<A>(to + x, activated_lanes<kind, A>(load(sums + x)), n - x);
}

template <typename A>
using FinishRow = void (*)(const A* sums, int64_t n, void* to);

template <typename A>
FinishRow<A> row_finisher(Dtype dtype, Activation kind) {
  return with_pixels<A>(dtype, [&](auto t) {
    using T = decltype(t);
    return with_activation(kind, [](auto k) -> FinishRow<A> {
      return [](const A* sums, int64_t n, void* to) {
        finish_row<A, T, decltype(k)::value>(sums, n, static_cast<T*>(to));
      };
    });
  });
}

// Converts contiguous rows of n pixels. Each row in `to` ends with zeros up to a whole register.
template <typename A>
using FetchRows = void (*)(const void* from, int64_t stride, int64_t rows, int64_t n, A* to, int64_t pitch);

template <typename A>
FetchRows<A> row_fetcher(Dtype dtype) {
  return with_pixels<A>(dtype, [](auto t) -> FetchRows<A> {
    using T = decltype(t);
    return [](const void* from, int64_t stride, int64_t rows, int64_t n, A* to, int64_t pitch) {
      const T* row = static_cast<const T*>(from);
      for (int64_t y = 0; y < rows; ++y, row += stride, to += pitch)
        for (int64_t x = 0; x < n; x += kLanes<A>) store(to + x, load_some<A>(row + x, n - x));
    };
  });
}

#if TC_X86_FMA && TC_VEC_BYTES == 64
// Loads the even and the odd ones of the first n of 32 elements (all, if n is more), converted, and zeros.
template <typename T>
TC_HD void load_pairs(const T* p, int64_t n, Vec<float>& even, Vec<float>& odd) {
  if constexpr (std::is_same_v<T, bhalf_t>) {  // the upper halves of words
    const __m512i words = _mm512_maskz_loadu_epi16(first_lanes(n), p);
    even = (Vec<float>)_mm512_slli_epi32(words, 16);
    odd = (Vec<float>)_mm512_and_si512(words, _mm512_set1_epi32(int(0xffff0000)));
  } else {
    const Vec<float> a = load_some<float>(p, n), b = n > 16 ? load_some<float>(p + 16, n - 16) : Vec<float>{};
    even = __builtin_shuffle(a, b, kEven.words()), odd = __builtin_shuffle(a, b, kOdd.words());
  }
}
#endif

// Converts rows after `lead` zeros, and splits each into two segments: elements 0, 2, ... and 1, 3, ...
// Null without masks: a load that overlaps two recent stores is slow.
template <typename A>
using HalveRows = void (*)(const void* from, int64_t stride, int64_t rows, int64_t n, int64_t lead, A* to,
                           int64_t pitch, int64_t segment);

template <typename A>
HalveRows<A> row_halver(Dtype dtype) {
#if TC_X86_FMA && TC_VEC_BYTES == 64
  if constexpr (std::is_same_v<A, float>)
    return with_pixels<A>(dtype, [](auto t) -> HalveRows<A> {
      using T = decltype(t);
      return [](const void* from, int64_t stride, int64_t rows, int64_t n, int64_t lead, A* to, int64_t pitch,
                int64_t segment) {
        const T* row = static_cast<const T*>(from);
        A* first = to + lead % 2 * segment + lead / 2;  // the targets of pixels 0 and 1
        A* second = to + (lead + 1) % 2 * segment + (lead + 1) / 2;
        for (int64_t y = 0; y < rows; ++y, row += stride, first += pitch, second += pitch)
          for (int64_t x = 0; x < n; x += 32) {
            Vec<A> even, odd;
            load_pairs(row + x, n - x, even, odd);
            store(first + x / 2, even), store(second + x / 2, odd);
          }
      };
    });
#endif
  return nullptr;
}

// Memory for a thread's rows, aligned to 64 bytes, not cleared.
template <typename A>
class Buffer {
 public:
  A* take(int64_t elements) {
    if (elements > size_) memory_.reset(new (std::align_val_t(64)) A[elements]), size_ = elements;
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(A* p) const { ::operator delete[](p, std::align_val_t(64)); }
  };
  std::unique_ptr<A[], Free> memory_;
  int64_t size_ = 0;
};

// True if all n taps are finite. Zeros follow the taps up to a whole register.
template <typename A>
bool all_finite(const A* taps, int64_t n) {
  Vec<A> sum = {};
  for (int64_t i = 0; i < n; i += kLanes<A>) sum = sum + load(taps + i) * A(0);
  bool all = true;
  for (int lane = 0; lane < kLanes<A>; ++lane) all &= sum[lane] == 0;
  return all;
}
