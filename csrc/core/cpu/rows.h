// Rows of an image for the CPU loops: in the accumulation type, contiguous, extended by the border.
// Text of each_isa.h: compiled once per instruction set.

// Reads n elements, `stride` apart, in the accumulation type.
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

// Reads n pixels of `pixel` contiguous elements; the pixels are `stride` elements apart.
template <typename A, typename T>
void read_pixels(const void* src, int64_t stride, int64_t n, int64_t pixel, A* __restrict dst) {
  if (pixel == 1) return read_row<A, T>(src, stride, n, dst);
  if (stride == pixel) return read_row<A, T>(src, 1, n * pixel, dst);
  const T* __restrict from = static_cast<const T*>(src);
  for (int64_t i = 0; i < n; ++i, from += stride)
    for (int64_t k = 0; k < pixel; ++k) *dst++ = to_acc<A>(from[k]);
}

// Stores a register of sums as integers, with the rounding of from_acc. A maximum is its second operand where the first
// is a NaN, and conversions round to nearest even. (g++ 12 compiles the comparisons of from_acc to masks in general
// registers.)
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

// Stores consecutive registers of sums, as they are or rounded to integers.
template <int V, typename A, typename T>
TC_HD void store_sums(T* to, const Vec<A> (&v)[V]) {
#if TC_X86_FMA && TC_VEC_BYTES == 64
  // Packs four registers into one of bytes. A minimum is its second operand where that is a NaN, which converts to the
  // least integer; packing saturates negative numbers to 0.
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

// Writes n sums to the elements of an output row, `stride` apart.
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
using ReadPixels = void (*)(const void* src, int64_t stride, int64_t n, int64_t pixel, A* dst);
template <typename A>
using WriteRow = void (*)(const A* src, int64_t n, void* dst, int64_t stride);

// No caller reads float64 as float32, or other dtypes as bytes.
template <typename A, typename T>
constexpr bool kReadsAs = std::is_same_v<A, double> || std::is_same_v<A, acc_t<T>> || std::is_same_v<A, T>;

template <typename A>
ReadRow<A> row_reader(Dtype dtype) {
  return with_type(dtype, [](auto t) -> ReadRow<A> {
    if constexpr (kReadsAs<A, decltype(t)>) return read_row<A, decltype(t)>;
    else __builtin_unreachable();
  });
}

template <typename A>
ReadPixels<A> pixel_reader(Dtype dtype) {
  return with_type(dtype, [](auto t) -> ReadPixels<A> {
    if constexpr (kReadsAs<A, decltype(t)>) return read_pixels<A, decltype(t)>;
    else __builtin_unreachable();
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

// Rows of this many elements are read in place, and their ends separately. Narrower rows are copied with their border.
// Float32 3x3, 2^21 pixels, one thread, Zen 4, ms copied | in place:
//     planes of 64x64 1.9 | 6.1   256x256 2.1 | 3.0   512x512 1.9 | 2.1   1024x1024 1.4 | 1.3
constexpr int64_t kWideRow = 1024;

constexpr int64_t kCacheLine = 64;

// The layout of an input row under a range of output columns, in segments: tap j of output x is element offset(j) + x
// of the row at any stride.
//
//   dense   segment f holds the pixels first + f, first + f + stride, ...    (stride 1: one segment, the extended row)
//   sparse  segment j holds the pixels under tap j, if this takes less memory: for wide dilations
class RowLayout {
 public:
  RowLayout(const Image& image, int64_t pixel, const Placement& place, int64_t kw)
      : image_(image), pixel_(pixel), place_(place), offsets_(kw) {}

  // Lays out the rows of the outputs `x`. `plain`: rows may be the image's own memory; `lanes`: of a register.
  void open(Range x, bool plain, int64_t lanes) {
    count_ = x.size();
    const int64_t kw = int64_t(offsets_.size()), span = (kw - 1) * place_.dilation_x, stride = place_.stride_x;
    first_ = x.begin * stride - place_.pad_x;
    inside_ = first_ >= 0 && first_ + (count_ - 1) * stride + span < image_.w;
    in_place_ = plain && inside_ && count_ * pixel_ >= lanes;

    const int64_t dense = count_ + span / stride, phases = std::min(stride, span + 1);
    sparse_ = !in_place_ && kw * count_ < phases * dense;
    segments_ = sparse_ ? kw : phases;
    if (!sparse_) count_ = dense;
    for (int64_t j = 0; j < kw; ++j) {
      const int64_t d = j * place_.dilation_x;
      offsets_[j] = (sparse_ ? j * count_ : d % stride * count_ + d / stride) * pixel_;
    }
    length_ = segments_ * count_ * pixel_ + lanes;  // the last register of a row may read past its end
    find_edges();
  }

  const int64_t* offsets() const { return offsets_.data(); }
  int64_t first() const { return first_; }    // pixel
  int64_t length() const { return length_; }  // elements of a row
  bool inside() const { return inside_; }     // no window covers pixels outside
  bool in_place() const { return in_place_; }
  // The pixels of the image that a row holds, without pixels that the border repeats.
  Range columns() const {
    const int64_t begin = std::clamp<int64_t>(first_, 0, image_.w);
    return {begin, std::clamp<int64_t>(first_ + count_ * place_.stride_x, begin, image_.w)};
  }

  // Writes a row. read(x, step, n, to) reads the n pixels x, x + step, ... of the image; `value` is the border's.
  template <typename A, typename Read>
  void gather(A* dst, A value, Read read) const;

 private:
  // A pixel of a row outside the image, and the pixel of the row that it repeats.
  struct Edge {
    int64_t to, from;
  };

  // Lists the pixels of a row that extends the image by a few pixels and holds the pixels that they repeat.
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

  // Extends a segment whose pixels `in` are read. A pixel outside repeats the one that is a period nearer to the image,
  // with `replicate` the next one.
  template <typename A, typename Read>
  void extend(A* dst, int64_t start, Range in, const Read& read) const;

  const Image& image_;
  const int64_t pixel_;  // interleaved channels
  const Placement& place_;
  int64_t first_ = 0, count_ = 0, segments_ = 0, length_ = 0;  // count_: pixels of a segment
  bool inside_ = false, in_place_ = false, sparse_ = false;
  Range near_{};  // the pixels inside, if edges_ holds all others
  std::vector<Edge> edges_;
  std::vector<int64_t> offsets_;
};

template <typename A, typename Read>
void RowLayout::gather(A* dst, A value, Read read) const {
  if (near_.size() > 0) {
    read(first_ + near_.begin, 1, near_.size(), dst + near_.begin * pixel_);
    for (const Edge& edge : edges_)
      for (int64_t k = 0; k < pixel_; ++k) dst[edge.to + k] = dst[edge.from + k];
    return;
  }
  const int64_t step = place_.stride_x;
  const bool extends = map_index<int64_t>(-1, image_.w, place_.border) >= 0;  // by pixels, not by `value`
  for (int64_t s = 0; s < segments_; ++s, dst += count_ * pixel_) {
    const int64_t start = first_ + s * (sparse_ ? place_.dilation_x : 1);
    const Range in = positions_inside({0, count_}, start, step, image_.w);
    if (in.size() > 0) read(start + in.begin * step, step, in.size(), dst + in.begin * pixel_);
    if (extends) {
      extend(dst, start, in, read);
    } else {
      std::fill(dst, dst + in.begin * pixel_, value);
      std::fill(dst + in.end * pixel_, dst + count_ * pixel_, value);
    }
  }
}

template <typename A, typename Read>
void RowLayout::extend(A* dst, int64_t start, Range in, const Read& read) const {
  const int64_t step = place_.stride_x, whole = period_of(place_.border, image_.w);
  const int64_t period = step > 1 ? count_ : std::max<int64_t>(1, whole);
  const Range base{whole ? in.begin : std::max(in.begin, in.end - 1), whole ? count_ : std::min(count_, in.begin + 1)};
  const auto read_one = [&](int64_t i) {
    read(map_index(start + i * step, image_.w, place_.border), 1, 1, dst + i * pixel_);
  };
  const auto whole_periods = [&](int64_t n) { return n < period ? 0 : n / period * period; };  // seldom divides
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

// The input rows of a range of output columns. The rows of a plane are kept in `slots` slots of its position, and are
// read once while they stay there. Rows that need no conversion and no border are the image's own memory.
template <typename A>
class InputRows {
 public:
  InputRows(const Image& image, int64_t pixel, const Placement& place, int64_t kw)
      : image_(image),
        pixel_(pixel),
        place_(place),
        read_(pixel_reader<A>(image.dtype)),
        layout_(image, pixel, place, kw) {}

  // Whether rows can be the image's own memory where windows are inside the image.
  bool plain() const { return image_.dtype == kDtypeOf<A> && image_.stride_w == pixel_ && place_.stride_x == 1; }

  struct Plane {
    const char* data;  // null: outside the volume
    int64_t z, position;
  };

  // Input plane z (at any distance outside) of a channel of sample n, whose rows are kept at `position`.
  Plane plane(int64_t n, int64_t c, int64_t z, int64_t position) const {
    const int64_t m = map_index(z, image_.d, place_.border);
    return {m < 0 ? nullptr : pixel_of(image_, n, c, m, 0, 0), m, position};
  }

  // Selects the outputs `x` of `positions` planes. Planes of one position must belong to one channel and sample. With
  // as many slots as the image has rows, each row has its own slot.
  void open(Range x, int64_t positions, int64_t slots) {
    if (x.begin == x_.begin && x.end == x_.end && slots == slots_ && positions == positions_) return forget();
    x_ = x, positions_ = positions, slots_ = slots;
    layout_.open(x, plain(), kLanes<A>);
    const int64_t rows = layout_.in_place() ? 0 : slots * positions;
    outside_.assign(layout_.length(), place_.border == Border::constant ? A(place_.value) : A(0));
    tags_.assign(rows, -1);
    buffer_.resize(std::max<size_t>(buffer_.size(), rows * layout_.length()));
  }

  const int64_t* offsets() const { return layout_.offsets(); }
  bool inside() const { return layout_.inside(); }

  // Forgets the rows in all slots, for planes of another channel or sample.
  void forget() { std::fill(tags_.begin(), tags_.end(), -1); }

  // Input row y (at any distance outside) of a plane. It stays valid until another row is read into `slot`.
  const A* row(const Plane& plane, int64_t y, int64_t slot) {
    const int64_t m = map_index(y, image_.h, place_.border);
    if (m < 0 || !plane.data) return outside_.data();
    const char* src = plane.data + m * image_.stride_h * size_of(image_.dtype);
    if (layout_.in_place()) return reinterpret_cast<const A*>(src) + layout_.first() * pixel_;
    const int64_t at = plane.position * slots_ + (slots_ == image_.h ? m : slot), tag = plane.z * image_.h + m;
    A* dst = buffer_.data() + at * layout_.length();
    if (tags_[at] != tag) {
      tags_[at] = tag;
      layout_.gather(dst, A(place_.value), [&](int64_t x, int64_t step, int64_t n, A* to) {
        read_(src + x * image_.stride_w * size_of(image_.dtype), image_.stride_w * step, n, pixel_, to);
      });
    }
    return dst;
  }

  // Prefetches the pixels of input row y, if the image has the row, dense and in A.
  // (Inline: g++ 12 takes a function that only prefetches for one without effects, and omits its calls.)
  TC_HD void fetch(const Plane& plane, int64_t y) const {
    if (y < 0 || y >= image_.h || !plane.data || image_.dtype != kDtypeOf<A> || image_.stride_w != pixel_) return;
    const Range columns = layout_.columns();
    const char* row = plane.data + y * image_.stride_h * size_of(image_.dtype);
    const int64_t bytes = pixel_ * int64_t(sizeof(A));
    for (int64_t at = columns.begin * bytes; at < columns.end * bytes; at += kCacheLine) __builtin_prefetch(row + at);
  }

  // A row of ones for pixels inside the image and zeros for the others.
  const A* inside_row() {
    mask_.assign(layout_.length(), A(0));
    layout_.gather(mask_.data(), A(0), [&](int64_t, int64_t, int64_t n, A* to) { std::fill_n(to, n * pixel_, A(1)); });
    return mask_.data();
  }

 private:
  const Image& image_;
  const int64_t pixel_;  // interleaved channels
  const Placement& place_;
  const ReadPixels<A> read_;
  Range x_{};
  int64_t positions_ = 0, slots_ = 0;
  RowLayout layout_;
  std::vector<int64_t> tags_;  // by slot: the row that it holds
  std::vector<A> buffer_, outside_, mask_;
};
