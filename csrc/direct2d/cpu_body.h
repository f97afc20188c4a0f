// The direct room's loops. Text of core/cpu_each_isa.h: compiled once per instruction set.

template <typename A>
class DirectRows {
 public:
  // `pixel`: channels side by side that are filtered as one row, see interleaved_channels.
  DirectRows(const Direct2d& p, int64_t pixel, int64_t tile_w)
      : p_(p),
        pixel_(pixel),
        tile_w_(tile_w),
        groups_(pixel > 1 ? 1 : p.groups),
        inputs_(p.in.c / p.groups),
        outputs_(pixel > 1 ? 1 : p.out.c / p.groups),
        in_(p.in, pixel, p.place, p.kw),
        out_(p.out, pixel) {
    const Placement& place = p.place;
    // Output rows share input rows when one step of the output is one step of the window.
    tile_rows_ = place.stride_y == place.dilation_y ? int(std::min<int64_t>(kMaxTileRows, p.kh)) : 1;
    const int64_t block = tile_rows_ - 1 + p.kh, span = (block - 1) * place.dilation_y + 1;
    slots_ = span <= 4 * block ? span : block;
    ring_ = slots_ == span;
    pointers_.resize(inputs_ * block);
  }

  void strip(const Strip& strip) {
    n_ = strip.plane / groups_;
    const int64_t group = strip.plane % groups_;
    channel_in_ = group * inputs_, channel_out_ = group * outputs_;
    prepare_windows();
    const Placement& place = p_.place;
    const Range rows = outputs_inside(strip.y, p_.kh, place.pad_y, place.stride_y, place.dilation_y, p_.in.h);
    for (int64_t x = 0; x < p_.out.w; x += tile_w_) {
      const Range all{x, std::min(p_.out.w, x + tile_w_)};
      const Range fits = outputs_inside(all, p_.kw, place.pad_x, place.stride_x, place.dilation_x, p_.in.w);
      const Range before{all.begin, fits.begin}, after{fits.end, all.end};
      if (place.border == Border::zero_output) {
        zero({strip.y.begin, rows.begin}, all);
        zero({rows.end, strip.y.end}, all);
        zero(rows, before);
        zero(rows, after);
        section(rows, rows, fits);
      } else if (place.border == Border::skip || (in_.plain() && fits.size() * pixel_ >= kLanes<A>)) {
        section(strip.y, rows, before);
        section(strip.y, rows, fits);
        section(strip.y, rows, after);
      } else {
        section(strip.y, rows, all);
      }
    }
  }

 private:
  // Windows of the strip's output channels, repeated over the pitch where they differ along an interleaved row.
  void prepare_windows() {
    const A* taps = static_cast<const A*>(p_.taps.data) + n_ * p_.taps.stride_n;
    const A* bias = static_cast<const A*>(p_.bias);
    const int64_t count = p_.kh * p_.kw;
    const bool weigh = p_.place.border == Border::skip && p_.place.normalized;
    windows_.assign(outputs_,
                    {.taps = taps, .channels = inputs_, .stride_ci = p_.taps.stride_ci, .kh = p_.kh, .kw = p_.kw});
    if (pixel_ > 1 && (p_.taps.stride_c != 0 || bias)) {
      Window<A>& w = windows_[0];
      w.period = pixel_, w.pitch = repeat_pitch<A>(pixel_);
      weights_.resize(pixel_);
      repeated_.resize((count + 2) * w.pitch);
      repeat_channels(taps, count, p_.taps.stride_c, pixel_, w.pitch, repeated_.data());
      w.taps = repeated_.data();
      A* divisor = repeated_.data() + count * w.pitch;
      for (int64_t c = 0; c < pixel_; ++c) weights_[c] = weight_of(taps + c * p_.taps.stride_c, 1, 0, count);
      repeat_channels(weights_.data(), 1, 1, pixel_, w.pitch, divisor);
      if (weigh) w.divisor = divisor;
      if (bias) repeat_channels(bias, 1, 1, pixel_, w.pitch, divisor + w.pitch);
      if (bias) w.bias = divisor + w.pitch;
      return;
    }
    weights_.resize(outputs_);
    for (int64_t co = 0; co < outputs_; ++co) {
      Window<A>& w = windows_[co];
      w.taps = taps + (channel_out_ + co) * p_.taps.stride_c;
      if (bias) w.bias = bias + channel_out_ + co;
      if (!weigh) continue;
      weights_[co] = weight_of(w.taps, inputs_, w.stride_ci, count);
      w.divisor = &weights_[co];
    }
  }

  void zero(Range y, Range x) {
    for (int64_t co = 0; co < outputs_; ++co) out_.zero(n_, channel_out_ + co, y, x);
  }

  // The outputs y * x; the windows of the rows `fits` lie inside the image.
  void section(Range y, Range fits, Range x) {
    if (x.size() <= 0) return;
    in_.open(n_, channel_in_, inputs_, x, slots_);
    out_.open(n_, x);
    const bool skip = p_.place.border == Border::skip;
    const A* ones = skip ? in_.inside_row() : nullptr;
    while (y.begin < y.end) {
      const bool whole = !skip || (in_.inside() && y.begin >= fits.begin && y.begin < fits.end);
      const int rows = whole ? int(std::min<int64_t>(tile_rows_, (skip ? fits.end : y.end) - y.begin)) : 1;
      if (whole) tile(y.begin, rows);
      else edge_row(y.begin, ones);
      y.begin += rows;
    }
  }

  // Points at the input rows first, first + 1, ... (in steps of the dilation) of every input channel.
  void point(int64_t first, int64_t count) {
    for (int64_t ci = 0, at = 0; ci < inputs_; ++ci)
      for (int64_t q = 0; q < count; ++q) {
        const int64_t y = first + q * p_.place.dilation_y;
        pointers_[at++] = in_.row(ci, y, ring_ ? y - floor_div(y, slots_) * slots_ : q);
      }
  }

  void tile(int64_t y, int rows) {
    point(y * p_.place.stride_y - p_.place.pad_y, rows - 1 + p_.kh);
    for (int64_t co = 0; co < outputs_; ++co) {
      A* out[kMaxTileRows];
      for (int r = 0; r < rows; ++r) out[r] = out_.row(r, channel_out_ + co, y + r);
      correlate(rows, pointers_.data(), windows_[co], in_.offsets(), out, out_.length());
      for (int r = 0; r < rows; ++r) out_.done(out[r], channel_out_ + co, y + r);
    }
  }

  // One output row with taps outside the image, which Border::skip leaves out.
  void edge_row(int64_t y, const A* ones) {
    const int64_t first = y * p_.place.stride_y - p_.place.pad_y, step = p_.place.dilation_y;
    const Range inside = positions_inside({0, p_.kh}, first, step, p_.in.h);
    point(first + inside.begin * step, inside.size());
    edge_weights_.resize(std::max<size_t>(edge_weights_.size(), out_.length() + kLanes<A>));
    for (int64_t co = 0; co < outputs_; ++co) {
      const Window<A>& w = windows_[co];
      A* out = out_.row(0, channel_out_ + co, y);
      const auto run = w.period ? correlate_inside<true, A> : correlate_inside<false, A>;
      run(pointers_.data(), ones, inside, w, in_.offsets(), out, edge_weights_.data(), out_.length());
      if (w.divisor)
        for (int64_t x = 0; x < out_.length(); ++x) out[x] /= edge_weights_[x];
      if (w.bias)
        for (int64_t x = 0; x < out_.length(); ++x) out[x] += w.bias[w.period ? x % w.period : 0];
      out_.done(out, channel_out_ + co, y);
    }
  }

  const Direct2d& p_;
  const int64_t pixel_, tile_w_;
  const int64_t groups_, inputs_, outputs_;  // inputs and outputs of one group
  Rows<A> in_;
  OutputRows<A> out_;
  int tile_rows_ = 1;
  int64_t slots_ = 0;
  bool ring_ = false;  // a row's slot follows from its y, so that the next tile finds it again
  int64_t n_ = 0, channel_in_ = 0, channel_out_ = 0;
  std::vector<const A*> pointers_;
  std::vector<Window<A>> windows_;
  std::vector<A> repeated_, weights_, edge_weights_;
};

template <typename A>
void direct_units(const Direct2d& p, const Plan& plan, Range units) {
  const int64_t pixel = direct2d::pixel_of_row(p);
  DirectRows<A> rows(p, pixel, plan.tile_w);
  for_each_strip(units, p.out.h, plan.tile_h, [&](const Strip& strip) { rows.strip(strip); });
}
