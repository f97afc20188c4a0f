// BLOCKS of bfloat16, two numbers a lane (PAIRS): transposed squares of 32 channels and 32 pixels. Text of
// core/cpu/bf16.h.
//
//     rows of 32 pixels as words          words of 16 channels        pixels of 32 channels
//     c0   x0 x1 | x2 x3 | ...            c0 | c1 | ... of x0 x1
//     c1   x0 x1 | x2 x3 | ...    -->     c0 | c1 | ... of x2 x3  -->   x0  c0 c1 c2 ... c31
//     ...                                 ...                           x1  c0 c1 c2 ... c31
//
// Words are transposed as floats are, 16 channels at a time. Two registers of words are two pixels of 32 channels.

constexpr Halfwords kFirstPixels = Halfwords::of([](int c) { return 2 * c; });
constexpr Halfwords kSecondPixels = Halfwords::of([](int c) { return 2 * c + 1; });
constexpr Halfwords kLowChannels = Halfwords::of([](int i) { return i / 2 + i % 2 * 32; });
constexpr Halfwords kHighChannels = Halfwords::of([](int i) { return i / 2 + i % 2 * 32 + 16; });

// The interface of Squares in blocks.h.
struct PairSquares {
  using Pixel = bhalf_t;
  static constexpr Dtype kDtype = Dtype::bf16;
  static constexpr int kSide = 32;

  static void in(const bhalf_t* from, int64_t stride_c, int64_t channels, int64_t n, bhalf_t* to) {
    Vec<float> low[16], high[16];
    turn_rows(from, stride_c, channels, first_lanes(n), low);
    turn_rows(from + 16 * stride_c, stride_c, channels - 16, first_lanes(n), high);
    for (int m = 0; m < 16; ++m, to += 2 * kSide) {
      _mm512_store_si512(to, pick(low[m], kFirstPixels, high[m]));
      _mm512_store_si512(to + kSide, pick(low[m], kSecondPixels, high[m]));
    }
  }

  static void out(const bhalf_t* from, bhalf_t* to, int64_t stride_c, int64_t channels, int64_t n) {
    rows_turned<kLowChannels>(from, to, stride_c, channels, first_lanes(n));
    rows_turned<kHighChannels>(from, to + 16 * stride_c, stride_c, channels - 16, first_lanes(n));
  }

 private:
  static TC_HD __m512i pick(Vec<float> a, const Halfwords& which, Vec<float> b) {
    return _mm512_permutex2var_epi16((__m512i)a, _mm512_load_si512(which.at), (__m512i)b);
  }

  static void turn_rows(const bhalf_t* from, int64_t stride_c, int64_t channels, __mmask32 pixels,
                        Vec<float> (&to)[16]) {
    Vec<float> v[16];
    unrolled<16>([&]<int c>() __attribute__((always_inline)) {
      v[c] = c < channels ? (Vec<float>)_mm512_maskz_loadu_epi16(pixels, from + c * stride_c) : Vec<float>{};
    });
    transpose(v);
    unrolled<16>([&]<int m>() __attribute__((always_inline)) { to[m] = v[m]; });
  }

  template <const Halfwords& which>
  static void rows_turned(const bhalf_t* from, bhalf_t* to, int64_t stride_c, int64_t channels, __mmask32 pixels) {
    Vec<float> v[16];
    unrolled<16>([&]<int m>() __attribute__((always_inline)) {
      const bhalf_t* const at = from + 2 * m * kSide;
      v[m] = (Vec<float>)pick((Vec<float>)_mm512_load_si512(at), which, (Vec<float>)_mm512_load_si512(at + kSide));
    });
    transpose(v);
    unrolled<16>([&]<int c>() __attribute__((always_inline)) {
      if (c < channels) _mm512_mask_storeu_epi16(to + c * stride_c, pixels, (__m512i)v[c]);
    });
  }
};

template <int K>
using PairBlocks = Blocks<bhalf_t, PairSquares, PairChannels<K>>;
