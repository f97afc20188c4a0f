// Windows laid out for the register tile. Text of each_isa.h: compiled once per instruction set.

// Copies `rows` rows of one value per channel into rows of `pitch` elements, which repeat the `period` values. A
// register can then be loaded from any phase.
template <typename A>
void repeat_channels(const A* src, int64_t rows, int64_t stride_c, int64_t period, int64_t pitch, A* dst) {
  for (int64_t row = 0; row < rows; ++row, dst += pitch)
    for (int64_t k = 0; k < pitch; ++k) dst[k] = k < period ? src[row + k * stride_c] : dst[k - period];
}

template <typename A>
int64_t repeat_pitch(int64_t period) {
  return period + kMaxTileVectors * kLanes<A>;
}

// The sum of |taps| in the order of the chain.
template <typename A>
A weight_of(const CpuWindow<A>& w) {
  A sum = 0;
  for (int64_t p = 0; p < w.planes; ++p)
    for (int64_t t = 0; t < w.kh * w.kw; ++t) sum += std::abs(w.taps[w.at[p] + t * w.pitch]);
  return sum;
}

// The memory of output rows: the image itself if its elements are A's or bytes and contiguous, else scratch rows, which
// are converted afterwards. (4000 x 6000 x 3 bytes by 3x3, one thread: 36 ms with scratch rows, 27 without.)
template <typename A>
class OutputRows {
 public:
  OutputRows(const Image& image, int64_t pixel) : image_(image), pixel_(pixel), write_(row_writer<A>(image.dtype)) {}

  // Selects the pixels `x` of plane z of sample n.
  void open(int64_t n, int64_t z, Range x) {
    n_ = n, z_ = z, x_ = x.begin, length_ = x.size() * pixel_;
    const bool dense = image_.stride_w == pixel_ && length_ >= kLanes<A>;
    in_place_ = dense && image_.dtype == kDtypeOf<A>, bytes_ = dense && image_.dtype == Dtype::u8;
    if (!in_place_) scratch_.resize(std::max<size_t>(scratch_.size(), kMaxTileRows * (length_ + kLanes<A>)));
  }

  int64_t length() const { return length_; }

  // Row r (0 .. kMaxTileRows) of a tile. The caller fills it and then calls done().
  A* row(int r, int64_t c, int64_t y) {
    return in_place_ ? reinterpret_cast<A*>(pixel_of(image_, n_, c, z_, y, x_))
                     : scratch_.data() + r * (length_ + kLanes<A>);
  }

  void done(const A* row, int64_t c, int64_t y) {
    if (!in_place_) write_(row, length_, pixel_of(image_, n_, c, z_, y, x_), pixel_ > 1 ? 1 : image_.stride_w);
  }

  // f(pointers to rows) computes the rows y .. y + rows - 1: sums, or bytes as store_rounded rounds them.
  template <typename F>
  void fill(int rows, int64_t c, int64_t y, const F& f) {
    if constexpr (std::is_same_v<A, float>) {
      if (bytes_) {
        uint8_t* out[kMaxTileRows];
        for (int r = 0; r < rows; ++r) out[r] = reinterpret_cast<uint8_t*>(pixel_of(image_, n_, c, z_, y + r, x_));
        return f(out);
      }
    }
    A* out[kMaxTileRows];
    for (int r = 0; r < rows; ++r) out[r] = row(r, c, y + r);
    f(out);
    for (int r = 0; r < rows; ++r) done(out[r], c, y + r);
  }

  // Writes 0 to the pixels `x` of the rows `y` (Border::zero_output).
  void zero(int64_t n, int64_t c, int64_t z, Range y, Range x) {
    if (x.size() <= 0) return;
    open(n, z, x);
    for (int64_t at = y.begin; at < y.end; ++at) {
      A* out = row(0, c, at);
      std::fill_n(out, length_, A(0));
      done(out, c, at);
    }
  }

 private:
  const Image& image_;
  const int64_t pixel_;
  const WriteRow<A> write_;
  int64_t n_ = 0, z_ = 0, x_ = 0, length_ = 0;
  bool in_place_ = false, bytes_ = false;
  std::vector<A> scratch_;
};
