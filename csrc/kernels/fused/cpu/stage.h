// One stage of a chain on the CPU. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
//     extended row of the image or of   row pass                         column pass, point
//     the previous stage's outputs      --------> ring of rows of sums,  -----------------> rows of outputs
//     (once per row, first to last)               one a window
//
// Rows and columns outside the stage's input are mapped into it, so every row is made once. The outputs need the mapped
// rows for their own windows, too. A circular image is read periodically instead, because filtering commutes with
// repeating. Its rows are mapped if the window is taller than the image.

template <typename A>
class FusedStage {
 public:
  // `pixel`: interleaved channels that are filtered as one row, see interleaved_channels. The stage reads `channels`
  // planes of h x w.
  FusedStage(const Fused& p, int index, int channels, int64_t h, int64_t w, int64_t pixel)
      : stage_(p.stages[index]),
        thin_(stage_.point == Point::thin),
        keeps_(thin_ || stage_.point == Point::sharpen),
        channels_(channels),
        h_(h),
        w_(w),
        pixel_(pixel),
        point_(row_of_point<A>(stage_.point, stage_.windows)) {
    const int64_t stride = index == p.count - 1 ? p.stride : 1;
    place_ = {.pad_y = p.valid ? 0 : stage_.kh / 2,
              .pad_x = p.valid ? 0 : stage_.kw / 2,
              .stride_y = stride,
              .stride_x = stride,
              .border = thin_ ? Border::constant : p.border,
              .value = thin_ ? 0 : p.value};
    endless_ = place_.border == Border::circular && !p.valid;
    endless_rows_ = endless_ && stage_.kh <= h;
    batch_ = stride == 1 ? int(std::min<int64_t>(kMaxTileRows, stage_.kh)) : 1;
    slots_ = batch_ - 1 + stage_.kh;
    pointers_.resize(slots_);
    if (!endless_rows_) slots_ = std::min(slots_, h);
    offset_.resize(stage_.kw);
    kept_.resize(keeps_ ? channels * slots_ : 0);
  }

  const Placement& place() const { return place_; }
  int64_t made_h() const { return h_ + 2 * place_.pad_y - stage_.kh + 1; }  // without the stride
  int64_t made_w() const { return w_ + 2 * place_.pad_x - stage_.kw + 1; }
  int batch() const { return batch_; }  // rows that are made at once
  int channels() const { return channels_; }
  int64_t row_slots() const { return keeps_ ? slots_ : 1; }  // rows that must stay where take() was given them
  int64_t slot(int64_t y) const { return y - floor_div(y, slots_) * slots_; }

  void choose_taps(int64_t n, int64_t c) {
    for (int i = 0; i < stage_.windows; ++i) {
      const Taps &x = stage_.taps_x[i], &y = stage_.taps_y[i];
      across_[i] = {.taps = static_cast<const A*>(x.data) + n * x.stride_n + c * x.stride_c,
                    .at = kOnePlane,
                    .planes = 1,
                    .kh = 1,
                    .kw = stage_.kw};
      down_[i] = {.taps = static_cast<const A*>(y.data) + n * y.stride_n + c * y.stride_c,
                  .at = kOnePlane,
                  .planes = 1,
                  .kh = stage_.kh,
                  .kw = 1};
    }
  }

  // Prepares for the output columns `x`, from any row on; returns the columns of the input that the stage needs.
  Range open(Range x, bool reads_image) {
    const int64_t stride = place_.stride_x, kw = stage_.kw;
    x_ = x, length_ = x.size() * pixel_;
    first_ = x.begin * stride - place_.pad_x;
    width_ = (x.size() - 1) * stride + kw;
    given_ = {first_, first_ + width_};
    if (!endless_) given_ = {std::max<int64_t>(first_, 0), std::min(first_ + width_, w_)};
    segment_ = x.size() + (kw - 1) / stride;
    for (int64_t j = 0; j < kw; ++j) offset_[j] = (j % stride * segment_ + j / stride) * pixel_;
    // Rows are made from a register's boundary on.
    lead_ = stride > 1 ? 0 : round_up((given_.begin - first_) * pixel_, kLanes<A>) - (given_.begin - first_) * pixel_;
    line_ = scratch_pitch<A>(lead_ + *std::max_element(offset_.begin(), offset_.end()) + length_);
    if (!reads_image || stride > 1) lines_.grow(channels_ * (keeps_ ? slots_ : kMaxTileRows) * line_);
    if (!reads_image && stride > 1) unsplit_.grow(channels_ * kMaxTileRows * scratch_pitch<A>(width_ * pixel_));
    pitch_ = scratch_pitch<A>(length_);
    ring_.grow(stage_.windows * (slots_ + 1) * pitch_);
    sums_.grow(stage_.windows * kMaxTileRows * sum_pitch());
    fits_x_ = outputs_inside(x, kw, place_.pad_x, stride, 1, w_);
    if (place_.border == Border::skip) mark_inside();
    if (place_.border == Border::constant) {
      outside_.assign(line_, A(place_.value));
      const A* rows[] = {outside_.data(), outside_.data(), outside_.data()};
      row_pass(rows, slots_);
    }
    next_ = INT64_MIN;
    return given_;
  }

  // The input rows that outputs `y` need; rows are taken one after the other, from `next` on.
  int64_t next(Range y) {
    Range rows{y.begin * place_.stride_y - place_.pad_y, (y.end - 1) * place_.stride_y - place_.pad_y + stage_.kh};
    if (endless_ && !endless_rows_) rows = {0, h_};
    else if (!endless_) rows = {std::max<int64_t>(rows.begin, 0), std::min(rows.end, h_)};
    end_ = rows.end;
    return next_ = std::max(next_, rows.begin);
  }
  int64_t end() const { return end_; }

  // Takes the next row of the image: the columns under its windows, extended by the border, which stay where they are
  // for row_slots() rows.
  void take_image(const A* row) {
    if (place_.stride_x > 1) {
      A* line = laid_out(0, next_, 0);
      split(row, line);
      row = line;
    }
    take(&row);
  }

  // The buffer for row `y`, the r-th of a batch, in the columns that open() returned; take_made then takes the row.
  A* line(int c, int64_t y, int r) {
    A* first = place_.stride_x > 1 ? unsplit(c, r) : laid_out(c, y, r);
    return first + (given_.begin - first_) * pixel_;
  }

  void take_made(int r) {
    const A* rows[Stage::kMost];
    for (int c = 0; c < channels_; ++c) {
      A* line = laid_out(c, next_, r);
      if (place_.stride_x > 1) {
        extend(unsplit(c, r));
        split(unsplit(c, r), line);
      } else {
        extend(line);
      }
      rows[c] = line;
    }
    take(rows);
  }

  // Outputs y .. y + rows - 1 (at most a batch) to out[output][row].
  void make(int64_t y, int rows, A* const (*out)[kMaxTileRows]) {
    if (thin_) return thin(y, rows, out[0]);
    if (stage_.point == Point::each) {
      for (int i = 0; i < stage_.windows; ++i) column_pass(i, y, rows, {0, length_}, out[i]);
      return;
    }
    // Piece by piece, so that sums stay in the first-level cache until `point` has read them.
    const bool zero = place_.border == Border::zero_output;
    const int64_t piece = zero ? length_ : kPiece;
    for (Range x{0, piece}; x.begin < length_; x = {x.end, x.end + piece}) {
      x.end = std::min(x.end, length_);
      A* sums[Stage::kMost][kMaxTileRows];
      for (int i = 0; i < stage_.windows; ++i) {
        for (int r = 0; r < rows; ++r) sums[i][r] = sums_.data() + (i * kMaxTileRows + r) * sum_pitch();
        column_pass(i, y, rows, x, sums[i]);
      }
      for (int r = 0; r < rows; ++r) {
        const A *row_sums[Stage::kMost], *pixels = nullptr;
        A* made[Stage::kMost];
        for (int i = 0; i < stage_.windows; ++i) row_sums[i] = sums[i][r];
        for (int o = 0; o < stage_.outputs(); ++o) made[o] = out[o][r] + x.begin;
        if (keeps_) pixels = kept(0, first_row(y + r) + stage_.kh / 2) + offset_[stage_.kw / 2] + x.begin;
        point_(row_sums, pixels, A(stage_.number), made, x.size());
        if (keeps_ && zero) zero_edges(made[0], fits(y + r, 1) == 1);
      }
    }
  }

 private:
  static constexpr int64_t kPiece = 512;

  int64_t sum_pitch() const { return scratch_pitch<A>(place_.border == Border::zero_output ? length_ : kPiece); }

  // Takes the next row, laid out by offset_.
  void take(const A* const* rows) {
    const int64_t at = slot(next_++);
    row_pass(rows, at);
    if (keeps_)
      for (int c = 0; c < channels_; ++c) kept_[c * slots_ + at] = rows[c];
  }

  int64_t first_row(int64_t y) const { return y * place_.stride_y - place_.pad_y; }
  A* ring(int i, int64_t at) { return ring_.data() + (i * (slots_ + 1) + at) * pitch_; }
  const A* kept(int c, int64_t y) const { return kept_[c * slots_ + slot(y)]; }
  A* unsplit(int c, int r) { return unsplit_.data() + (c * kMaxTileRows + r) * scratch_pitch<A>(width_ * pixel_); }
  A* laid_out(int c, int64_t y, int r) {
    const int64_t at = keeps_ ? c * slots_ + slot(y) : c * kMaxTileRows + r;
    return lines_.data() + at * line_ + lead_;
  }

  // The sums along x of the windows, of one row of each channel.
  void row_pass(const A* const* rows, int64_t slot) {
    A* sums[Stage::kMost];
    for (int i = 0; i < stage_.windows; ++i) sums[i] = ring(i, slot);
    if (channels_ == 1 && stage_.windows == 2) {
      sums_across<2>(rows[0], across_, offset_.data(), sums, length_);
    } else if (channels_ == 1 && stage_.windows == 3) {
      sums_across<3>(rows[0], across_, offset_.data(), sums, length_);
    } else {
      for (int i = 0; i < stage_.windows; ++i)
        sums_across<1>(rows[i % channels_], across_ + i, offset_.data(), sums + i, length_);
    }
    if (place_.border == Border::skip)
      for (int i = 0; i < stage_.windows; ++i) leave_out(i, rows[i % channels_], sums[i]);
  }

  // Border::skip: the ends of a row of sums again, without the taps outside.
  void leave_out(int i, const A* row, A* sums) const {
    auto again = [&](int64_t begin, int64_t end) {
      const A* at = row + begin;
      correlate_inside<false, A>(&at, inside_.data() + begin, {0, 1}, across_[i], offset_.data(), sums + begin, nullptr,
                                 end - begin);
    };
    const int64_t left = (fits_x_.begin - x_.begin) * pixel_, right = (fits_x_.end - x_.begin) * pixel_;
    if (left > 0) again(0, left);
    if (right < length_) again(right, length_);
  }

  // The number of outputs y .. y + rows - 1 whose windows have all rows inside.
  int64_t fits(int64_t y, int rows) const {
    return outputs_inside({y, y + rows}, stage_.kh, place_.pad_y, place_.stride_y, 1, h_).size();
  }

  // The sums of window i in the columns `x` (with zero_output: all).
  void column_pass(int i, int64_t y, int rows, Range x, A* const* sums) {
    const bool zero = place_.border == Border::zero_output;
    Range under{0, stage_.kh};
    if ((zero || place_.border == Border::skip) && fits(y, rows) < rows) {
      if (rows > 1) {
        for (int r = 0; r < rows; ++r) column_pass(i, y + r, 1, x, sums + r);
        return;
      }
      if (zero) return zero_edges(sums[0], false);
      under = positions_inside(under, first_row(y), 1, h_);
    }
    CpuWindow<A> window = down_[i];
    window.taps += under.begin;
    window.kh = under.size();
    for (int64_t q = 0; q < rows - 1 + window.kh; ++q) {
      const int64_t at = first_row(y) + under.begin + q, m = endless_rows_ ? at : map_index(at, h_, place_.border);
      pointers_[q] = ring(i, endless_rows_ || m >= 0 ? slot(m) : slots_) + x.begin;
    }
    const int64_t here = 0;
    correlate(rows, pointers_.data(), window, &here, sums, x.size());
    if (zero)
      for (int r = 0; r < rows; ++r) zero_edges(sums[r], true);
  }

  // Border::zero_output: 0 in the columns of a row whose windows extend beyond the image, or in all.
  void zero_edges(A* row, bool row_fits) const {
    std::fill(row, row + (row_fits ? (fits_x_.begin - x_.begin) * pixel_ : length_), A(0));
    if (row_fits) std::fill(row + (fits_x_.end - x_.begin) * pixel_, row + length_, A(0));
  }

  void thin(int64_t y, int rows, A* const* out) {
    for (int r = 0; r < rows; ++r) {
      const A* magnitude[3];
      const int64_t top = first_row(y + r);
      for (int i = 0; i < 3; ++i) magnitude[i] = top + i >= 0 && top + i < h_ ? kept(0, top + i) : outside_.data();
      const A *gx = kept(1, top + 1) + offset_[1], *gy = kept(2, top + 1) + offset_[1];
      thin_row(magnitude, {offset_[0], offset_[1], offset_[2]}, gx, gy, out[r], length_);
    }
  }

  // Extends the row by the border's values, left and right of the made columns.
  void extend(A* line) const {
    auto fill = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t m = map_index(first_ + i, w_, place_.border);
        for (int64_t k = 0; k < pixel_; ++k)
          line[i * pixel_ + k] = m < 0 ? A(place_.value) : line[(m - first_) * pixel_ + k];
      }
    };
    fill(0, given_.begin - first_);
    fill(given_.end - first_, width_);
  }

  // The columns of every phase of the stride, phase by phase.
  void split(const A* __restrict line, A* __restrict to) const {
    const int64_t stride = place_.stride_x;
    if (stride == 2 && pixel_ == 1 && stage_.kw > 1) {
      for (int64_t i = 0; i < segment_; ++i) to[i] = line[2 * i];
      for (int64_t i = 0; i < width_ / 2; ++i) to[segment_ + i] = line[2 * i + 1];
      return;
    }
    for (int64_t phase = 0; phase < std::min(stride, stage_.kw); ++phase)
      for (int64_t i = 0; i < segment_ && phase + i * stride < width_; ++i)
        for (int64_t k = 0; k < pixel_; ++k)
          to[(phase * segment_ + i) * pixel_ + k] = line[(phase + i * stride) * pixel_ + k];
  }

  // Border::skip: ones in the columns inside, zeros outside, laid out as the rows are.
  void mark_inside() {
    std::vector<A> marks(width_ * pixel_, A(0));
    std::fill(marks.begin() + (given_.begin - first_) * pixel_, marks.begin() + (given_.end - first_) * pixel_, A(1));
    inside_.assign(line_, A(0));
    split(marks.data(), inside_.data());
  }

  const Stage& stage_;
  const bool thin_, keeps_;  // keeps the rows themselves too
  const int channels_;
  const int64_t h_, w_, pixel_;
  const PointRow<A> point_;
  Placement place_{};
  bool endless_ = false, endless_rows_ = false;
  int batch_ = 1;
  int64_t slots_ = 0;  // of the ring; one more holds the sums of a row outside
  CpuWindow<A> across_[Stage::kMost]{}, down_[Stage::kMost]{};

  Range x_{}, given_{}, fits_x_{};
  int64_t first_ = 0, width_ = 0, segment_ = 0;           // columns under the windows; of one phase of the stride
  int64_t length_ = 0, pitch_ = 0, line_ = 0, lead_ = 0;  // elements of a row of outputs, of sums, of input
  int64_t next_ = 0, end_ = 0;
  std::vector<int64_t> offset_;
  std::vector<const A*> pointers_, kept_;
  std::vector<A> outside_, inside_;
  Scratch<A> lines_, unsplit_, ring_, sums_;
};
