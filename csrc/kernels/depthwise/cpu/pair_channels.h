// PAIRS of pixels whose channels are interleaved. Text of core/cpu/bf16.h; pairs.h describes the instruction.
//
//     32 channels of pixel a   a0 a1 a2 a3 a4 ...
//     of the next one          b0 b1 b2 b3 b4 ...
//
//     PixelPairs: both as      a0 b0 | a1 b1 | a2 b2 | a3 b3 | a8 b8 | ...      (the upper half of a word on the left)
//     two registers of words   a4 b4 | a5 b5 | a6 b6 | a7 b7 | a12 b12 | ...
//
//     ChannelHalves: one as    a0 | a2 | a4 | a6 | ...
//     two registers of floats  a1 | a3 | a5 | a7 | ...
//
// A tile sums P outputs of a row at once, each in two registers. In PixelPairs, a pair of pixels serves every output
// over it. A row of taps has two forms: words for windows that begin with a pair, and words for windows that begin with
// the second pixel of a pair. In ChannelHalves, each tap and register takes one multiply-add.

// Outputs x ... x + P of a row, for 32 channels.
struct PairChannelTile {
  const bhalf_t* from;        // tap (0, 0) of the first output
  int64_t row, pixel;         // from one tap row, one input column to the next
  int64_t begin, end;         // the tap rows inside the image
  const __mmask32* channels;  // of each column under the tile's windows: none outside the image
  const uint32_t* taps;       // of each tap row
  const float* biases;
  bhalf_t* out;
  int64_t pitch;     // from one output to the next
  __mmask32 stored;  // channels
  float* sums;       // target of the sums, 32 apart, if an activation follows; else null
  bool ahead;        // prefetch the output lines of the next tile of these channels
};

// A lane takes two pixels of a channel, and their taps, in one instruction.
template <int K>
struct PixelPairs {
  static constexpr int kPairs = PairRow<K>::kPairs, kRowWords = 2 * kPairs * 32;
  static constexpr bool kKeepsSubnormals = false;  // the instruction takes subnormal numbers for zeros

  // The lane of the two registers that sums channel c.
  static constexpr int lane_of(int c) { return c / 8 * 4 + c % 4 + (c % 8 < 4 ? 0 : 16); }

  // A channel's row of taps.
  static void take(const bhalf_t* taps, uint32_t* to) {
    const PairRow<K> row(taps);
    for (int j = 0; j < kPairs; ++j) to[j * 32] = row.even[j], to[(kPairs + j) * 32] = row.odd[j];
  }

  template <int P>
  static TC_HD void add(const PairChannelTile& t, const bhalf_t* from, const uint32_t* taps, __m512 (&low)[P],
                        __m512 (&high)[P]) {
    constexpr int kColumns = P - 1 + K;
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
};

// A word is two channels of a pixel, and each half of the word becomes a float. This form serves rows of three taps,
// whose pairs would often hold a zero. The table has ms of PixelPairs and ChannelHalves, 8x96x56x56 channels_last, two
// threads of Zen 4:
//
//     3x3 0.34, 0.29 (CHANNELS 0.30); 5x5 0.54, 0.63; 7x7 0.90, 1.16
template <int K>
struct ChannelHalves {
  static constexpr int kRowWords = K * 32;
  static constexpr bool kKeepsSubnormals = true;

  static constexpr int lane_of(int c) { return c / 2 + c % 2 * 16; }

  static void take(const bhalf_t* taps, uint32_t* to) {
    for (int j = 0; j < K; ++j) to[j * 32] = uint32_t(taps[j].bits) << 16;
  }

  template <int P>
  static TC_HD void add(const PairChannelTile& t, const bhalf_t* from, const uint32_t* taps, __m512 (&low)[P],
                        __m512 (&high)[P]) {
    const __m512i upper = _mm512_set1_epi32(int(0xffff0000));
    unrolled<P - 1 + K>([&]<int q>() __attribute__((always_inline)) {
      const __m512i words = _mm512_maskz_loadu_epi16(t.channels[q], from + q * t.pixel);
      const auto l = (__m512)_mm512_slli_epi32(words, 16), h = (__m512)_mm512_and_si512(words, upper);
      unrolled<K>([&]<int j>() __attribute__((always_inline)) {
        if constexpr (q >= j && q - j < P) {
          low[q - j] = _mm512_fmadd_ps(_mm512_load_ps(taps + j * 32), l, low[q - j]);
          high[q - j] = _mm512_fmadd_ps(_mm512_load_ps(taps + j * 32 + 16), h, high[q - j]);
        }
      });
    });
  }
};

template <int K>
using PairLayout = std::conditional_t<K == 3, ChannelHalves<K>, PixelPairs<K>>;

// The lanes in the order of the channels.
template <int K>
constexpr Halfwords kInOrder = Halfwords::of([](int c) { return PairLayout<K>::lane_of(c); });
template <int K>
constexpr Lanes kLowInOrder = Lanes::of([](int c) { return PairLayout<K>::lane_of(c); });
template <int K>
constexpr Lanes kHighInOrder = Lanes::of([](int c) { return PairLayout<K>::lane_of(c + 16); });

// Returns false if outputs are wrong: the instruction that rounds sums takes subnormal sums for zeros.
template <int P, int K>
bool pair_channel_tile(const PairChannelTile& tile) {
  const PairChannelTile t = tile;
  using Layout = PairLayout<K>;
  __m512 low[P], high[P];
  unrolled<P>([&]<int p>() __attribute__((always_inline)) { low[p] = high[p] = _mm512_setzero_ps(); });
  if (t.ahead)
    unrolled<P>([&]<int p>() __attribute__((always_inline)) { __builtin_prefetch(t.out + (P + p) * t.pitch, 1); });
  for (int64_t i = t.begin; i < t.end; ++i)
    Layout::add(t, t.from + i * t.row, t.taps + i * Layout::kRowWords, low, high);
  const __m512 low_bias = _mm512_load_ps(t.biases), high_bias = _mm512_load_ps(t.biases + 16);
  constexpr int kSubnormal = 0x20;  // a class of numbers
  __mmask16 subnormal = 0;
  unrolled<P>([&]<int p>() __attribute__((always_inline)) {
    const __m512 l = _mm512_add_ps(low[p], low_bias), h = _mm512_add_ps(high[p], high_bias);
    if (t.sums) {
      store(t.sums + p * 32, __builtin_shuffle((Vec<float>)l, (Vec<float>)h, kLowInOrder<K>.words()));
      store(t.sums + p * 32 + 16, __builtin_shuffle((Vec<float>)l, (Vec<float>)h, kHighInOrder<K>.words()));
    } else {
      if (Layout::kKeepsSubnormals)
        subnormal |= _mm512_fpclass_ps_mask(l, kSubnormal) | _mm512_fpclass_ps_mask(h, kSubnormal);
      const __m512i words = (__m512i)_mm512_cvtne2ps_pbh(h, l);
      _mm512_mask_storeu_epi16(t.out + p * t.pitch, t.stored,
                               _mm512_permutexvar_epi16(_mm512_load_si512(kInOrder<K>.at), words));
    }
  });
  return subnormal == 0;
}

// Units of a plan of CHANNELS.
template <int K>
class PairChannels {
 public:
  using Layout = PairLayout<K>;

  // `ahead` is writes_ahead, but false if outputs are a thread's own scratch.
  explicit PairChannels(const Depthwise& p, bool ahead = false)
      : p_(p),
        ahead_(ahead),
        finish_(row_finisher<float>(p.out.dtype, p.activation)),
        other_(p),
        window_(p.kh * Layout::kRowWords + 32),
        windows_(ceil_div(p.out.c, 32)),
        taps_(buffer_.take(windows_.size() * window_)) {}

  // Computes outputs y * x of channels c of sample n.
  void unit(int64_t n, Range c, Range y, Range x) {
    const Placement& at = p_.place;
    const Range rows = inputs_under(y, 1, at.pad_y, (p_.kh - 1) * at.dilation_y + 1, p_.in.h);
    const Range columns = inputs_under(x, 1, at.pad_x, K, p_.in.w);
    groups_.clear();
    for (int64_t first = c.begin; first < c.end; first += 32) {
      const Range some{first, std::min(c.end, first + 32)};
      Window& window = windows_[first / 32];
      if (!window.taken) take(window, some);
      if (window.plain && (Layout::kKeepsSubnormals || pixels(n, some, rows, columns).plain(window.exponents)))
        groups_.push_back(some);
      else other_.unit(n, some, y, x);
    }
    for (int64_t row = y.begin; row < y.end; ++row)
      for (int64_t left = x.begin, size; left < x.end; left += size) {
        const int64_t after = x.end - left;
        size = after >= kOutputs ? kOutputs : after >= 4 ? 4 : after >= 2 ? 2 : 1;
        tiles(n, row, left, size);
      }
  }

 private:
  // The windows of 32 channels.
  struct Window {
    bool taken = false;
    bool plain = true;  // of PixelPairs: the biases; of ChannelHalves: all taps are finite
    Exponents exponents{};
  };
  static constexpr int kOutputs = 7;  // 14 registers of sums; maps are often multiples of 7 wide

  uint32_t* taps_of(int64_t c) { return taps_ + c / 32 * window_; }
  float* biases_of(int64_t c) { return reinterpret_cast<float*>(taps_of(c) + window_ - 32); }

  void take(Window& window, Range c) {
    const int64_t count = p_.kh * K;
    const bhalf_t* const from = static_cast<const bhalf_t*>(p_.weight) + c.begin * count;
    window.taken = true;
    window.exponents = exponents_of(from, c.size() * count);
    std::fill_n(taps_of(c.begin), window_, 0);
    for (int i = 0; i < c.size(); ++i) {
      const int lane = Layout::lane_of(i);
      for (int64_t y = 0; y < p_.kh; ++y)
        Layout::take(from + i * count + y * K, taps_of(c.begin) + y * Layout::kRowWords + lane);
      if (!p_.bias) continue;
      const bhalf_t bias = static_cast<const bhalf_t*>(p_.bias)[c.begin + i];
      biases_of(c.begin)[lane] = to_acc<float>(bias);
      window.plain &= Layout::kKeepsSubnormals || plain_bias(bias);
    }
    if (Layout::kKeepsSubnormals) window.plain = window.exponents.most < 255;
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

  // Computes outputs left ... left + size of a row, of all groups.
  void tiles(int64_t n, int64_t y, int64_t left, int64_t size) {
    const Image &in = p_.in, &out = p_.out;
    const Placement& place = p_.place;
    const int64_t top = y - place.pad_y, first = left - place.pad_x;
    const Range rows = positions_inside({0, p_.kh}, top, place.dilation_y, in.h);
    const Range columns = positions_inside({0, size - 1 + K}, first, 1, in.w);
    const auto sum = size == kOutputs ? pair_channel_tile<kOutputs, K>
                     : size == 4      ? pair_channel_tile<4, K>
                     : size == 2      ? pair_channel_tile<2, K>
                                      : pair_channel_tile<1, K>;
    for (const Range& c : groups_) {
      const __mmask32 stored = first_lanes(c.size());
      __mmask32 inside[kOutputs - 1 + K] = {};
      for (int64_t q = columns.begin; q < columns.end; ++q) inside[q] = stored;
      PairChannelTile t{.from = static_cast<const bhalf_t*>(in.data) + n * in.stride_n + c.begin + top * in.stride_h +
                                first * in.stride_w,
                        .row = place.dilation_y * in.stride_h,
                        .pixel = in.stride_w,
                        .begin = rows.begin,
                        .end = rows.end,
                        .channels = inside,
                        .taps = taps_of(c.begin),
                        .biases = biases_of(c.begin),
                        .out = reinterpret_cast<bhalf_t*>(pixel_of(out, n, c.begin, 0, y, left)),
                        .pitch = out.stride_w,
                        .stored = stored,
                        .sums = p_.activation == Activation::none ? nullptr : sums_,
                        .ahead = ahead_};
      const bool right = sum(t);
      if (right && !t.sums) continue;
      if (!right) t.sums = sums_, sum(t);
      for (int64_t p = 0; p < size; ++p) finish_(sums_ + p * 32, c.size(), t.out + p * t.pitch);
    }
  }

  const Depthwise& p_;
  const bool ahead_;
  const FinishRow<float> finish_;
  Channels<bhalf_t> other_;
  const int64_t window_;  // words of the windows of 32 channels, and of their biases
  std::vector<Window> windows_;
  std::vector<Range> groups_;  // of channels, for which this loop serves the unit
  Buffer<uint32_t> buffer_;
  uint32_t* const taps_;
  alignas(64) float sums_[kOutputs * 32];
};

template <int K>
void channel_pair_units(const Depthwise& p, const Plan& plan, Range units) {
  PairChannels<K> channels(p, writes_ahead<bhalf_t>(p));
  each_channel_unit(p, plan, units, [&](int64_t n, Range c, Range y, Range x) { channels.unit(n, c, y, x); });
}
