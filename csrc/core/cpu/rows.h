// Rows of an image as the loops want them: in the accumulation type, contiguous, extended by the border.
// Text of each_isa.h: compiled once per instruction set.

// n elements, `stride` apart, to the accumulation type.
template <typename A, typename T>
void read_row(const void* src, int64_t stride, int64_t n, A* __restrict dst) {
  const T* __restrict from = static_cast<const T*>(src);
  if (stride != 1) {
    for (int64_t i = 0; i < n; ++i) dst[i] = to_acc<A>(from[i * stride]);
    return;
  }
  int64_t i = 0;
#if TC_X86_FMA  // g++ 12 converts float16 one by one
  if constexpr (std::is_same_v<T, half_t> && std::is_same_v<A, float>)
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
  for (; i < n; ++i) dst[i] = to_acc<A>(from[i]);
}

// A register of sums to integers, as from_acc rounds them: a maximum is its second operand where the first is a NaN, a
// conversion rounds to nearest even. g++ 12 makes masks of from_acc's comparisons and moves them through general
// registers.
template <typename T>
TC_HD void store_rounded(T* to, Vec<float> v) {
#if TC_X86_FMA
  const Vec<float> lo = splat(float(std::numeric_limits<T>::min())), hi = splat(float(std::numeric_limits<T>::max()));
  if constexpr (std::is_signed_v<T>) v = v == v ? v : Vec<float>{};
#if TC_VEC_BYTES == 64
  const auto whole = (__v16si)_mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(v, lo), hi));
#else
  const auto whole = (__v8si)_mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(v, lo), hi));
#endif
  typedef T Narrow __attribute__((vector_size(kLanes<float> * sizeof(T))));
  const Narrow narrow = __builtin_convertvector(whole, Narrow);
  __builtin_memcpy(to, &narrow, sizeof narrow);
#else
  for (int lane = 0; lane < kLanes<float>; ++lane) to[lane] = from_acc<T>(v[lane]);
#endif
}

// Registers of sums side by side, as they are or rounded to integers.
template <int V, typename A, typename T>
TC_HD void store_sums(T* to, const Vec<A> (&v)[V]) {
#if TC_X86_FMA && TC_VEC_BYTES == 64
  // Four registers become one of bytes. A minimum is its second operand where that is a NaN, which converts to the
  // least integer; packing makes 0 of all below 0.
  if constexpr (std::is_same_v<T, uint8_t> && V % 4 == 0) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
#pragma GCC unroll 2
    for (int at = 0; at < V; at += 4) {
      __m512i whole[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) whole[i] = _mm512_cvtps_epi32(_mm512_min_ps(splat(255.0f), v[at + i]));
      const __m512i bytes =
          _mm512_packus_epi16(_mm512_packus_epi32(whole[0], whole[1]), _mm512_packus_epi32(whole[2], whole[3]));
      _mm512_storeu_si512(to + at * kLanes<A>, _mm512_permutexvar_epi32(order, bytes));
    }
    return;
  }
#endif
#pragma GCC unroll 8
  for (int i = 0; i < V; ++i) {
    if constexpr (std::is_same_v<T, A>) store(to + i * kLanes<A>, v[i]);
    else store_rounded(to + i * kLanes<A>, v[i]);
  }
}

// n sums to the elements of an output row, `stride` apart.
template <typename A, typename T>
void write_row(const A* __restrict src, int64_t n, void* dst, int64_t stride) {
  T* __restrict to = static_cast<T*>(dst);
  if (stride != 1) {
    for (int64_t i = 0; i < n; ++i) to[i * stride] = from_acc<T>(src[i]);
    return;
  }
  int64_t i = 0;
#if TC_X86_FMA
  if constexpr (std::is_same_v<T, half_t> && std::is_same_v<A, float>)
    for (; i + 8 <= n; i += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  if constexpr (std::is_integral_v<T> && std::is_same_v<A, float>)
    for (; i + kLanes<A> <= n; i += kLanes<A>) store_rounded(to + i, load(src + i));
  for (; i < n; ++i) to[i] = from_acc<T>(src[i]);
}

template <typename A>
using ReadRow = void (*)(const void* src, int64_t stride, int64_t n, A* dst);
template <typename A>
using WriteRow = void (*)(const A* src, int64_t n, void* dst, int64_t stride);

template <typename A>
ReadRow<A> row_reader(Dtype dtype) {
  return with_type(dtype, [](auto t) -> ReadRow<A> {
    using T = decltype(t);
    if constexpr (std::is_same_v<A, double> || std::is_same_v<A, acc_t<T>> || std::is_same_v<A, T>)
      return read_row<A, T>;
    else __builtin_unreachable();  // float64 images are read as float64 alone, bytes as they are by bytes alone
  });
}

template <typename A>
WriteRow<A> row_writer(Dtype dtype) {
  return with_type(dtype, [](auto t) -> WriteRow<A> { return write_row<A, decltype(t)>; });
}

template <typename A>
constexpr Dtype kDtypeOf = std::is_same_v<A, double>    ? Dtype::f64
                           : std::is_same_v<A, uint8_t> ? Dtype::u8
                                                        : Dtype::f32;

// Elements from which on rows are read in the image itself and their ends apart; narrower ones are copied with their
// border. Float32 3x3, one thread, Zen 4, 2^21 pixels: 64x64 planes 1.9 ms copied against 6.1 in place, 256x256 2.1 and
// 3.0, 512x512 1.9 and 2.1, 1024x1024 1.4 and 1.3.
constexpr int64_t kWideRow = 1024;

constexpr int64_t kCacheLine = 64;

// The input rows that a range of output columns needs. A row is a set of segments, so that tap j of output x is
// element offset(j) + x of the row whatever the stride:
//
//   dense   segment f holds the pixels first + f, first + f + stride, ...    (stride 1: one segment, the padded row)
//   sparse  segment j holds the pixels under tap j; for dilations so wide that this is less
//
// A plane's rows stand in `slots` slots of its place and are read once while they stay there. Where no conversion and
// no border is in the way, a row is the image's own memory.
template <typename A>
class Rows {
 public:
  Rows(const Image& image, int64_t pixel, const Placement& place, int64_t kw)
      : image_(image), pixel_(pixel), place_(place), kw_(kw), read_(row_reader<A>(image.dtype)), offset_(kw) {}

  // Whether rows can be the image's own memory where the columns' windows lie inside it.
  bool plain() const { return image_.dtype == kDtypeOf<A> && image_.stride_w == pixel_ && place_.stride_x == 1; }

  struct Plane {
    const char* data;  // null: outside the volume
    int64_t z, place;
  };

  // Input plane z (any distance outside) of a channel of sample n, whose rows will stand in `place`.
  Plane plane(int64_t n, int64_t c, int64_t z, int64_t place) const {
    const int64_t m = map_index(z, image_.d, place_.border);
    return {m < 0 ? nullptr : pixel_of(image_, n, c, m, 0, 0), m, place};
  }

  // From here on serves the outputs `x` of planes in so many places. Planes of one place must be of one channel and
  // sample. As many slots as the image has rows: each row has its own.
  void open(Range x, int64_t places, int64_t slots) {
    if (x.begin == x_.begin && x.end == x_.end && slots == slots_ && places == places_) return forget();
    x_ = x, places_ = places, slots_ = slots, count_ = x.size();
    const int64_t reach = (kw_ - 1) * place_.dilation_x, stride = place_.stride_x;
    first_ = x.begin * stride - place_.pad_x;
    inside_ = first_ >= 0 && first_ + (count_ - 1) * stride + reach < image_.w;
    in_place_ = plain() && inside_ && count_ * pixel_ >= kLanes<A>;

    const int64_t dense = count_ + reach / stride, phases = std::min(stride, reach + 1);
    sparse_ = !in_place_ && kw_ * count_ < phases * dense;
    segments_ = sparse_ ? kw_ : phases;
    if (!sparse_) count_ = dense;
    for (int64_t j = 0; j < kw_; ++j) {
      const int64_t d = j * place_.dilation_x;
      offset_[j] = (sparse_ ? j * count_ : d % stride * count_ + d / stride) * pixel_;
    }
    length_ = segments_ * count_ * pixel_ + kLanes<A>;  // the last register of a row may read past its end
    find_edges();
    const A value = place_.border == Border::constant ? A(place_.value) : A(0);
    outside_.assign(length_, value);
    tags_.assign(in_place_ ? 0 : slots * places, -1);
    if (!in_place_) buffer_.resize(std::max<size_t>(buffer_.size(), slots * places * length_));
  }

  const int64_t* offsets() const { return offset_.data(); }
  bool inside() const { return inside_; }

  // What slots hold are rows of another plane from here on.
  void forget() { std::fill(tags_.begin(), tags_.end(), -1); }

  // Input row y (any distance outside) of a plane; it stays valid until `slot` is asked for another row.
  const A* row(const Plane& plane, int64_t y, int64_t slot) {
    const int64_t m = map_index(y, image_.h, place_.border);
    if (m < 0 || !plane.data) return outside_.data();
    const char* src = plane.data + m * image_.stride_h * size_of(image_.dtype);
    if (in_place_) return reinterpret_cast<const A*>(src) + first_ * pixel_;
    const int64_t at = plane.place * slots_ + (slots_ == image_.h ? m : slot), tag = plane.z * image_.h + m;
    A* dst = buffer_.data() + at * length_;
    if (tags_[at] != tag) {
      tags_[at] = tag;
      gather(dst, A(place_.value),
             [&](int64_t x, int64_t step, int64_t n, A* to) { read_pixels(src, x, step, n, to); });
    }
    return dst;
  }

  // Has the cache fetch the pixels of input row y, if the image has it, in A and dense.
  // (Inline: g++ 12 takes a function that only does this for one without effects, and leaves out its calls.)
  TC_HD void fetch(const Plane& plane, int64_t y) const {
    if (y < 0 || y >= image_.h || !plane.data || image_.dtype != kDtypeOf<A> || image_.stride_w != pixel_) return;
    const int64_t begin = std::clamp<int64_t>(first_, 0, image_.w);
    const int64_t end = std::clamp<int64_t>(first_ + count_ * place_.stride_x, begin, image_.w);
    const char* row = plane.data + y * image_.stride_h * size_of(image_.dtype);
    for (int64_t at = begin * pixel_ * sizeof(A); at < end * pixel_ * int64_t(sizeof(A)); at += kCacheLine)
      __builtin_prefetch(row + at);
  }

  // A row of ones where the image is and zeros elsewhere, laid out as the others.
  const A* inside_row() {
    mask_.assign(length_, A(0));
    gather(mask_.data(), A(0), [&](int64_t, int64_t, int64_t n, A* to) { std::fill_n(to, n * pixel_, A(1)); });
    return mask_.data();
  }

 private:
  // A pixel of a row beyond the image, and the one that it repeats.
  struct Edge {
    int64_t to, from;
  };

  // A row that goes on beyond the image by a few pixels, which it holds already, divides nothing.
  void find_edges() {
    constexpr int64_t kFew = 64;
    edges_.clear();
    near_ = {0, 0};
    if (segments_ != 1 || place_.stride_x != 1) return;
    const Range in = positions_inside({0, count_}, first_, 1, image_.w);
    if (in.size() <= 0 || count_ - in.size() > kFew) return;
    const auto repeats = [&](int64_t i) {
      const int64_t m = map_index(first_ + i, image_.w, place_.border) - first_;
      edges_.push_back({i * pixel_, m * pixel_});
      return m >= in.begin && m < in.end;
    };
    for (int64_t i = 0; i < in.begin; ++i)
      if (!repeats(i)) return;
    for (int64_t i = in.end; i < count_; ++i)
      if (!repeats(i)) return;
    near_ = in;
  }

  // read(x, step, n, to) delivers the n pixels x, x + step, ... of the image.
  template <typename Read>
  void gather(A* dst, A value, Read read) {
    if (near_.size() > 0) {
      read(first_ + near_.begin, 1, near_.size(), dst + near_.begin * pixel_);
      for (const Edge& edge : edges_)
        for (int64_t k = 0; k < pixel_; ++k) dst[edge.to + k] = dst[edge.from + k];
      return;
    }
    const int64_t step = place_.stride_x;
    const bool extend = map_index<int64_t>(-1, image_.w, place_.border) >= 0;  // by elements, not by `value`
    for (int64_t s = 0; s < segments_; ++s, dst += count_ * pixel_) {
      const int64_t start = first_ + s * (sparse_ ? place_.dilation_x : 1);
      const Range in = positions_inside({0, count_}, start, step, image_.w);
      if (in.size() > 0) read(start + in.begin * step, step, in.size(), dst + in.begin * pixel_);
      const auto read_one = [&](int64_t i) {
        read(map_index(start + i * step, image_.w, place_.border), 1, 1, dst + i * pixel_);
      };
      if (!extend) {
        std::fill(dst, dst + in.begin * pixel_, value);
        std::fill(dst + in.end * pixel_, dst + count_ * pixel_, value);
        continue;
      }
      // Beyond an edge the row repeats what stands a period, or with `replicate` a pixel, nearer to the image.
      const int64_t whole = period_of(place_.border, image_.w),
                    period = step > 1 ? count_ : std::max<int64_t>(1, whole);
      const Range base{whole ? in.begin : std::max(in.begin, in.end - 1),
                       whole ? count_ : std::min(count_, in.begin + 1)};
      // Short extensions divide nothing.
      const auto whole_periods = [&](int64_t n) { return n < period ? 0 : n / period * period; };
      for (int64_t i = in.end; i < count_;) {
        const int64_t known = whole_periods(i - base.begin), end = std::min(count_, i + known);
        if (known == 0) read_one(i++);
        else std::copy_n(dst + (i - known) * pixel_, (end - i) * pixel_, dst + i * pixel_), i = end;
      }
      for (int64_t i = in.begin; i > 0;) {
        const int64_t known = whole_periods(base.end - i), begin = std::max<int64_t>(0, i - known);
        if (known == 0) read_one(--i);
        else std::copy_n(dst + (begin + known) * pixel_, (i - begin) * pixel_, dst + begin * pixel_), i = begin;
      }
    }
  }

  void read_pixels(const char* src, int64_t x, int64_t step, int64_t n, A* to) {
    src += x * image_.stride_w * size_of(image_.dtype);
    if (pixel_ == 1) read_(src, image_.stride_w * step, n, to);
    else if (step == 1) read_(src, 1, n * pixel_, to);
    else
      for (int64_t i = 0; i < n; ++i)
        read_(src + i * step * pixel_ * size_of(image_.dtype), 1, pixel_, to + i * pixel_);
  }

  const Image& image_;
  const int64_t pixel_;  // interleaved channels
  const Placement& place_;
  const int64_t kw_;
  const ReadRow<A> read_;
  Range x_{};
  int64_t places_ = 0, slots_ = 0;
  int64_t first_ = 0, count_ = 0, segments_ = 0, length_ = 0;  // first pixel; pixels of a segment; elements of a row
  bool inside_ = false, in_place_ = false, sparse_ = false;
  Range near_{};  // where few pixels lie outside: those inside
  std::vector<Edge> edges_;
  std::vector<int64_t> offset_, tags_;
  std::vector<A> buffer_, outside_, mask_;
};
