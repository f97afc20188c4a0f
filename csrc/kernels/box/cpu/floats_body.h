// The box kernel family's loops over floats. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
//   image rows --sums of columns, 8 output rows at a time--> V --extended by the border, sums of rows--> output rows
//
// The order of additions is that of kernels/box/order.h. Columns are summed for the image alone and then extended: the
// sum of a mapped column is the mapped sum.

#include "kernels/box/cpu/edges.h"
#include "kernels/box/cpu/floats_columns.h"
#include "kernels/box/cpu/floats_rows.h"
#include "kernels/box/cpu/floats_rows_long.h"

// The divisor of means: a window's pixels. With Border::skip it counts pixels inside: `rows` times the columns of
// [x - pad, x - pad + kw) in [0, w).
struct BoxCounts {
  double window;
  int64_t kw, pad, w, rows = 1;
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
        row_sums_(far_w_ ? 1 : p.kw, pixel),
        long_sums_(p.kw, pixel) {
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
    locate_columns();
    const int64_t above = box::position_in_group(p_.first_row + y.begin);
    if (!far_h_) first_blocks(y.begin - above);
    for (int64_t top = y.begin - above; top < y.end; top += kRows) {
      if (far_h_) far_columns(top);
      else columns(top);
      for (int j = 0; j < kRows; ++j)
        if (top + j >= y.begin && top + j < y.end) finish(top + j, j);
    }
  }

  // The columns of the image that the outputs x_ read, and the positions of their sums. V's row j is v(j): it begins
  // `left_` elements into an extended row, unless the border repeats columns that are elsewhere.
  void locate_columns() {
    const int64_t w = p_.in.w, first = x_.begin - p_.place.pad_x, end = x_.end - 1 - p_.place.pad_x + p_.kw;
    period_ = far_w_ ? 0 : box::row_period(p_, x_.size());
    long_ = box::is_long(p_, x_.size());
    const bool as_it_is = far_w_ || period_ > 0 || long_;
    inside_ = as_it_is ? Range{0, w} : Range{std::clamp<int64_t>(first, 0, w), std::clamp<int64_t>(end, 0, w)};
    columns_ = inside_;
    left_ = right_ = 0;
    if (period_ > 0) {
      row_of_period_.resize(period_);
      for (int64_t i = 0; i < period_; ++i) row_of_period_[i] = map_index(first + i, w, p_.place.border) * pixel_;
    } else if (!as_it_is) {
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
    edges_.find(first, left_, inside_.size(), right_, columns_.begin, w, p_.place.border, pixel_);
    in_row_ = columns_.begin == inside_.begin && columns_.end == inside_.end;
    group_.width = columns_.size() * pixel_;
    in_place_ = p_.in.dtype == kDtypeOf<A> && p_.in.stride_w == pixel_ && group_.width >= kLanes<A>;
    const int64_t round = round_up(group_.width, kLanes<A>);
    group_.last = in_place_ ? group_.width - kLanes<A> : round;
    length_ = (left_ + inside_.size() + right_) * pixel_;
    const int64_t slack = pixel_ + 2 * kLanes<A>;  // elements that the last register of a row reads behind the row
    margin_ = in_row_ ? round_up(left_ * pixel_, kLanes<A>) : 0;
    pitch_ = round_up(margin_ + std::max(round, in_row_ ? length_ - left_ * pixel_ : 0) + slack, kLanes<A>);
    sums_.ensure(kRows * pitch_);
    extended_.ensure(std::max(length_, period_ * pixel_) + slack);
    if (period_ > 0) row_sums_.open_periodic(period_ * pixel_, slack);
    else if (long_) long_sums_.open(x_.size(), w, -first);
    else row_sums_.open(length_, slack);
    ring_.ensure(round * group_.count);
    if (!in_place_) copies_.ensure(3 * kRows * round);
    outside_.assign(round, value_);
    tags_.assign(3 * kRows, -1);
    group_.blocks = ring_.data();
    for (int j = 0; j < kRows; ++j) group_.out[j] = v(j);
  }

  A* v(int j) const { return sums_.data() + j * pitch_ + margin_; }

  // The columns columns_ of row y, any distance outside. A converted row stays until its slot takes another.
  const A* row(int64_t y, bool is_trail) {
    const int64_t m = map_index(y, p_.in.h, p_.place.border);
    if (m < 0) return outside_.data();
    const char* src = pixel_of(p_.in, n_, c_, 0, m, columns_.begin);
    if (in_place_) return reinterpret_cast<const A*>(src);
    const int64_t slot = is_trail ? kSlots + (y & (kRows - 1)) : y & (kSlots - 1);
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
    edges_.extend(image, outside_sum_[j], to);
    return to;
  }

  // One period of it, from the first output's window on.
  const A* one_period(int j) {
    const A* image = v(j);
    A* to = extended_.data();
    for (const int64_t from : row_of_period_)
      for (int64_t k = 0; k < pixel_; ++k) *to++ = image[from + k];
    return extended_.data();
  }

  void long_row(int j, A* out) {
    const A *image = v(j), *before = image, *behind = image + (p_.in.w - 1) * pixel_;
    if (p_.place.border != Border::replicate) {
      outside_pixel_.assign(pixel_, outside_sum_[j]);
      before = behind = outside_pixel_.data();
    }
    long_sums_.sum(image, before, behind, scale_, out);
  }

  // Output row y, the group's row j.
  void finish(int64_t y, int j) {
    A* out = out_.row(0, c_, y);
    if (far_w_) far_row(j, out);
    else if (long_) long_row(j, out);
    else if (period_ > 0) row_sums_.sum_periodic(one_period(j), out_.length(), scale_, out);
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
  A outside_sum_[kRows] = {};  // V of a column outside
  OutputRows<A> out_;
  RowEdges edges_;
  RowSums<A> row_sums_;
  LongRowSums<A> long_sums_;
  BoxGroup<A> group_;
  int64_t n_ = 0, c_ = 0;
  Range x_{}, inside_{}, columns_{};  // outputs; columns that they read; those and the columns that the border repeats
  int64_t left_ = 0, right_ = 0, length_ = 0;  // extended columns on either side; elements of an extended row
  int64_t margin_ = 0, pitch_ = 0;             // elements before v(j), and from v(j) to v(j + 1)
  bool in_row_ = false, in_place_ = false, long_ = false;
  int64_t period_ = 0;                         // of the extended row, where its sums are made from one; or 0
  std::vector<int64_t> tags_, row_of_period_;  // row_of_period_: which elements of v(j) a period holds
  std::vector<A> outside_, outside_pixel_;
  Aligned<A> sums_, ring_, extended_, copies_;
};

template <typename A>
void group_units(const Box& p, const Plan& plan, Range units) {
  const BoxCounts counts{.window = double(p.kh) * double(p.kw), .kw = p.kw, .pad = p.place.pad_x, .w = p.in.w};
  BoxGroups<A> groups(p, counts, interleaved_channels(p.in, p.out), plan.tile_w);
  // Strips begin and end between groups of the whole image.
  const int64_t above = box::position_in_group(p.first_row);
  for_each_strip(units, above + p.out.h, plan.tile_h, [&](const RowStrip& s) {
    groups.strip(s.plane, {std::max<int64_t>(0, s.range.begin - above), s.range.end - above});
  });
}

// Along z: the planes' sums as images of depth times columns, a piece of a plane at a time.
template <typename A>
void depth_group_units(const BoxDepth& p, const Plan& plan, Range units) {
  const int64_t pixel = interleaved_channels(p.sums, p.out);
  const box::DepthPieces pieces = box::depth_pieces(p, plan);
  Box q = box::along_depth(p);
  BoxCounts counts{
      .window = double(p.kd) * double(p.kh) * double(p.kw), .kw = p.kw, .pad = p.place.pad_x, .w = p.plane_w};
  BoxGroups<A> groups(q, counts, pixel, plan.tile_w);
  const int64_t above = box::position_in_group(p.first_plane);
  for_each_strip(units, above + p.out.d, plan.tile_d, [&](const RowStrip& s) {
    const int64_t piece = s.plane % pieces.count;
    q.in.data = pixel_of(p.sums, 0, 0, 0, piece * pieces.rows, piece * pieces.columns);
    q.out.data = pixel_of(p.out, 0, 0, 0, piece * pieces.rows, piece * pieces.columns);
    q.in.w = q.out.w = pieces.columns > 0 ? std::min(pieces.columns, pieces.whole - piece * pieces.columns) : p.out.w;
    counts.rows = overlap(piece - p.place.pad_y, p.kh, p.plane_h);
    groups.strip(s.plane / pieces.count, {std::max<int64_t>(0, s.range.begin - above), s.range.end - above});
  });
}
