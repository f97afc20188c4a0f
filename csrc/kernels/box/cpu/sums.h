// Sums of windows over integers. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
//    leaving  - - - - - - - - -   row y - 1 - pad_y         column sums += entering - leaving
//             | kh rows       |                             row sums[x] = row sums[x - 1]
//    entering + + + + + + + + +   row y - pad_y + kh - 1                  + columns[x + kw - 1] - columns[x - 1]
//
// Sums of few columns, and those of 16 bits, of small windows over bytes, are added up window by window, as they are
// read. Columns are summed for the image alone and then extended by the border: the sum of a mapped column is the
// mapped sum.

constexpr int kBoxRows = 4;  // output rows in one sweep: their chains of additions interleave

// Window sums of consecutive output rows of one plane, exact modulo 2^16, 2^32 or 2^64 as differences of sums that
// wrapped are.
template <typename T, typename S>
class BoxSums {
  static constexpr bool kShort = sizeof(S) == 2;
  // uint16 into float64, 3 rows of 1024^2, one thread of a Xeon with AVX-512: 8 columns window by window 0.75 ms, 9 by
  // running sums 0.98.
  static constexpr int64_t kFewColumns = 8;

 public:
  static constexpr int64_t kBlock = 256;  // elements: their sums stay in the first-level cache

  BoxSums(const Box& p, int64_t pixel)
      : p_(p),
        pixel_(pixel),
        width_(p.in.w * pixel),
        rows_(box::shorten(p.kh, p.place.pad_y, p.in.h, p.out.h, p.place.border)),
        cols_(box::shorten(p.kw, p.place.pad_x, p.in.w, p.out.w, p.place.border)),
        in_place_(p.in.stride_w == pixel),
        columns_(width_),
        zeros_(width_),
        copies_(in_place_ ? 0 : 2 * kBoxRows * width_) {}

  // From here on rows are the outputs `x` of plane (n, c), downwards from row y.
  void open(int64_t n, int64_t c, Range x, int64_t y) {
    n_ = n, c_ = c, y_ = y;
    // columns outside the image on either side
    left_ = std::max<int64_t>(0, cols_.pad - x.begin) * pixel_;
    right_ = std::max<int64_t>(0, x.end - 1 + cols_.k - cols_.pad - p_.in.w) * pixel_;
    first_ = (x.begin - cols_.pad) * pixel_ + left_;
    length_ = x.size() * pixel_;
    pitch_ = left_ + width_ + right_;
    edges_.find(-left_ / pixel_, left_ / pixel_, p_.in.w, right_ / pixel_, 0, p_.in.w, p_.place.border, pixel_);
    // The last register of a row may extend past its end.
    extended_.resize(std::max<size_t>(extended_.size(), kBoxRows * pitch_ + kLanes<S>));
    sums_.resize(std::max<size_t>(sums_.size(), (by_window_ ? kBlock : kBoxRows * length_) + kLanes<S>));
    std::fill(columns_.begin(), columns_.end(), S(0));
    S* __restrict columns = columns_.data();
    for (int64_t m = 0; m < int64_t(rows_.extra_counts.size()); ++m) {
      const T* __restrict row = this->row(m, 0);
      for (int64_t e = 0; e < width_; ++e) columns[e] += S(rows_.extra_counts[m]) * S(row[e]);
    }
    const int64_t top = y - rows_.pad;
    for (int64_t i = 0; i < rows_.k - 1; ++i) {  // the first window but its last row, which enters with it
      const T* __restrict row = this->row(top + i, 0);
      for (int64_t e = 0; e < width_; ++e) columns[e] += S(row[e]);
    }
    fresh_ = true;
  }

  // Goes on by `count` (1 .. kBoxRows) rows. The functions below number them 0, 1, ...
  void next(int count) {
    if (count == kBoxRows) advance<kBoxRows>();
    else
      for (int r = 0; r < count; ++r) advance<1>(r);
  }

  S sum(int r, int64_t e) const {
    if (!by_window_) return sums_[r * length_ + e];
    S sum = 0;
    for (int64_t j = 0; j < cols_.k; ++j) sum += extended_[r * pitch_ + first_ + e + j * pixel_];
    return sum;
  }

  // The sums of row r from `begin` on, of which `count` (up to kBlock) are read.
  const S* sums(int r, int64_t begin, int64_t count) {
    if (!by_window_) return sums_.data() + r * length_ + begin;
    cover<S, 4>(count, [&]<int V>(int64_t x) {
      Vec<S> v[V] = {};
      add_windows(r, begin + x, v);
#pragma GCC unroll 8
      for (int i = 0; i < V; ++i) store(sums_.data() + x + i * kLanes<S>, v[i]);
    });
    return sums_.data();
  }

  // The sums of row r from e on, window by window.
  template <int V>
  TC_HD void add_windows(int r, int64_t e, Vec<S> (&sums)[V]) const {
    const S* row = extended_.data() + r * pitch_ + first_ + e;
    for (int64_t j = 0; j < cols_.k; ++j, row += pixel_)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[v] += load(row + v * kLanes<S>);
  }

 private:
  const T* row(int64_t y, int slot) {
    const int64_t m = map_index(y, p_.in.h, p_.place.border);
    if (m < 0) return zeros_.data();
    const char* src = pixel_of(p_.in, n_, c_, 0, m, 0);
    if (in_place_) return reinterpret_cast<const T*>(src);
    T* copy = copies_.data() + slot * width_;
    const int64_t stride = pixel_ > 1 ? 1 : p_.in.stride_w;
    read_row<T, T>(src, stride, width_, copy);
    return copy;
  }

  template <int R>
  void advance(int at = 0) {
    const T *entering[R], *leaving[R];
    S* extended[R];
    for (int r = 0; r < R; ++r) {
      const int64_t top = y_ + r - rows_.pad;
      entering[r] = row(top + rows_.k - 1, 2 * r);
      leaving[r] = fresh_ && r == 0 ? zeros_.data() : row(top - 1, 2 * r + 1);
      extended[r] = extended_.data() + (at + r) * pitch_;
    }
    y_ += R;
    fresh_ = false;
    S* columns = columns_.data();
    const int64_t width = width_, left = left_;
#pragma GCC ivdep
    for (int64_t e = 0; e < width; ++e) {
      S sum = columns[e];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        sum += S(entering[r][e]) - S(leaving[r][e]);
        extended[r][left + e] = sum;
      }
      columns[e] = sum;
    }
    for (int r = 0; r < R; ++r) edges_.extend(extended[r] + left_, S(0), extended[r]);
    if constexpr (!kShort)
      if (!by_window_) row_sums<R>(extended, at);
  }

  template <int R>
  void row_sums(S* const (&extended)[R], int at) {
    const int64_t pixel = pixel_, kw = cols_.k, length = length_;
    const S *enter[R], *leave[R];
    S* sums[R];
    for (int r = 0; r < R; ++r) {
      leave[r] = extended[r] + first_;
      enter[r] = leave[r] + (kw - 1) * pixel;
      sums[r] = sums_.data() + (at + r) * length;
    }
    for (int r = 0; r < R; ++r) {
      for (int64_t k = 0; k < pixel; ++k) {
        S sum = 0;
        for (int64_t m = 0; m < int64_t(cols_.extra_counts.size()); ++m)
          sum += S(cols_.extra_counts[m]) * extended[r][left_ + m * pixel + k];
        for (int64_t j = 0; j < kw; ++j) sum += leave[r][j * pixel + k];
        sums[r][k] = sum;
      }
    }
    int64_t e = pixel;
    if constexpr (kScan<S>) e = scan_sums(enter, leave, sums, e);
    for (; e < length; ++e)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[r][e] = sums[r][e - pixel] + (enter[r][e] - leave[r][e - pixel]);
  }

  // SSE2 has no shuffles for this, the wide types no registers.
  template <typename U>
  static constexpr bool kScan = TC_VEC_BYTES > 16 && sizeof(U) <= 8;

  // The same, a register at a time: the prefix sum of the differences within it, on top of the last pixel's sums.
  template <int R>
  int64_t scan_sums(const S* const (&enter)[R], const S* const (&leave)[R], S* const (&sums)[R], int64_t e) const {
    using Lane = std::conditional_t<sizeof(S) == 8, int64_t, int32_t>;
    constexpr int lanes = kLanes<S>;
    const int pixel = int(std::min<int64_t>(pixel_, lanes));
    // shifts[i]: lanes move up by pixel << i, zeros (the first operand) follow. last: the sums one pixel before.
    Vec<Lane> shifts[4] = {}, last = {};
    int steps = 0;
    for (; pixel << steps < lanes; ++steps)
      for (int l = 0; l < lanes; ++l) shifts[steps][l] = l < pixel << steps ? l : lanes + l - (pixel << steps);
    for (int l = 0; l < lanes; ++l) last[l] = lanes - pixel + l % pixel;
    if (pixel_ > lanes) return e;  // nothing to scan: the plain loop's pixels are registers apart
    Vec<S> carry[R];
    for (int r = 0; r < R; ++r)
      for (int l = 0; l < lanes; ++l) carry[r][l] = sums[r][l % pixel];
    auto run = [&]<int Steps>() {
      for (; e + lanes <= length_; e += lanes)
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          Vec<S> v = load(enter[r] + e) - load(leave[r] + e - pixel);
#pragma GCC unroll 4
          for (int s = 0; s < Steps; ++s) v = v + __builtin_shuffle(Vec<S>{}, v, shifts[s]);
          v = v + carry[r];
          carry[r] = __builtin_shuffle(v, last);
          store(sums[r] + e, v);
        }
    };
    switch (steps) {
      case 0: run.template operator()<0>(); break;
      case 1: run.template operator()<1>(); break;
      case 2: run.template operator()<2>(); break;
      case 3: run.template operator()<3>(); break;
      case 4: run.template operator()<4>(); break;
    }
    return e;
  }

  const Box& p_;
  const int64_t pixel_, width_;
  const box::ShortWindow rows_, cols_;
  const bool in_place_;
  const bool by_window_ = kShort || (cols_.k <= kFewColumns && cols_.extra_counts.empty());
  RowEdges edges_;
  int64_t n_ = 0, c_ = 0, y_ = 0;
  int64_t left_ = 0, right_ = 0, first_ = 0, length_ = 0, pitch_ = 0;  // elements; first: of output x.begin's window
  bool fresh_ = true;                                                  // no row has been given yet: none leaves
  std::vector<S> columns_, extended_, sums_;
  std::vector<T> zeros_, copies_;
};
