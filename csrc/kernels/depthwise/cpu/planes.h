// PLANES: contiguous rows of pixels, or any layout. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
//              row 0     0 0 x x x x x 0 0      A ring in the first-level cache holds rows of the plane, converted and
//     out 0    row 1     0 0 x x x x x 0 0      padded with zeros. A register tile of R output rows and V registers
//     out 1    row 2     0 0 x x x x x 0 0      goes down them. A loaded register serves min(R, kh) rows, a tap V
//              row 3     0 0 x x x x x 0 0      registers: kh kw multiply-adds, 1 / min(R, kh) loads each.
//
// Rows outside the image are left out if all taps are finite. Only the sign of a zero may differ.

template <typename A>
class Planes {
 public:
  Planes(const Depthwise& p, const Plan& plan)
      : p_(p),
        fetch_(row_fetcher<A>(p.in.dtype)),
        read_(row_reader<A>(p.in.dtype)),
        finish_(row_finisher<A>(p.out.dtype, p.activation)),
        halve_(p.place.stride_x == 2 ? row_halver<A>(p.in.dtype) : nullptr) {
    const Placement& place = p.place;
    const bool fixed = std::is_same_v<A, float> && p.kh == p.kw && (p.kh == 3 || p.kh == 5 || p.kh == 7) &&
                       place.unit_steps_of_images();
    k_ = fixed ? p.kh : 0;
    const int64_t height = std::min<int64_t>(plan.tile_h, p.out.h);
    rows_ = fixed || height > 1 ? kLowRows : 1;
    steps_ = steps_of(std::min<int64_t>(plan.tile_w, p.out.w));
    tall_ = !fixed && rows_ == kLowRows && p.kh >= kMaxTileRows && place.stride_y == 1 && place.dilation_y == 1;
    if (fixed && tall_fits(steps_) && ceil_div(height, kTallRows) * kTallRows <= ceil_div(height, kLowRows) * kLowRows)
      rows_ = kTallRows;
    window_rows_ = (rows_ - 1) * place.stride_y + (p.kh - 1) * place.dilation_y + 1;
    pointers_.resize(window_rows_);
    // The ring holds whole planes if they fit the first-level cache.
    constexpr int64_t kPlaneElements = (24 << 10) / sizeof(A);
    const bool holds_plane =
        plan.tile_h >= p.out.h && p.in.h * (p.in.w + (p.kw - 1) * place.dilation_x) <= kPlaneElements;
    slots_ = holds_plane ? p.in.h : window_rows_;
    offset_.resize(p.kw);
    taps_.resize(round_up(p.kh * p.kw, kLanes<A>));
    in_place_ = p.out.dtype == kDtypeOf<A> && p.out.stride_w == 1 && p.activation == Activation::none;
  }

  // Computes outputs y * x of plane `plane` (n, then channels).
  void unit(int64_t plane, Range y, Range x) {
    n_ = plane / p_.out.c, c_ = plane % p_.out.c;
    source_ = pixel_of(p_.in, n_, c_ / p_.multiplier(), 0, 0, 0);
    take_window();
    open(x);
    const Placement& place = p_.place;
    next_ = INT64_MIN;
    for (int64_t top = y.begin; top < y.end; top += rows_) tile(top, int(std::min<int64_t>(rows_, y.end - top)), place);
  }

 private:
  // The width, in steps, of the tiles of a row of `width` columns: all tiles have about the same width.
  static int steps_of(int64_t width) {
    const int64_t steps = ceil_div(width, kStep<A>);
    return int(ceil_div(steps, ceil_div(steps, kMostSteps)));
  }

  void take_window() {
    const int64_t count = p_.kh * p_.kw;
    with_type(p_.weights, [&](auto t) {
      using W = decltype(t);
      const W* from = static_cast<const W*>(p_.weight) + c_ * count;
      for (int64_t i = 0; i < count; ++i) taps_[i] = to_acc<A>(from[i]);
      bias_ = p_.bias ? to_acc<A>(static_cast<const W*>(p_.bias)[c_]) : A(0);
    });
    skip_ = k_ && all_finite(taps_.data(), count);
  }

  // Lays out the rows for the output columns x.
  void open(Range x) {
    if (x.begin == x_.begin && x.end == x_.end) return;
    x_ = x;
    const Placement& place = p_.place;
    const int64_t window_width = (p_.kw - 1) * place.dilation_x, stride = place.stride_x;
    const int64_t first = x.begin * stride - place.pad_x, count = (x.size() - 1) * stride + window_width + 1;
    const Range inside = positions_inside({0, count}, first, 1, p_.in.w);
    lead_ = inside.begin, pixels_ = inside.size(), from_ = first + inside.begin;
    // Tiles read beyond the end of the row by less than a register and by the width of a window.
    segment_ = round_up(x.size() + window_width / stride + 2 * kLanes<A>, 16);
    phases_ = stride == 2 ? 2 : std::min(stride, window_width + 1);
    for (int64_t j = 0; j < p_.kw; ++j) {
      const int64_t at = j * place.dilation_x;
      offset_[j] = at % stride * segment_ + at / stride;
    }
    pitch_ = phases_ * segment_;
    line_size_ = stride == 1 ? 0 : round_up(segment_ * stride + 2 * kLanes<A>, 16);
    out_pitch_ = round_up(x.size() + 2 * kLanes<A>, 16);
    A* memory = buffer_.take((slots_ + 1) * pitch_ + line_size_ + rows_ * out_pitch_);
    std::fill_n(memory, (slots_ + 1) * pitch_ + line_size_, A(0));
    zeros_ = memory, ring_ = zeros_ + pitch_, line_ = ring_ + slots_ * pitch_, sums_ = line_ + line_size_;
    steps_ = steps_of(x.size());
    run_ = plane_run<A>(rows_, steps_, k_);
    run_last_ = plane_run<A>(rows_, int(ceil_div(x.size() % (steps_ * kStep<A>), kStep<A>)), k_);
    if (p_.out.stride_w != 1) packed_.resize(x.size() * size_of(p_.out.dtype));
  }

  // Copies input rows y .. y + rows to neighbouring slots of the ring.
  void fill(int64_t y, int64_t rows, A* to) {
    const Image& in = p_.in;
    const int64_t size = size_of(in.dtype);
    const char* from = source_ + (y * in.stride_h + from_ * in.stride_w) * size;
    if (p_.place.stride_x == 1 && in.stride_w == 1) return fetch_(from, in.stride_h, rows, pixels_, to + lead_, pitch_);
    if (halve_ && in.stride_w == 1) return halve_(from, in.stride_h, rows, pixels_, lead_, to, pitch_, segment_);
    for (int64_t r = 0; r < rows; ++r, from += in.stride_h * size, to += pitch_) {
      A* row = p_.place.stride_x == 1 ? to : line_;
      if (in.stride_w == 1) fetch_(from, 0, 1, pixels_, row + lead_, 0);
      else read_(from, in.stride_w, pixels_, row + lead_);
      if (row != to) deinterleave(to);
    }
  }

  // Pixels f, f + stride, ... of the line become segment f.
  void deinterleave(A* to) const {
    const int64_t stride = p_.place.stride_x, used = segment_ - kLanes<A>;
    if constexpr (std::is_same_v<A, float>)
      if (stride == 2) {
        for (int64_t k = 0; k < used; k += kLanes<A>) {
          const Vec<A> a = load(line_ + 2 * k), b = load(line_ + 2 * k + kLanes<A>);
          store(to + k, __builtin_shuffle(a, b, kEven.words()));
          store(to + segment_ + k, __builtin_shuffle(a, b, kOdd.words()));
        }
        return;
      }
    for (int64_t f = 0; f < phases_; ++f)
      for (int64_t k = 0; k < used; ++k) to[f * segment_ + k] = line_[f + k * stride];
  }

  // Fills the ring with input rows first .. first + count, and points pointers_ to them.
  void point(int64_t first, int64_t count) {
    const int64_t h = p_.in.h;
    // A ring that holds the plane is filled at once.
    int64_t y = std::max({next_, first, int64_t(0)});
    const int64_t end = slots_ == h ? h : std::min(first + count, h);
    while (y < end) {
      const int64_t slot = y % slots_, rows = std::min(end - y, slots_ - slot);
      fill(y, rows, ring_ + slot * pitch_);
      y += rows;
    }
    next_ = std::max(next_, std::max(end, first + count));
    int64_t at = first < 0 ? 0 : first % slots_;
    for (int64_t q = 0; q < count; ++q) {
      const bool inside = first + q >= 0 && first + q < h;
      pointers_[q] = inside ? ring_ + at * pitch_ : zeros_;
      if (inside && ++at == slots_) at = 0;
    }
    for (int64_t q = count; q < window_rows_; ++q) pointers_[q] = zeros_;
  }

  void tile(int64_t top, int count, const Placement& place) {
    const int64_t first = top * place.stride_y - place.pad_y;
    const int64_t reads = (count - 1) * place.stride_y + (p_.kh - 1) * place.dilation_y + 1;
    point(first, reads);
    const int64_t before = std::clamp<int64_t>(-first, 0, reads),
                  after = std::clamp<int64_t>(p_.in.h - first, 0, reads);
    char* const to = pixel_of(p_.out, n_, c_, 0, top, x_.begin);
    PlaneTile<A> t{.rows = pointers_.data(),
                   .x = 0,
                   .offset = offset_.data(),
                   .taps = taps_.data(),
                   .kh = p_.kh,
                   .kw = p_.kw,
                   .stride = place.stride_y,
                   .dilation = place.dilation_y,
                   .begin = skip_ ? int(before) : 0,
                   .end = skip_ ? int(after) : int(reads),
                   .bias = bias_,
                   .out = in_place_ ? reinterpret_cast<A*>(to) : sums_,
                   .pitch = in_place_ ? p_.out.stride_h : out_pitch_,
                   .count = count,
                   .lanes = 0};
    const int64_t width = x_.size(), step = steps_ * kStep<A>;
    const bool in_place = in_place_ && (!tall_ || width >= kLanes<A>);
    if (tall_) {
      if (!in_place) t.out = sums_, t.pitch = out_pitch_;
      A* out[kMaxTileRows];
      for (int r = 0; r < count; ++r) out[r] = t.out + r * t.pitch;
      const CpuWindow<A> window{.taps = t.taps, .at = kOnePlane, .planes = 1, .kh = p_.kh, .kw = p_.kw, .bias = &bias_};
      correlate(count, t.rows, window, t.offset, out, width);
    } else {
      t.lanes = step;
      for (; t.x + step <= width; t.x += step) run_(t);
      if (t.x < width) {
        t.lanes = width - t.x;
        run_last_(t);
      }
    }
    if (!in_place)
      for (int r = 0; r < count; ++r) finish(sums_ + r * out_pitch_, to + r * p_.out.stride_h * size_of(p_.out.dtype));
  }

  void finish(const A* sums, char* to) {
    const int64_t width = x_.size(), step = p_.out.stride_w;
    if (step == 1) return finish_(sums, width, to);
    finish_(sums, width, packed_.data());
    with_type(p_.out.dtype, [&](auto t) {
      using T = decltype(t);
      const T* from = reinterpret_cast<const T*>(packed_.data());
      for (int64_t x = 0; x < width; ++x) reinterpret_cast<T*>(to)[x * step] = from[x];
    });
  }

  const Depthwise& p_;
  const FetchRows<A> fetch_;
  const ReadRow<A> read_;
  const FinishRow<A> finish_;
  const HalveRows<A> halve_;
  int64_t k_ = 0;
  int rows_ = 1, steps_ = 1;
  PlaneRun<A> run_ = nullptr, run_last_ = nullptr;
  int64_t window_rows_ = 0, slots_ = 0;  // input rows under a tile's windows; in the ring
  bool tall_ = false;                    // by core/cpu/correlate.h, for windows of any height
  bool in_place_ = false, skip_ = false;
  int64_t n_ = 0, c_ = 0;
  const char* source_ = nullptr;
  Range x_{0, 0};
  int64_t lead_ = 0, pixels_ = 0, from_ = 0;  // of an input row: zeros before the pixels, the pixels, the first one
  int64_t segment_ = 0, phases_ = 0, pitch_ = 0, line_size_ = 0, out_pitch_ = 0;
  int64_t next_ = 0;  // the first input row that is not in the ring
  A bias_ = 0;
  A *zeros_ = nullptr, *ring_ = nullptr, *line_ = nullptr, *sums_ = nullptr;
  Buffer<A> buffer_;
  std::vector<const A*> pointers_;
  std::vector<int64_t> offset_;
  std::vector<A> taps_;
  std::vector<char> packed_;
};

// Calls f(plane, y, x) for each unit: a plane (n, then channels), output rows y and columns x.
template <typename F>
void each_plane_unit(const Depthwise& p, const Plan& plan, Range units, F f) {
  const int64_t tiles_x = ceil_div(p.out.w, plan.tile_w), tiles_y = ceil_div(p.out.h, plan.tile_h);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const int64_t x = unit % tiles_x * plan.tile_w, y = unit / tiles_x % tiles_y * plan.tile_h;
    f(unit / tiles_x / tiles_y, Range{y, std::min(p.out.h, y + plan.tile_h)},
      Range{x, std::min(p.out.w, x + plan.tile_w)});
  }
}

template <typename A>
void plane_units(const Depthwise& p, const Plan& plan, Range units) {
  Planes<A> planes(p, plan);
  each_plane_unit(p, plan, units, [&](int64_t plane, Range y, Range x) { planes.unit(plane, y, x); });
}
