// The box room's loops over floats. Text of core/cpu_each_isa.h: compiled once per instruction set.
//
//   image rows --sums of columns, 8 output rows at a time--> V --extended by the border, sums of rows--> output rows
//
// The order of additions is that of box/order.h. Columns are summed for the image alone and then extended: the sum of a
// mapped column is the mapped sum.

// What one group of rows is made of. Elements stand in chunks of a register; the last chunk of a row that lies in the
// image itself begins `last` elements from its start, so that it ends where the row does.
template <typename A>
struct BoxGroup {
  static constexpr int kRows = box::kGroup;
  const A* rows[2 * kRows - 1];  // one chain: rows t0 ..; else the lead's
  const A* rest[kRows - 1];
  const A* trail[kRows];
  A* out[kRows];
  A* blocks = nullptr;            // chunk by chunk, `count` registers each: the ring
  int64_t count = 0, oldest = 0;  // of the ring; the oldest is replaced by the trail's block
  int64_t width = 0, last = 0;

  template <typename F>
  void each_chunk(const F& f) const {
    for (int64_t e = 0; e < width; e += kLanes<A>) f(std::min(e, last), e * count);
  }
};

// At most 8 rows of a window: chains of their own.
template <typename A, int KH>
void add_chains(const BoxGroup<A>& g) {
  g.each_chunk([&](int64_t e, int64_t) {
    Vec<A> rows[box::kGroup + KH - 1];
#pragma GCC unroll 16
    for (int i = 0; i < box::kGroup + KH - 1; ++i) rows[i] = load(g.rows[i] + e);
#pragma GCC unroll 8
    for (int j = 0; j < box::kGroup; ++j) {
      Vec<A> sum = rows[j];
#pragma GCC unroll 8
      for (int i = 1; i < KH; ++i) sum = sum + rows[j + i];
      store(g.out[j] + e, sum);
    }
  });
}

template <typename A>
Vec<A> trail_block(const BoxGroup<A>& g, int64_t e) {
  const auto row = [&](int i) { return load(g.trail[i] + e); };
  return box::block_sum<Vec<A>>(row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7));
}

// More than 8 rows; Rest: rows between the lead and the blocks. Middle: there is something between lead and trail.
template <typename A, int Rest, bool Middle>
void add_groups(const BoxGroup<A>& g) {
  constexpr int kRows = box::kGroup;
  g.each_chunk([&](int64_t e, int64_t at) {
    Vec<A> middle = {};
    if constexpr (Rest > 0) {
      middle = load(g.rest[0] + e);
#pragma GCC unroll 8
      for (int i = 1; i < Rest; ++i) middle = middle + load(g.rest[i] + e);
    }
    if (g.count > 0) {
      A* const ring = g.blocks + at;
      const auto block = [&](int64_t i) { return load(ring + i * kLanes<A>); };
      int64_t i = g.oldest;
      middle = Rest > 0 ? middle + block(i) : block(i);
      for (++i; i < g.count; ++i) middle = middle + block(i);
      for (i = 0; i < g.oldest; ++i) middle = middle + block(i);
      store(ring + g.oldest * kLanes<A>, trail_block(g, e));
    }
    Vec<A> lead[kRows];
    lead[kRows - 1] = load(g.rows[kRows - 1] + e);
#pragma GCC unroll 8
    for (int j = kRows - 2; j >= 0; --j) lead[j] = load(g.rows[j] + e) + lead[j + 1];
    Vec<A> trail = load(g.trail[0] + e);
#pragma GCC unroll 8
    for (int j = 0; j < kRows; ++j) {
      if (j > 0) trail = trail + load(g.trail[j] + e);
      store(g.out[j] + e, (Middle ? lead[j] + middle : lead[j]) + trail);
    }
  });
}

template <typename A>
using AddGroup = void (*)(const BoxGroup<A>&);

template <typename A>
AddGroup<A> group_adder(int64_t kh) {
  static constexpr AddGroup<A> chains[] = {add_chains<A, 1>, add_chains<A, 2>, add_chains<A, 3>, add_chains<A, 4>,
                                           add_chains<A, 5>, add_chains<A, 6>, add_chains<A, 7>, add_chains<A, 8>};
  static constexpr AddGroup<A> groups[] = {add_groups<A, 0, true>, add_groups<A, 1, true>, add_groups<A, 2, true>,
                                           add_groups<A, 3, true>, add_groups<A, 4, true>, add_groups<A, 5, true>,
                                           add_groups<A, 6, true>, add_groups<A, 7, true>};
  if (box::one_chain(kh)) return chains[kh - 1];
  return kh == box::kGroup + 1 ? add_groups<A, 0, false> : groups[box::rest_of(kh)];
}

// What makes an output of a sum: sum * hi + sum * lo, or the sum itself.
template <typename A>
struct BoxScale {
  bool mean;
  box::Reciprocal<A> r;
  TC_HD Vec<A> of(Vec<A> sum) const { return mean ? fma(sum, splat(r.hi), sum * splat(r.lo)) : sum; }
};

// One doubling of the elements `range`: s'[i] = s[i] + s[i + m], and t'[i] = s'[i] + t[i + 2m], or s'[i] where there is
// no t yet. In place: what is read lies ahead of what is written.
template <typename A, bool HasT, bool GivesT>
void double_sums(const A* s, const A* t, int64_t m, Range range, A* s_out, A* t_out) {
  for (int64_t i = range.begin; i < range.end; i += kLanes<A>) {
    const Vec<A> sum = load(s + i) + load(s + i + m);
    if constexpr (GivesT) {
      const Vec<A> total = HasT ? sum + load(t + i + 2 * m) : sum;
      store(t_out + i, total);
    }
    store(s_out + i, sum);
  }
}

// The last one, to outputs.
template <typename A, bool HasT>
void finish_sums(const A* s, const A* t, int64_t m, Range range, const BoxScale<A>& scale, A* out) {
  const auto total = [&](int64_t i) {
    const Vec<A> sum = m > 0 ? load(s + i) + load(s + i + m) : load(s + i);
    return scale.of(HasT ? sum + load(t + i + 2 * m) : sum);
  };
  int64_t i = range.begin;
  for (; i + kLanes<A> <= range.end; i += kLanes<A>) store(out + i, total(i));
  if (i < range.end) {
    const Vec<A> rest = total(i);
    __builtin_memcpy(out + i, &rest, (range.end - i) * sizeof(A));
  }
}

// Memory that starts on a register's bytes: loads and stores that straddle two lines of the cache take twice as long.
template <typename A>
class Aligned {
 public:
  void ensure(int64_t size) {
    if (size <= size_) return;
    size_ = size;
    memory_.assign(size + kLanes<A>, A(0));
    const uintptr_t start = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (TC_VEC_BYTES - start % TC_VEC_BYTES) % TC_VEC_BYTES / sizeof(A);
  }
  A* data() const { return data_; }

 private:
  int64_t size_ = 0;
  A* data_ = nullptr;
  std::vector<A> memory_;
};

// Sums of kw neighbours, `pixel` elements apart, along rows. All doublings march along the row together, each as far
// behind the one before as it reads ahead, so that what they hand on stays in the first-level cache.
template <typename A>
class RowSums {
  static constexpr int64_t kBlock = 4096 / sizeof(A);

 public:
  RowSums(int64_t kw, int64_t pixel) : pixel_(pixel), odd_(kw & 1) {
    bool has = odd_;
    int64_t m = 1;
    for (; 4 * m <= kw; m *= 2) {
      const bool gives = kw & (2 * m);
      const auto run =
          gives ? (has ? double_sums<A, true, true> : double_sums<A, false, true>) : double_sums<A, false, false>;
      steps_.push_back({run, gives, m * pixel, 0});
      has |= gives;
    }
    last_ = kw > 1 ? m * pixel : 0;
    finish_ = kw > 1 && has ? finish_sums<A, true> : finish_sums<A, false>;
  }

  // Rows of `length` elements; `slack` more may be read.
  void open(int64_t length, int64_t slack) {
    length_ = length;
    s_.ensure(length + slack), t_.ensure(length + slack);
  }

  void sum(const A* row, int64_t outputs, const BoxScale<A>& scale, A* out) {
    for (Step& step : steps_) step.done = 0;
    const auto behind = [](int64_t end, int64_t m) { return std::max<int64_t>(0, end - round_up(2 * m, kLanes<A>)); };
    for (int64_t front = kBlock, done = 0; done < outputs; front += kBlock) {
      const A *s = row, *t = odd_ ? row : nullptr;
      int64_t end = front;
      bool whole = false;  // the doubling before has finished its row
      for (Step& step : steps_) {
        const int64_t length = round_up(length_ - 2 * step.m + pixel_, kLanes<A>);
        if (s != row) end = whole ? length : behind(end, step.m);
        whole = end >= length;
        end = std::min(end, length);
        if (end > step.done) step.run(s, t, step.m, {step.done, end}, s_.data(), t_.data());
        step.done = std::max(step.done, end);
        s = s_.data();
        if (step.gives) t = t_.data();
      }
      if (steps_.empty() || whole) end = outputs;
      else end = std::min(outputs, behind(end, last_));
      if (end > done) finish_(s, t, last_, {done, end}, scale, out);
      done = std::max(done, end);
    }
  }

 private:
  struct Step {
    void (*run)(const A*, const A*, int64_t, Range, A*, A*);
    bool gives;
    int64_t m, done;
  };
  const int64_t pixel_;
  const bool odd_;
  std::vector<Step> steps_;
  int64_t last_ = 0, length_ = 0;
  void (*finish_)(const A*, const A*, int64_t, Range, const BoxScale<A>&, A*);
  Aligned<A> s_, t_;
};

// What means divide by: the pixels of a window, or with Border::skip those inside, `rows` times the rows times those of
// [x - pad, x - pad + kw) in [0, w).
struct BoxCounts {
  int64_t window, kw, pad, w, rows = 1;
};

template <typename A>
class BoxGroups {
  static constexpr int kRows = box::kGroup;
  static constexpr int64_t kSlots = 2 * kRows;  // converted rows of the lead and the rest, as many of the trail

 public:
  BoxGroups(const Box& p, const BoxCounts& counts, int64_t pixel, int64_t tile_w)
      : p_(p),
        counts_(counts),
        pixel_(pixel),
        tile_w_(tile_w),
        far_h_(box::is_far(p.kh, p.whole_h)),
        far_w_(box::is_far(p.kw, p.whole_w)),
        read_(row_reader<A>(p.in.dtype)),
        add_(group_adder<A>(p.kh)),
        scale_{p.scale != 1 && !p.place.normalized, box::reciprocal<A>(counts.window)},
        value_(p.place.border == Border::constant ? A(p.place.value) : A(0)),
        out_(p.out, pixel),
        row_sums_(far_w_ ? 1 : p.kw, pixel) {
    if (!far_h_ && !box::one_chain(p.kh)) group_.count = box::blocks_of(p.kh);
    if (value_ == 0) return;
    for (int j = 0; j < kRows; ++j)
      outside_sum_[j] =
          far_h_ ? A(double(p.kh) * double(value_)) : box::column_sum<A>([&](int64_t) { return value_; }, p.kh, j);
  }

  void strip(int64_t plane, Range y) {
    const int64_t channels = pixel_ > 1 ? 1 : p_.in.c;
    n_ = plane / channels, c_ = plane % channels;
    Range x{0, p_.out.w};
    if (p_.place.border == Border::zero_output) {
      const Range rows = outputs_inside(y, p_.kh, p_.place.pad_y, 1, 1, p_.in.h);
      const Range columns = outputs_inside(x, p_.kw, p_.place.pad_x, 1, 1, p_.in.w);
      out_.zero(n_, c_, 0, {y.begin, rows.begin}, x);
      out_.zero(n_, c_, 0, {rows.end, y.end}, x);
      out_.zero(n_, c_, 0, rows, {0, columns.begin});
      out_.zero(n_, c_, 0, rows, {columns.end, p_.out.w});
      y = rows, x = columns;
    }
    if (y.size() <= 0) return;
    for (; x.begin < x.end; x.begin += tile_w_) section(y, {x.begin, std::min(x.end, x.begin + tile_w_)});
  }

 private:
  void section(Range y, Range x) {
    x_ = x;
    out_.open(n_, 0, x);
    place_columns();
    const int64_t above = box::place_in_group(p_.first_row + y.begin);
    if (!far_h_) first_blocks(y.begin - above);
    for (int64_t top = y.begin - above; top < y.end; top += kRows) {
      if (far_h_) far_columns(top);
      else columns(top);
      for (int j = 0; j < kRows; ++j)
        if (top + j >= y.begin && top + j < y.end) finish(top + j, j);
    }
  }

  // Which columns of the image the outputs x_ read, and where their sums stand: V's row j is v(j), `left_` elements
  // into an extended row unless the border repeats columns that lie elsewhere.
  void place_columns() {
    const int64_t w = p_.in.w, first = x_.begin - p_.place.pad_x, end = x_.end - 1 - p_.place.pad_x + p_.kw;
    inside_ = far_w_ ? Range{0, w} : Range{std::clamp<int64_t>(first, 0, w), std::clamp<int64_t>(end, 0, w)};
    columns_ = inside_;
    left_ = right_ = 0;
    if (!far_w_) {
      left_ = (inside_.size() > 0 ? inside_.begin : end) - first, right_ = end - first - inside_.size() - left_;
      const auto read = [&](int64_t from, int64_t to) {
        for (int64_t at = from; at < to; ++at) {
          const int64_t m = map_index(at, w, p_.place.border);
          if (m < 0) return;  // the same anywhere outside
          if (columns_.size() == 0) columns_ = {m, m + 1};
          columns_ = {std::min(columns_.begin, m), std::max(columns_.end, m + 1)};
        }
      };
      read(first, first + left_);
      read(end - right_, end);
    }
    in_row_ = columns_.begin == inside_.begin && columns_.end == inside_.end;
    group_.width = columns_.size() * pixel_;
    in_place_ = p_.in.dtype == kDtypeOf<A> && p_.in.stride_w == pixel_ && group_.width >= kLanes<A>;
    const int64_t round = round_up(group_.width, kLanes<A>);
    group_.last = in_place_ ? group_.width - kLanes<A> : round;
    length_ = (left_ + inside_.size() + right_) * pixel_;
    const int64_t slack = pixel_ + 2 * kLanes<A>;  // what the last register of a row reads behind it
    margin_ = in_row_ ? round_up(left_ * pixel_, kLanes<A>) : 0;
    pitch_ = round_up(margin_ + std::max(round, in_row_ ? length_ - left_ * pixel_ : 0) + slack, kLanes<A>);
    sums_.ensure(kRows * pitch_);
    extended_.ensure(length_ + slack);
    row_sums_.open(length_, slack);
    ring_.ensure(round * group_.count);
    if (!in_place_) copies_.ensure(3 * kRows * round);
    outside_.assign(round, value_);
    tags_.assign(3 * kRows, -1);
    group_.blocks = ring_.data();
    for (int j = 0; j < kRows; ++j) group_.out[j] = v(j);
  }

  A* v(int j) const { return sums_.data() + j * pitch_ + margin_; }

  // The columns columns_ of row y, any distance outside. A converted row stays until its slot takes another.
  const A* row(int64_t y, bool of_trail) {
    const int64_t m = map_index(y, p_.in.h, p_.place.border);
    if (m < 0) return outside_.data();
    const char* src = pixel_of(p_.in, n_, c_, 0, m, columns_.begin);
    if (in_place_) return reinterpret_cast<const A*>(src);
    const int64_t slot = of_trail ? kSlots + (y & (kRows - 1)) : y & (kSlots - 1);
    A* copy = copies_.data() + slot * round_up(group_.width, kLanes<A>);
    if (tags_[slot] != m) read_(src, pixel_ > 1 ? 1 : p_.in.stride_w, group_.width, copy);
    tags_[slot] = m;
    return copy;
  }

  void find_trail(int64_t first) {
    for (int i = 0; i < kRows; ++i) group_.trail[i] = row(first + i, true);
  }

  // The blocks that are the middle of the group whose first output is `top`.
  void first_blocks(int64_t top) {
    group_.oldest = 0;
    const int64_t end = top - p_.place.pad_y + p_.kh - 1;
    for (int64_t i = 0; i < group_.count; ++i) {
      find_trail(end - (group_.count - i) * kRows);
      group_.each_chunk(
          [&](int64_t e, int64_t at) { store(ring_.data() + at + i * kLanes<A>, trail_block(group_, e)); });
    }
  }

  void columns(int64_t top) {
    const int64_t first = top - p_.place.pad_y;
    if (box::one_chain(p_.kh)) {
      for (int i = 0; i < kRows - 1 + p_.kh; ++i) group_.rows[i] = row(first + i, false);
    } else {
      for (int i = 0; i < kRows; ++i) group_.rows[i] = row(first + i, false);
      for (int i = 0; i < box::rest_of(p_.kh); ++i) group_.rest[i] = row(first + kRows + i, false);
      find_trail(first + p_.kh - 1);
    }
    add_(group_);
    if (group_.count > 0) group_.oldest = (group_.oldest + 1) % group_.count;
  }

  void far_columns(int64_t top) {
    const int64_t h = p_.in.h;
    std::vector<double> sums(group_.width);
    for (int j = 0; j < kRows; ++j) {
      std::fill(sums.begin(), sums.end(), 0.0);
      const int64_t first = top + j - p_.place.pad_y;
      int64_t outside = p_.kh;
      for (int64_t m = 0; m < h; ++m) {
        const int64_t times = box::reads_of(m, first, p_.kh, h, p_.place.border);
        outside -= times;
        if (times == 0) continue;  // 0 * Inf
        const A* from = row(m, false);
        for (int64_t e = 0; e < group_.width; ++e) sums[e] = __builtin_fma(double(times), double(from[e]), sums[e]);
      }
      for (int64_t e = 0; e < group_.width; ++e)
        v(j)[e] = A(value_ != 0 ? __builtin_fma(double(outside), double(value_), sums[e]) : sums[e]);
    }
  }

  // V's row j, extended by the border.
  const A* extended(int j) {
    const A* image = v(j);
    A* to = in_row_ ? v(j) - left_ * pixel_ : extended_.data();
    if (!in_row_)
      std::copy_n(image + (inside_.begin - columns_.begin) * pixel_, inside_.size() * pixel_, to + left_ * pixel_);
    const int64_t first = x_.begin - p_.place.pad_x;
    const auto fill = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t m = map_index(first + i, p_.in.w, p_.place.border);
        for (int64_t k = 0; k < pixel_; ++k)
          to[i * pixel_ + k] = m < 0 ? outside_sum_[j] : image[(m - columns_.begin) * pixel_ + k];
      }
    };
    fill(0, left_);
    fill(left_ + inside_.size(), left_ + inside_.size() + right_);
    return to;
  }

  // Output row y, the group's row j.
  void finish(int64_t y, int j) {
    A* out = out_.row(0, c_, y);
    if (far_w_) far_row(j, out);
    else row_sums_.sum(extended(j), out_.length(), scale_, out);
    if (p_.place.normalized) divide(out, y);
    out_.done(out, c_, y);
  }

  void far_row(int j, A* out) {
    const int64_t w = p_.in.w;
    const A* sums = v(j);
    for (int64_t x = x_.begin; x < x_.end; ++x)
      for (int64_t k = 0; k < pixel_; ++k) {
        double sum = 0;
        int64_t outside = p_.kw;
        for (int64_t m = 0; m < w; ++m) {
          const int64_t times = box::reads_of(m, x - p_.place.pad_x, p_.kw, w, p_.place.border);
          outside -= times;
          if (times > 0) sum = __builtin_fma(double(times), double(sums[m * pixel_ + k]), sum);
        }
        if (value_ != 0) sum = __builtin_fma(double(outside), double(outside_sum_[j]), sum);
        const A total = A(sum);
        out[(x - x_.begin) * pixel_ + k] = scale_.mean ? box::mean_of_sum(total, scale_.r) : total;
      }
  }

  // Border::skip: by the pixels inside.
  void divide(A* __restrict out, int64_t y) const {
    const int64_t rows = counts_.rows * overlap(y - p_.place.pad_y, p_.kh, p_.in.h);
    for (int64_t x = x_.begin, e = 0; x < x_.end; ++x) {
      const int64_t inside = rows * overlap(x - counts_.pad, counts_.kw, counts_.w);
      for (int64_t k = 0; k < pixel_; ++k, ++e) out[e] = inside > 0 ? out[e] / A(inside) : A(0);
    }
  }

  const Box& p_;
  const BoxCounts& counts_;
  const int64_t pixel_, tile_w_;
  const bool far_h_, far_w_;
  const ReadRow<A> read_;
  const AddGroup<A> add_;
  const BoxScale<A> scale_;
  const A value_;
  A outside_sum_[kRows] = {};  // V where no column stands
  OutputRows<A> out_;
  RowSums<A> row_sums_;
  BoxGroup<A> group_;
  int64_t n_ = 0, c_ = 0;
  Range x_{}, inside_{}, columns_{};           // outputs; columns that they read; those and what the border repeats
  int64_t left_ = 0, right_ = 0, length_ = 0;  // extended columns on either side; elements of an extended row
  int64_t margin_ = 0, pitch_ = 0;             // elements before v(j), and from v(j) to v(j + 1)
  bool in_row_ = false, in_place_ = false;
  std::vector<int64_t> tags_;
  std::vector<A> outside_;
  Aligned<A> sums_, ring_, extended_, copies_;
};

template <typename A>
void group_units(const Box& p, const Plan& plan, Range units) {
  const BoxCounts counts{.window = p.kh * p.kw, .kw = p.kw, .pad = p.place.pad_x, .w = p.in.w};
  BoxGroups<A> groups(p, counts, interleaved_channels(p.in, p.out), plan.tile_w);
  // Strips begin and end between groups of the whole image.
  const int64_t above = box::place_in_group(p.first_row);
  for_each_strip(units, above + p.out.h, plan.tile_h, [&](const Strip& s) {
    groups.strip(s.plane, {std::max<int64_t>(0, s.range.begin - above), s.range.end - above});
  });
}

// Along z: the planes' sums as images of depth times columns, a piece of a plane at a time.
template <typename A>
void depth_group_units(const BoxDepth& p, const Plan& plan, Range units) {
  const int64_t pixel = interleaved_channels(p.sums, p.out);
  const box::DepthPieces pieces = box::depth_pieces(p, plan);
  Box q = box::along_depth(p);
  BoxCounts counts{.window = p.kd * p.kh * p.kw, .kw = p.kw, .pad = p.place.pad_x, .w = p.plane_w};
  BoxGroups<A> groups(q, counts, pixel, plan.tile_w);
  const int64_t above = box::place_in_group(p.first_plane);
  for_each_strip(units, above + p.out.d, plan.tile_d, [&](const Strip& s) {
    const int64_t piece = s.plane % pieces.count;
    q.in.data = pixel_of(p.sums, 0, 0, 0, piece * pieces.rows, piece * pieces.columns);
    q.out.data = pixel_of(p.out, 0, 0, 0, piece * pieces.rows, piece * pieces.columns);
    q.in.w = q.out.w = pieces.columns > 0 ? std::min(pieces.columns, pieces.whole - piece * pieces.columns) : p.out.w;
    counts.rows = overlap(piece - p.place.pad_y, p.kh, p.plane_h);
    groups.strip(s.plane / pieces.count, {std::max<int64_t>(0, s.range.begin - above), s.range.end - above});
  });
}
