// PAIRS: bfloat16, two numbers a lane; here two pixels, for two taps at a time. Text of core/cpu/bf16.h.
//
//     words of pixels          x0 x1 | x2 x3 | ...    (the upper half on the left)
//     of an even output's taps t0 t1 | t2  0
//     of an odd output's       0  t0 | t1 t2
//
// `vdpbf16ps` (Intel's Software Developer's Manual) adds two products to a float: first that of the words' upper
// halves, then that of the lower ones, each with one rounding. The earlier pixel is in the upper half. So the sum is
// the chain of multiply-adds of the other loops, and a zero among the taps adds nothing.
//
// Two things differ. The instruction takes subnormal numbers for zeros, in and out. A zero tap times a pixel that is
// not finite makes NaN. So a unit that sums words of pixels checks the exponents of its pixels first
// (`Exponents::plain`). If one of the two could happen, the other loops serve the unit. ChannelHalves of
// pair_channels.h sums floats and checks less. `pairs_go_on_with_chains` tests the order and the roundings on the
// processor itself.

// The least and the largest biased exponent of numbers that are not 0. Without numbers: a larger one than all, and 0.
struct Exponents {
  int least = 512, most = 0;

  // True if all numbers are finite and normal, and each product with the taps and each sum of products is 0 or at least
  // 2^-126. Each product is a multiple of 2^(e1 + e2 - 2 * (127 + 7)), with e1 and e2 the least exponents.
  bool plain(const Exponents& taps) const {
    const bool normal = least > 0 && taps.least > 0, finite = most < 255 && taps.most < 255;
    return normal && finite && least + taps.least >= 2 * (127 + 7) - 126;
  }
};

class ExponentScan {
 public:
  ExponentScan() : most_(_mm512_setzero_si512()), least_(_mm512_set1_epi16(-1)) {}

  TC_HD void add(const bhalf_t* p, int64_t n) {
    for (int64_t i = 0; i < n; i += 32) {
      const __m512i size =
          _mm512_and_si512(_mm512_maskz_loadu_epi16(first_lanes(n - i), p + i), _mm512_set1_epi16(0x7fff));
      most_ = _mm512_max_epu16(most_, size);
      least_ = _mm512_min_epu16(least_, _mm512_sub_epi16(size, _mm512_set1_epi16(1)));  // a zero becomes the largest
    }
  }

  Exponents exponents() const {
    const __m512i low = _mm512_set1_epi32(0xffff);
    const uint32_t most =
        _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_and_si512(most_, low), _mm512_srli_epi32(most_, 16)));
    const uint32_t least =
        _mm512_reduce_min_epu32(_mm512_min_epu32(_mm512_and_si512(least_, low), _mm512_srli_epi32(least_, 16)));
    return {.least = int(least + 1) >> 7, .most = int(most) >> 7};
  }

 private:
  __m512i most_, least_;
};

inline Exponents exponents_of(const bhalf_t* p, int64_t n) {
  ExponentScan scan;
  scan.add(p, n);
  return scan.exponents();
}

// True if a sum with this bias is 0 or at least 2^-126. The instruction that rounds the sum takes subnormal numbers for
// zeros.
inline bool plain_bias(bhalf_t bias) {
  const int size = bias.bits & 0x7fff;
  return size == 0 || size >> 7 >= 127 + 7 - 126;
}

// A row of K taps as words of pairs, for outputs whose window begins with a word, or one pixel later.
template <int K>
struct PairRow {
  static constexpr int kPairs = (K + 1) / 2;
  uint32_t even[kPairs], odd[kPairs];

  explicit PairRow(const bhalf_t* taps) {
    auto tap = [&](int j) { return uint32_t(j >= 0 && j < K ? taps[j].bits : 0); };
    for (int j = 0; j < kPairs; ++j) {
      even[j] = tap(2 * j) << 16 | tap(2 * j + 1);
      odd[j] = tap(2 * j - 1) << 16 | tap(2 * j);
    }
  }
};

TC_HD __m512 add_pairs(__m512 sums, __m512i pixels, __m512i taps) {
  return _mm512_dpbf16_ps(sums, (__m512bh)pixels, (__m512bh)taps);
}

// Tests the instruction: its order, a rounding after each product, and no rounding of the product itself.
bool pairs_go_on_with_chains() {
  const auto added = [](float sum, uint32_t pixels, uint32_t taps) {
    alignas(64) volatile uint32_t words[2] = {pixels, taps};
    return _mm512_cvtss_f32(
        add_pairs(_mm512_set1_ps(sum), _mm512_set1_epi32(int(words[0])), _mm512_set1_epi32(int(words[1]))));
  };
  constexpr uint32_t one = 0x3f803f80;
  const bool order = added(1, 0xbf803280, one) == 0x1p-26f;                 // 1 - 1 + 2^-26
  const bool roundings = added(1, 0x33803380, one) == 1;                    // 1 + 2^-24 + 2^-24
  const bool fused = added(-0x1p127f, 0x5f800000, 0x5f800000) == 0x1p127f;  // -2^127 + 2^64 * 2^64
  return order && roundings && fused;
}

constexpr Halfwords kEvenOddWords = Halfwords::of([](int i) { return i % 2 * 16 + i / 2; });
constexpr Lanes kEvenOdd = Lanes::of([](int i) { return i % 2 * 16 + i / 2; });
constexpr Lanes kEvenOddAfter = Lanes::of([](int i) { return i % 2 * 16 + i / 2 + 8; });

// Tiles of STRIPS (plane_strips.h). At S = 1 two registers hold the even and the odd outputs. At S = 2 they hold the
// first and the second half of the outputs, whose windows all begin with a word.
template <int K, int S>
class PairStrip {
 public:
  using T = bhalf_t;
  using Tap = uint32_t;
  static constexpr int kPairs = PairRow<K>::kPairs;
  static constexpr int kTaps = K, kStep = S, kTapCount = K * 2 * kPairs, kLoads = S * kPairs, kRegisters = kLoads;
  static constexpr int load_at(int j) { return j % kPairs * 2 + j / kPairs * 32; }

  // Writes the words of the window. Returns whether its bias is plain.
  bool take(const bhalf_t* taps, bhalf_t bias, uint32_t* to) {
    exponents_ = exponents_of(taps, K * K);
    for (int i = 0; i < K; ++i) {
      const PairRow<K> row(taps + i * K);
      std::copy_n(row.even, kPairs, to + i * 2 * kPairs);
      std::copy_n(row.odd, kPairs, to + (i * 2 + 1) * kPairs);
    }
    return plain_bias(bias);
  }
  // True if these pixels, in rows of `size`, `pitch` apart, are plain under the window.
  bool plain(const bhalf_t* from, int64_t rows, int64_t size, int64_t pitch) const {
    ExponentScan scan;
    if (pitch == size) scan.add(from, rows * size);
    else
      for (int64_t r = 0; r < rows; ++r) scan.add(from + r * pitch, size);
    return scan.exponents().plain(exponents_);
  }

  static TC_HD void load_row(const bhalf_t* row, const __mmask32* inside, __m512 (&in)[kRegisters]) {
    unrolled<kLoads>([&]<int j>() __attribute__((always_inline)) {
      in[j] = (__m512)_mm512_ror_epi32(_mm512_maskz_loadu_epi16(inside[j], row + load_at(j)), 16);
    });
  }

  template <int i>
  static TC_HD void add(const uint32_t* taps, const __m512 (&in)[kRegisters], __m512 (&sum)[2]) {
    unrolled<kPairs>([&]<int j>() __attribute__((always_inline)) {
      const uint32_t* const tap = taps + i * 2 * kPairs + j;
      constexpr int second = S == 1 ? j : kPairs + j;
      sum[0] = add_pairs(sum[0], (__m512i)in[j], _mm512_set1_epi32(int(tap[0])));
      sum[1] = add_pairs(sum[1], (__m512i)in[second], _mm512_set1_epi32(int(tap[S == 1 ? kPairs : 0])));
    });
  }

  static TC_HD void put(const __m512 (&sum)[2], bhalf_t* to, __mmask32 stored) {
    __m512i words = (__m512i)_mm512_cvtne2ps_pbh(sum[1], sum[0]);
    if (S == 1) words = _mm512_permutexvar_epi16(_mm512_load_si512(kEvenOddWords.at), words);
    _mm512_mask_storeu_epi16(to, stored, words);
  }
  static TC_HD void put(const __m512 (&sum)[2], float* to) {
    const auto a = (Vec<float>)sum[0], b = (Vec<float>)sum[1];
    store(to, S == 1 ? __builtin_shuffle(a, b, kEvenOdd.words()) : a);
    store(to + 16, S == 1 ? __builtin_shuffle(a, b, kEvenOddAfter.words()) : b);
  }

 private:
  Exponents exponents_;  // of the window
};
