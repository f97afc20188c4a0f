// The box kernel family's loops over integers. Text of core/cpu/each_isa.h: compiled once per instruction set.

#include "kernels/box/cpu/edges.h"
#include "kernels/box/cpu/sums.h"

// The upper halves of products of 16 bits.
TC_HD Vec<uint16_t> upper_product(Vec<uint16_t> a, Vec<uint16_t> b) {
#if TC_X86_FMA && TC_VEC_BYTES == 64
  return (Vec<uint16_t>)_mm512_mulhi_epu16((__m512i)a, (__m512i)b);
#elif TC_X86_FMA
  return (Vec<uint16_t>)_mm256_mulhi_epu16((__m256i)a, (__m256i)b);
#else
  for (int lane = 0; lane < kLanes<uint16_t>; ++lane) a[lane] = uint16_t(uint32_t(a[lane]) * b[lane] >> 16);
  return a;
#endif
}

// box::ShortMean, a register at a time.
class ShortMeans {
 public:
  explicit ShortMeans(const box::ShortMean& m)
      : area_(splat(m.area)),
        half_(splat(m.half)),
        more_(splat(m.more)),
        reciprocal_(splat(m.reciprocal)),
        shift_(m.shift) {}

  template <bool Ties>
  TC_HD Vec<uint16_t> of(Vec<uint16_t> sum) const {
    const Vec<uint16_t> mean = upper_product(sum + more_, reciprocal_) >> shift_;
    if constexpr (!Ties) return mean;
    const Vec<uint16_t> tie = (Vec<uint16_t>)(mean * area_ == sum + half_);
    return mean - (tie & mean & 1);
  }

 private:
  const Vec<uint16_t> area_, half_, more_, reciprocal_;
  const int shift_;
};

// Numbers up to 255.
TC_HD void store_bytes(uint8_t* to, Vec<uint16_t> v) {
  typedef uint8_t Bytes __attribute__((vector_size(kLanes<uint16_t>)));
  const Bytes bytes = __builtin_convertvector(v, Bytes);
  __builtin_memcpy(to, &bytes, sizeof bytes);
}

// The divisor of sums. A product by the reciprocal and one correction give the quotient that a division rounds to, in
// less time than a division. The remainder sum - q * area is exact. The divisor has less than 48 bits, so the corrected
// quotient is nearer to the true one than any midpoint of two float64 numbers.
struct BoxArea {
  double area, reciprocal;
  explicit BoxArea(int64_t pixels) : area(double(pixels)), reciprocal(1.0 / area) {}
  TC_HD double mean_of(double sum) const {
#if TC_X86_FMA
    const double q = sum * reciprocal;
    return __builtin_fma(__builtin_fma(-q, area, sum), reciprocal, q);
#else
    return sum / area;
#endif
  }
};

// T: pixels; S: their sums, exact; Real: the type of an output before it is rounded to the result's dtype.
template <typename T, typename S, typename Real>
class BoxStrips {
 public:
  BoxStrips(const Box& p, int64_t pixel) : p_(p), pixel_(pixel), box_(p, pixel), out_(p.out, pixel) {}

  void strip(const RowStrip& strip) {
    const int64_t channels = pixel_ > 1 ? 1 : p_.in.c;
    n_ = strip.plane / channels, c_ = strip.plane % channels;
    y_ = strip.range, x_ = {0, p_.out.w};
    rows_fit_ = outputs_inside(y_, p_.kh, p_.place.pad_y, 1, 1, p_.in.h);
    columns_fit_ = outputs_inside(x_, p_.kw, p_.place.pad_x, 1, 1, p_.in.w);
    if (p_.place.border == Border::zero_output) {
      out_.zero(n_, c_, 0, {y_.begin, rows_fit_.begin}, x_);
      out_.zero(n_, c_, 0, {rows_fit_.end, y_.end}, x_);
      out_.zero(n_, c_, 0, rows_fit_, {0, columns_fit_.begin});
      out_.zero(n_, c_, 0, rows_fit_, {columns_fit_.end, p_.out.w});
      y_ = rows_fit_, x_ = columns_fit_;
    }
    if (y_.size() <= 0 || x_.size() <= 0) return;
    out_.open(n_, 0, x_);
    streaming();
  }

 private:
  void streaming() {
    box_.open(n_, c_, x_, y_.begin);
    for (int64_t y = y_.begin; y < y_.end; y += kBoxRows) {
      const int count = int(std::min<int64_t>(kBoxRows, y_.end - y));
      box_.next(count);
      for (int r = 0; r < count; ++r) out_.fill(1, c_, y + r, [&](auto& out) { finish(r, out[0], y + r); });
    }
  }

  template <typename R>
  static TC_HD R real(S sum) {
    // Sums of 32 bits that become float64 have 31 (run_cpu): conversions of signed numbers are the faster ones.
    constexpr bool is_signed = std::is_same_v<T, int16_t> || (sizeof(S) == 4 && std::is_same_v<Real, double>);
    if constexpr (is_signed) return R(std::make_signed_t<S>(sum));
    else return R(sum);
  }

  // O: bytes, or Real that the caller rounds.
  template <typename O>
  void finish(int r, O* __restrict out, int64_t y) {
    const double value = p_.place.value;
    const bool mean = p_.place.normalized;
    const bool adds_value = p_.place.border == Border::constant && value != 0;
    const int64_t rows = overlap(y - p_.place.pad_y, p_.kh, p_.in.h);
    auto edge = [&](int64_t x) {
      const int64_t inside = rows * overlap(x - p_.place.pad_x, p_.kw, p_.in.w), outside = p_.kh * p_.kw - inside;
      for (int64_t e = (x - x_.begin) * pixel_, k = 0; k < pixel_; ++e, ++k) {
        const double sum = real<double>(box_.sum(r, e));
        if (mean) out[e] = from_acc<O>(inside > 0 ? divided(sum, inside) : Real(0));
        else out[e] = from_acc<O>(scaled(sum + (outside > 0 ? value * double(outside) : 0.0)));
      }
    };
    Range whole = x_;  // outputs that read nothing outside
    if (mean || adds_value) whole = rows == p_.kh ? columns_fit_ : Range{x_.end, x_.end};
    for (int64_t x = x_.begin; x < whole.begin; ++x) edge(x);
    fit(r, out, (whole.begin - x_.begin) * pixel_, (whole.end - x_.begin) * pixel_);
    for (int64_t x = whole.end; x < x_.end; ++x) edge(x);
  }

  // Elements whose windows lie inside, or read only zeros or image pixels outside.
  template <typename O>
  void fit(int r, O* __restrict out, int64_t begin, int64_t end) {
    if constexpr (sizeof(S) == 2 && sizeof(O) == 1)
      if (end - begin >= kLanes<S>) return short_means(r, out, begin, end);
    // A few registers at a time: additions of the next ones go on while the stores of these wait.
    for (; begin < end; begin += box_.kBlock) {
      const int64_t count = std::min(box_.kBlock, end - begin);
      finish_sums(box_.sums(r, begin, count), count, out + begin);
    }
  }

  template <typename O>
  void finish_sums(const S* __restrict sums, int64_t count, O* __restrict out) const {
    if (area_ == 1) {
      for (int64_t e = 0; e < count; ++e) out[e] = whole<O>(real<Real>(sums[e]));
    } else if (to_integers_) {
      using I = std::conditional_t<std::is_same_v<T, int16_t>, std::make_signed_t<S>, S>;
      const Real scale = Real(1.0 / double(area_));
      const I area = I(area_);
      for (int64_t e = 0; e < count; ++e) out[e] = whole<O>(box::rounded_mean(I(sums[e]), scale, area));
    } else {
      const BoxArea area(area_);
      for (int64_t e = 0; e < count; ++e) out[e] = from_acc<O>(Real(area.mean_of(real<double>(sums[e]))));
    }
  }

  // Means of bytes from sums of 16 bits, which never leave the registers.
  void short_means(int r, uint8_t* out, int64_t begin, int64_t end) const {
    auto each = [&](auto to_byte) {
      // 4 registers at once: 1 to 4 % faster than 2, as fast as 8 (Zen 4).
      cover<S, 4>(end - begin, [&]<int V>(int64_t x) {
        Vec<S> sums[V] = {};
        box_.add_windows(r, begin + x, sums);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) store_bytes(out + begin + x + v * kLanes<S>, to_byte(sums[v]));
      });
    };
    const ShortMeans means(mean_);
    if (area_ == 1) each([&](Vec<S> sum) { return sum < 255 ? sum : splat(S(255)); });
    else if (mean_.ties()) each([&](Vec<S> sum) { return means.template of<true>(sum); });
    else each([&](Vec<S> sum) { return means.template of<false>(sum); });
  }

  // A whole number as a byte, or as it is.
  template <typename O>
  static TC_HD O whole(Real v) {
    if constexpr (std::is_same_v<O, Real>) return v;
    else return O(int32_t(std::min(std::max(v, Real(0)), Real(255))));
  }

  Real divided(double total, int64_t count) const { return box::mean_of<Real>(total, double(count), to_integers_); }
  Real scaled(double total) const { return divided(total, area_); }

  const Box& p_;
  const int64_t pixel_;
  const bool to_integers_ = is_integer(p_.out.dtype);
  const int64_t area_ = p_.place.normalized || p_.scale != 1 ? p_.kh * p_.kw : 1;  // a sum's divisor
  const box::ShortMean mean_{sizeof(S) == 2 ? int(area_) : 1};
  BoxSums<T, S> box_;
  OutputRows<Real> out_;
  int64_t n_ = 0, c_ = 0;
  Range y_{}, x_{}, rows_fit_{}, columns_fit_{};
};

template <typename T, typename S, typename Real>
void box_units(const Box& p, const Plan& plan, Range units) {
  BoxStrips<T, S, Real> strips(p, interleaved_channels(p.in, p.out));
  // One unit at a time: where running sums start afresh must not depend on the number of threads.
  for (; units.begin < units.end; ++units.begin)
    for_each_strip({units.begin, units.begin + 1}, p.out.h, plan.tile_h, [&](const RowStrip& s) { strips.strip(s); });
}
