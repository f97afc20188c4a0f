// STRIPS: 32 columns of output rows, loaded from the image itself, with masks at its ends. Text of core/cpu/each_isa.h,
// for registers with masks.
//
//     row 0   ( 0)[x x x x ... x x x x x x]
//     row 1   ( 0)[x x x x ... x x x x x x]
//     row 2   ( 0)[x x x x ... x x x x x x]
//
// A tile is kStripRows rows of sums, two registers each. The tile loads the registers of an input row once for all rows
// of sums over the row. At steps of 2, even and odd pixels have separate registers. Nothing is copied before. The
// template argument Strip defines the contents of a register: FloatStrip below, PairStrip in pairs.h.

// A mask of the elements a ... a + 32 that are inside a row of `size`.
TC_HD __mmask32 lanes_inside(int64_t a, int64_t size) { return first_lanes(size - a) & ~(a < 0 ? first_lanes(-a) : 0); }

// Rows of a tile. On a map of 14 rows, tiles of 4 waste fewer rows than tiles of 8. Cycles for 16 outputs, bfloat16
// 56x56, Zen 4, one thread:
//
//     rows     2     4     8
//     3x3   13.5  11.3  10.7
//     5x5     37    24    31
//     7x7     62    39    36
//
constexpr int kStripRows = 4;

// The input and the output of a tile.
template <typename Strip>
struct StripTile {
  const typename Strip::T* from;  // the first load of the first output row's windows
  int64_t pitch;                  // from one input row to the next
  int64_t begin, end;             // the input rows inside the image
  const __mmask32* inside;        // the columns of each load that are inside
  const typename Strip::Tap* taps;
  float bias;
  typename Strip::T* out;
  int64_t out_pitch;
  int64_t count;     // of output rows
  __mmask32 stored;  // of output columns
  float* sums;       // target of the sums, 32 a row, if an activation follows; else null
};

template <typename Strip>
void strip_tile(const StripTile<Strip>& tile) {
  const StripTile<Strip> t = tile;  // a copy, which stores cannot change, stays in registers
  constexpr int R = kStripRows, K = Strip::kTaps, S = Strip::kStep;
  __m512 sum[R][2];
  unrolled<R>([&]<int r>() __attribute__((always_inline)) { sum[r][0] = sum[r][1] = _mm512_setzero_ps(); });
  __mmask32 inside[Strip::kLoads];
  unrolled<Strip::kLoads>([&]<int j>() __attribute__((always_inline)) { inside[j] = t.inside[j]; });
  const typename Strip::T* from = t.from;
  unrolled<(R - 1) * S + K>([&]<int q>() __attribute__((always_inline)) {
    const typename Strip::T* const row = from;
    from += t.pitch;
    if (q < t.begin || q >= t.end) return;
    __m512 in[Strip::kRegisters];
    Strip::load_row(row, inside, in);
    unrolled<R>([&]<int r>() __attribute__((always_inline)) {
      constexpr int i = q - r * S;
      if constexpr (i >= 0 && i < K) Strip::template add<i>(t.taps, in, sum[r]);
    });
  });
  const __m512 bias = _mm512_set1_ps(t.bias);
  unrolled<R>([&]<int r>() __attribute__((always_inline)) {
    if (r >= t.count) return;
    sum[r][0] = _mm512_add_ps(sum[r][0], bias), sum[r][1] = _mm512_add_ps(sum[r][1], bias);
    if (t.sums) Strip::put(sum[r], t.sums + r * 32);
    else Strip::put(sum[r], t.out + r * t.out_pitch, t.stored);
  });
}

// Units of a plan of PLANES. The loops of PLANES serve units that Strip refuses.
template <typename Strip>
class StripPlanes {
 public:
  StripPlanes(const Depthwise& p, const Plan& plan)
      : p_(p), finish_(row_finisher<float>(p.out.dtype, p.activation)), other_(p, plan) {}

  void unit(int64_t plane, Range y, Range x) {
    const Image &in = p_.in, &out = p_.out;
    const int64_t n = plane / out.c, c = plane % out.c;
    const T* const source = reinterpret_cast<const T*>(pixel_of(in, n, c / p_.multiplier(), 0, 0, 0));
    if (c != c_) take_window(c);
    if (!plain_ || !plain(source, y, x)) return other_.unit(plane, y, x);
    const Placement& place = p_.place;
    StripTile<Strip> t{.pitch = in.stride_h,
                       .taps = taps_,
                       .bias = bias_,
                       .out_pitch = out.stride_h,
                       .sums = p_.activation == Activation::none ? nullptr : sums_};
    if (x.begin != x_.begin || x.end != x_.end) cut_columns(x);
    for (int64_t top = y.begin; top < y.end; top += kStripRows) {
      const int64_t first = top * S - place.pad_y;
      t.begin = -first, t.end = in.h - first;
      t.count = std::min<int64_t>(kStripRows, y.end - top);
      for (const StripColumns& columns : columns_) {
        t.from = source + first * in.stride_h + columns.x * S - place.pad_x;
        t.out = reinterpret_cast<T*>(pixel_of(out, n, c, 0, top, columns.x));
        t.inside = columns.inside, t.stored = first_lanes(columns.count);
        strip_tile<Strip>(t);
        if (t.sums)
          for (int64_t r = 0; r < t.count; ++r) finish_(sums_ + r * 32, columns.count, t.out + r * t.out_pitch);
      }
    }
  }

 private:
  using T = typename Strip::T;
  static constexpr int K = Strip::kTaps, S = Strip::kStep;

  // Outputs x ... x + count, and a mask of the columns inside the image for each load.
  struct StripColumns {
    int64_t x, count;
    __mmask32 inside[Strip::kLoads];
  };

  // Columns of a load behind the last window count as outside, so that `plain` skips them.
  void cut_columns(Range x) {
    x_ = x;
    columns_.clear();
    const int64_t seen = inputs_under(x, S, p_.place.pad_x, K, p_.in.w).end;
    for (int64_t at = x.begin; at < x.end; at += 32) {
      StripColumns columns{.x = at, .count = std::min<int64_t>(32, x.end - at)};
      for (int j = 0; j < Strip::kLoads; ++j)
        columns.inside[j] = lanes_inside(at * S - p_.place.pad_x + Strip::load_at(j), seen);
      columns_.push_back(columns);
    }
  }

  void take_window(int64_t c) {
    const T bias = p_.bias ? static_cast<const T*>(p_.bias)[c] : T{};
    c_ = c, bias_ = to_acc<float>(bias);
    plain_ = strip_.take(static_cast<const T*>(p_.weight) + c * K * K, bias, taps_);
  }

  bool plain(const T* source, Range y, Range x) const {
    const Image& in = p_.in;
    const Range rows = inputs_under(y, S, p_.place.pad_y, K, in.h);
    const Range columns = inputs_under(x, S, p_.place.pad_x, K, in.w);
    return strip_.plain(source + rows.begin * in.stride_h + columns.begin, rows.size(), columns.size(), in.stride_h);
  }

  const Depthwise& p_;
  const FinishRow<float> finish_;
  Planes<float> other_;
  Strip strip_;
  int64_t c_ = -1;
  bool plain_ = false;
  float bias_ = 0;
  typename Strip::Tap taps_[Strip::kTapCount];
  Range x_{0, 0};
  std::vector<StripColumns> columns_;
  alignas(64) float sums_[kStripRows * 32];
};

template <typename Strip>
void strip_units(const Depthwise& p, const Plan& plan, Range units) {
  StripPlanes<Strip> planes(p, plan);
  each_plane_unit(p, plan, units, [&](int64_t plane, Range y, Range x) { planes.unit(plane, y, x); });
}

// Two registers of 16 outputs. At S = 1 each tap has its own loads. At S = 2 (windows of 3 x 3) even and odd pixels are
// in separate registers. The operand of the last tap is shifted from two registers.
template <int K, int S>
class FloatStrip {
 public:
  using T = float;
  using Tap = float;
  static_assert(S == 1 || K == 3);
  static constexpr int kTaps = K, kStep = S, kTapCount = K * K;
  static constexpr int kLoads = S == 1 ? 2 * K : 5, kRegisters = 2 * K;  // register v * K + j: the pixels under tap j
  static constexpr int load_at(int j) { return S == 1 ? j % K + j / K * 16 : j * 16; }

  // Only finite taps let rows outside be left out.
  bool take(const float* taps, float, float* to) {
    std::copy_n(taps, K * K, to);
    return std::all_of(taps, taps + K * K, [](float tap) { return std::isfinite(tap); });
  }
  bool plain(const float*, int64_t, int64_t, int64_t) const { return true; }

  static TC_HD void load_row(const float* row, const __mmask32* inside, __m512 (&in)[kRegisters]) {
    Vec<float> loaded[kLoads];
    unrolled<kLoads>([&]<int j>() __attribute__((always_inline)) {
      loaded[j] = (Vec<float>)_mm512_maskz_loadu_ps(__mmask16(inside[j]), row + load_at(j));
    });
    if constexpr (S == 1) {
      unrolled<kLoads>([&]<int j>() __attribute__((always_inline)) { in[j] = (__m512)loaded[j]; });
    } else {
      unrolled<2>([&]<int v>() __attribute__((always_inline)) {
        in[v * K] = (__m512)__builtin_shuffle(loaded[2 * v], loaded[2 * v + 1], kEven.words());
        in[v * K + 1] = (__m512)__builtin_shuffle(loaded[2 * v], loaded[2 * v + 1], kOdd.words());
      });
      in[2] = shifted(in[0], in[K]), in[K + 2] = shifted(in[K], (__m512)loaded[4]);
    }
  }

  template <int i>
  static TC_HD void add(const float* taps, const __m512 (&in)[kRegisters], __m512 (&sum)[2]) {
    unrolled<K>([&]<int j>() __attribute__((always_inline)) {
      const __m512 tap = _mm512_set1_ps(taps[i * K + j]);
      sum[0] = _mm512_fmadd_ps(tap, in[j], sum[0]);
      sum[1] = _mm512_fmadd_ps(tap, in[K + j], sum[1]);
    });
  }

  static TC_HD void put(const __m512 (&sum)[2], float* to, __mmask32 stored) {
    _mm512_mask_storeu_ps(to, __mmask16(stored), sum[0]);
    _mm512_mask_storeu_ps(to + 16, __mmask16(stored >> 16), sum[1]);
  }
  static TC_HD void put(const __m512 (&sum)[2], float* to) {
    _mm512_storeu_ps(to, sum[0]);
    _mm512_storeu_ps(to + 16, sum[1]);
  }

 private:
  static TC_HD __m512 shifted(__m512 a, __m512 next) {
    return (__m512)_mm512_alignr_epi32((__m512i)next, (__m512i)a, 1);
  }
};

// For problems that strips_refusal allows.
inline void float_strip_units(const Depthwise& p, const Plan& plan, Range units) {
  if (p.kw == 5) strip_units<FloatStrip<5, 1>>(p, plan, units);
  else if (p.place.stride_x == 1) strip_units<FloatStrip<3, 1>>(p, plan, units);
  else strip_units<FloatStrip<3, 2>>(p, plan, units);
}
