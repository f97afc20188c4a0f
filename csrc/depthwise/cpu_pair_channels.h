// PAIRS of pixels whose channels lie side by side. Text of core/cpu_bf16.h; cpu_pairs.h has the instruction.
//
//   32 channels of pixel a   a0 a1 a2 a3 a4 ...
//   of the next one          b0 b1 b2 b3 b4 ...
//   words of both            a0 b0 | a1 b1 | a2 b2 | a3 b3 | a8 b8 | ...
//                            a4 b4 | a5 b5 | a6 b6 | a7 b7 | a12 b12 | ...
//
// P outputs of a row are summed at once, each in two registers. A pair of pixels serves every output whose window it is
// in; a row of taps comes as words for windows that begin with a pair and for those that begin with a pair's second
// pixel.

// Where channel c's word stands in the two registers, and its sums put in order.
constexpr int word_of(int c) { return c / 8 * 4 + c % 4 + (c % 8 < 4 ? 0 : 16); }
constexpr Halfwords kWordsInOrder = Halfwords::of([](int c) { return int16_t(word_of(c)); });
constexpr Lanes kLowInOrder = Lanes::of([](int c) { return word_of(c); });
constexpr Lanes kHighInOrder = Lanes::of([](int c) { return word_of(c + 16); });

// Outputs x ... x + P of a row, for 32 channels.
struct PairChannelTile {
  const bhalf_t* from;        // tap (0, 0) of the first output
  int64_t row, pixel;         // from one tap row, one input column to the next
  int64_t begin, end;         // the tap rows that lie in the image
  const __mmask32* channels;  // that there are, of each column under the tile's windows: none outside the image
  const uint32_t* taps;       // kPairRowWords for each tap row
  const float* biases;
  bhalf_t* out;
  int64_t pitch;     // from one output to the next
  __mmask32 stored;  // channels
  float* sums;       // where the sums go instead, 32 apart, if something comes after them
};

template <int K>
constexpr int kPairRowWords = 2 * PairRow<K>::kPairs * 32;

template <int P, int K>
void pair_channel_tile(const PairChannelTile& tile) {
  const PairChannelTile t = tile;
  constexpr int kPairs = PairRow<K>::kPairs, kColumns = P - 1 + K;
  __m512 low[P], high[P];
  unrolled<P>([&]<int p>() __attribute__((always_inline)) { low[p] = high[p] = _mm512_setzero_ps(); });
  for (int64_t i = t.begin; i < t.end; ++i) {
    const bhalf_t* const from = t.from + i * t.row;
    const uint32_t* const taps = t.taps + i * kPairRowWords<K>;
    const auto pixel = [&]<int q>() __attribute__((always_inline)) {
      if constexpr (q == kColumns) return _mm512_setzero_si512();
      else return _mm512_maskz_loadu_epi16(t.channels[q], from + q * t.pixel);
    };
    unrolled<(kColumns + 1) / 2>([&]<int m>() __attribute__((always_inline)) {
      const __m512i a = pixel.template operator()<2 * m>(), b = pixel.template operator()<2 * m + 1>();
      const __m512i l = _mm512_unpacklo_epi16(b, a), h = _mm512_unpackhi_epi16(b, a);
      unrolled<P>([&]<int p>() __attribute__((always_inline)) {
        constexpr int j = m - p / 2;  // the pair of the output's row of taps
        if constexpr (j >= 0 && j < kPairs) {
          const uint32_t* const at = taps + (p % 2 * kPairs + j) * 32;
          low[p] = add_pairs(low[p], l, _mm512_load_si512(at));
          high[p] = add_pairs(high[p], h, _mm512_load_si512(at + 16));
        }
      });
    });
  }
  const __m512 low_bias = _mm512_load_ps(t.biases), high_bias = _mm512_load_ps(t.biases + 16);
  unrolled<P>([&]<int p>() __attribute__((always_inline)) {
    const __m512 l = _mm512_add_ps(low[p], low_bias), h = _mm512_add_ps(high[p], high_bias);
    if (t.sums) {
      store(t.sums + p * 32, __builtin_shuffle((Vec<float>)l, (Vec<float>)h, kLowInOrder.words()));
      store(t.sums + p * 32 + 16, __builtin_shuffle((Vec<float>)l, (Vec<float>)h, kHighInOrder.words()));
    } else {
      const __m512i words = (__m512i)_mm512_cvtne2ps_pbh(h, l);
      _mm512_mask_storeu_epi16(t.out + p * t.pitch, t.stored,
                               _mm512_permutexvar_epi16(_mm512_load_si512(kWordsInOrder.at), words));
    }
  });
}

// Units of CHANNELS, whose plan it has.
template <int K>
class PairChannels {
 public:
  explicit PairChannels(const Depthwise& p)
      : p_(p),
        finish_(row_finisher<float>(p.out.dtype, p.activation)),
        other_(p),
        window_(p.kh * kPairRowWords<K> + 32),
        windows_(ceil_div(p.out.c, 32)),
        taps_(room_.take(windows_.size() * window_)) {}

  // The outputs y * x of the channels c of sample n.
  void unit(int64_t n, Range c, Range y, Range x) {
    const Placement& at = p_.place;
    const Range rows = inputs_under(y, 1, at.pad_y, (p_.kh - 1) * at.dilation_y + 1, p_.in.h);
    const Range columns = inputs_under(x, 1, at.pad_x, K, p_.in.w);
    for (int64_t first = c.begin; first < c.end; first += 32) {
      const Range some{first, std::min(c.end, first + 32)};
      Window& window = windows_[first / 32];
      if (!window.taken) take(window, some);
      if (window.plain && pixels(n, some, rows, columns).plain(window.exponents)) tiles(n, some, y, x);
      else other_.unit(n, {some.begin / kLanes<float>, ceil_div(some.end, kLanes<float>)}, y, x);
    }
  }

 private:
  // The windows of 32 channels.
  struct Window {
    bool taken = false, plain = true;  // plain: their biases
    Exponents exponents{};
  };
  static constexpr int kOutputs = 7;  // 14 registers of sums, which leaves half of them; maps are multiples of 7 wide

  uint32_t* taps_of(int64_t c) { return taps_ + c / 32 * window_; }
  float* biases_of(int64_t c) { return reinterpret_cast<float*>(taps_of(c) + window_ - 32); }

  void take(Window& window, Range c) {
    const int64_t count = p_.kh * K;
    const bhalf_t* const from = static_cast<const bhalf_t*>(p_.weight) + c.begin * count;
    window.taken = true;
    window.exponents = exponents_of(from, c.size() * count);
    std::fill_n(taps_of(c.begin), window_, 0);
    for (int i = 0; i < c.size(); ++i) {
      const int place = word_of(i);
      for (int64_t y = 0; y < p_.kh; ++y) {
        const PairRow<K> row(from + i * count + y * K);
        uint32_t* const at = taps_of(c.begin) + y * kPairRowWords<K> + place;
        for (int j = 0; j < PairRow<K>::kPairs; ++j) {
          at[j * 32] = row.even[j];
          at[(PairRow<K>::kPairs + j) * 32] = row.odd[j];
        }
      }
      if (!p_.bias) continue;
      const bhalf_t bias = static_cast<const bhalf_t*>(p_.bias)[c.begin + i];
      biases_of(c.begin)[place] = to_acc<float>(bias);
      window.plain &= plain_bias(bias);
    }
  }

  Exponents pixels(int64_t n, Range c, Range rows, Range columns) const {
    const Image& in = p_.in;
    ExponentScan scan;
    const char* const from = pixel_of(in, n, c.begin, 0, rows.begin, columns.begin);
    for (int64_t y = 0; y < rows.size(); ++y)
      for (int64_t x = 0; x < columns.size(); ++x)
        scan.add(reinterpret_cast<const bhalf_t*>(from) + y * in.stride_h + x * in.stride_w, c.size());
    return scan.exponents();
  }

  void tiles(int64_t n, Range c, Range y, Range x) {
    const Image &in = p_.in, &out = p_.out;
    const Placement& place = p_.place;
    __mmask32 inside[kOutputs - 1 + K];
    PairChannelTile t{.row = place.dilation_y * in.stride_h,
                      .pixel = in.stride_w,
                      .channels = inside,
                      .taps = taps_of(c.begin),
                      .biases = biases_of(c.begin),
                      .pitch = out.stride_w,
                      .stored = first_lanes(c.size()),
                      .sums = p_.activation == Activation::none ? nullptr : sums_};
    for (int64_t left = x.begin, size; left < x.end; left += size) {
      const int64_t first = left - place.pad_x;
      size = x.end - left >= kOutputs ? kOutputs : x.end - left >= 2 ? 2 : 1;
      for (int q = 0; q < kOutputs - 1 + K; ++q) inside[q] = first + q >= 0 && first + q < in.w ? t.stored : 0;
      for (int64_t row = y.begin; row < y.end; ++row) {
        const int64_t top = row - place.pad_y;
        const Range rows = positions_inside({0, p_.kh}, top, place.dilation_y, in.h);
        t.begin = rows.begin, t.end = rows.end;
        t.from =
            static_cast<const bhalf_t*>(in.data) + n * in.stride_n + c.begin + top * in.stride_h + first * in.stride_w;
        t.out = reinterpret_cast<bhalf_t*>(pixel_of(out, n, c.begin, 0, row, left));
        if (size == kOutputs) pair_channel_tile<kOutputs, K>(t);
        else if (size == 2) pair_channel_tile<2, K>(t);
        else pair_channel_tile<1, K>(t);
        if (t.sums)
          for (int64_t p = 0; p < size; ++p) finish_(sums_ + p * 32, c.size(), t.out + p * t.pitch);
      }
    }
  }

  const Depthwise& p_;
  const FinishRow<float> finish_;
  Channels<bhalf_t> other_;
  const int64_t window_;  // words of the windows of 32 channels, and of their biases
  std::vector<Window> windows_;
  Room<uint32_t> room_;
  uint32_t* const taps_;
  alignas(64) float sums_[kOutputs * 32];
};

template <int K>
void channel_pair_units(const Depthwise& p, const Plan& plan, Range units) {
  PairChannels<K> channels(p);
  each_channel_unit(p, plan, units, [&](int64_t n, Range c, Range y, Range x) { channels.unit(n, c, y, x); });
}

// What the refusals of cpu.cpp let through.
void pair_units(const Depthwise& p, const Plan& plan, Range units) {
  if (std::strcmp(plan.variant, "channel_pairs") == 0)
    return p.kw == 5 ? channel_pair_units<5>(p, plan, units) : channel_pair_units<7>(p, plan, units);
  const bool unit = p.place.stride_x == 1;
  if (p.kw == 3)
    return unit ? strip_units<PairStrip<3, 1>>(p, plan, units) : strip_units<PairStrip<3, 2>>(p, plan, units);
  if (p.kw == 5)
    return unit ? strip_units<PairStrip<5, 1>>(p, plan, units) : strip_units<PairStrip<5, 2>>(p, plan, units);
  strip_units<PairStrip<7, 1>>(p, plan, units);
}
