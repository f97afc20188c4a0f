// The direct kernel family's loops. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
// The window of output plane z covers kd planes of every input channel. Each is one more plane of the 2-D tile in
// core/cpu/correlate.h. A block of rows streams along z. A ring of planes keeps converted rows, extended by the border,
// until the window has passed.

#include "core/cpu/transpose.h"

template <typename A>
class DirectRows {
 public:
  // `pixel`: interleaved channels that are filtered as one row.
  DirectRows(const Direct& p, int64_t pixel, const Plan& plan)
      : p_(p),
        pixel_(pixel),
        tile_w_(plan.tile_w),
        groups_(pixel > 1 ? 1 : p.groups),
        inputs_(p.in.c / p.groups),
        outputs_(pixel > 1 ? 1 : p.out.c / p.groups),
        in_(p.in, pixel, p.place, p.kw),
        out_(p.out, pixel) {
    const Placement& place = p.place;
    // Output rows share input rows when one step of the output is one step of the window.
    tile_rows_ = place.stride_y == place.dilation_y ? int(std::min<int64_t>(kMaxTileRows, p.kh)) : 1;
    const int64_t block = tile_rows_ - 1 + p.kh;
    // A block that streams along z uses all of its rows again at the next z.
    rows_ = p.kd == 1 ? Ring((block - 1) * place.dilation_y + 1, block, p.in.h)
                      : Ring((plan.tile_h - 1) * place.stride_y + (p.kh - 1) * place.dilation_y + 1,
                             plan.tile_h - 1 + p.kh, p.in.h);
    planes_ = Ring((p.kd - 1) * place.dilation_z + 1, p.kd, p.in.d);
    under_.reserve(inputs_ * p.kd);
    // Rows that keep their slots are located once for all tiles of a strip.
    const bool stay = rows_.slots == p.in.h && place.border != Border::skip;
    locates_once_ = stay && p.kd == 1 && inputs_ == 1 && place.stride_y == place.dilation_y;
    pointers_.resize(inputs_ * p.kd * block);
  }

  // Computes the outputs z * y of one group's channels. `plane` counts samples and groups.
  void block(int64_t plane, Range z, Range y) {
    n_ = plane / groups_;
    const int64_t group = plane % groups_;
    channel_in_ = group * inputs_, channel_out_ = group * outputs_;
    prepare_windows();
    const Placement& place = p_.place;
    const Range planes = outputs_inside(z, p_.kd, place.pad_z, place.stride_z, place.dilation_z, p_.in.d);
    const Range rows = outputs_inside(y, p_.kh, place.pad_y, place.stride_y, place.dilation_y, p_.in.h);
    for (int64_t x = 0; x < p_.out.w; x += tile_w_) {
      const Range all{x, std::min(p_.out.w, x + tile_w_)};
      const Range fits = outputs_inside(all, p_.kw, place.pad_x, place.stride_x, place.dilation_x, p_.in.w);
      const Range before{all.begin, fits.begin}, after{fits.end, all.end};
      if (place.border == Border::zero_output) {
        zero({z.begin, planes.begin}, y, all);
        zero({planes.end, z.end}, y, all);
        zero(planes, {y.begin, rows.begin}, all);
        zero(planes, {rows.end, y.end}, all);
        zero(planes, rows, before);
        zero(planes, rows, after);
        section(planes, rows, rows, fits);
      } else if (place.border == Border::skip || (in_.plain() && fits.size() * pixel_ >= kWideRow)) {
        section(z, y, rows, before);
        section(z, y, rows, fits);
        section(z, y, rows, after);
      } else {
        section(z, y, rows, all);
      }
    }
  }

 private:
  // The slots of an axis's n rows or planes while windows pass over them. A slot follows from the row's index where
  // this takes few more slots than a window needs: the row is then reused. Else it follows from the row's tap.
  struct Ring {
    Ring() = default;
    Ring(int64_t span, int64_t needed, int64_t n)
        : slots(std::min(span <= 4 * needed ? span : needed, n)), reused(slots == span) {}
    int64_t slot(int64_t index, int64_t tap) const { return reused ? index - floor_div(index, slots) * slots : tap; }
    int64_t slots = 0;
    bool reused = false;
  };

  // Prepares the windows of the block's output channels, repeated over the pitch where interleaved channels differ.
  void prepare_windows() {
    const A* taps = static_cast<const A*>(p_.taps.data) + n_ * p_.taps.stride_n;
    const A* bias = static_cast<const A*>(p_.bias);
    inside_ = {-1, -1};
    windows_.assign(outputs_, {.taps = taps, .at = nullptr, .planes = 0, .kh = p_.kh, .kw = p_.kw});
    if (pixel_ > 1 && (p_.taps.stride_c != 0 || bias)) {
      const int64_t count = p_.kd * p_.kh * p_.kw;
      CpuWindow<A>& w = windows_[0];
      w.period = pixel_, w.pitch = repeat_pitch<A>(pixel_);
      repeated_.resize((count + 1) * w.pitch);
      repeat_channels(taps, count, p_.taps.stride_c, pixel_, w.pitch, repeated_.data());
      w.taps = repeated_.data();
      A* repeated_bias = repeated_.data() + count * w.pitch;
      if (bias) repeat_channels(bias, 1, 1, pixel_, w.pitch, repeated_bias);
      if (bias) w.bias = repeated_bias;
      return;
    }
    for (int64_t co = 0; co < outputs_; ++co) {
      windows_[co].taps = taps + (channel_out_ + co) * p_.taps.stride_c;
      if (bias) windows_[co].bias = bias + channel_out_ + co;
    }
  }

  // Locates the planes under the windows of output plane z: all planes, or with Border::skip the planes inside.
  void locate_planes(int64_t z) {
    const Placement& place = p_.place;
    const int64_t first = z * place.stride_z - place.pad_z, dilation = place.dilation_z;
    const bool skip = place.border == Border::skip;
    const Range inside = skip ? positions_inside({0, p_.kd}, first, dilation, p_.in.d) : Range{0, p_.kd};
    under_.clear();
    for (int64_t ci = 0; ci < inputs_; ++ci)
      for (int64_t l = inside.begin; l < inside.end; ++l) {
        const int64_t at = first + l * dilation;
        auto plane = in_.plane(n_, channel_in_ + ci, at, 0);
        plane.position =
            ci * planes_.slots + (planes_.slots == p_.in.d ? std::max<int64_t>(plane.z, 0) : planes_.slot(at, l));
        under_.push_back(plane);
      }
    if (inside.begin == inside_.begin && inside.end == inside_.end) return;
    inside_ = inside;
    taps_at_.clear();
    for (int64_t ci = 0; ci < inputs_; ++ci)
      for (int64_t l = inside.begin; l < inside.end; ++l)
        taps_at_.push_back(ci * p_.taps.stride_ci + l * p_.kh * p_.kw * windows_[0].pitch);
    for (CpuWindow<A>& w : windows_) w.at = taps_at_.data(), w.planes = int64_t(taps_at_.size());
    if (skip && place.normalized) weigh();
  }

  // Computes the divisors of sums whose windows are inside along y and x.
  void weigh() {
    weights_.clear();
    for (CpuWindow<A> w : windows_)
      for (int64_t c = 0; c < std::max<int64_t>(1, w.period); ++c, ++w.taps) weights_.push_back(weight_of(w));
    const int64_t period = windows_[0].period;
    if (period) {
      weights_.resize(windows_[0].pitch);
      for (size_t k = period; k < weights_.size(); ++k) weights_[k] = weights_[k - period];
    }
    for (int64_t co = 0; co < outputs_; ++co) windows_[co].divisor = &weights_[co];
  }

  void zero(Range z, Range y, Range x) {
    for (int64_t co = 0; co < outputs_; ++co)
      for (int64_t at = z.begin; at < z.end; ++at) out_.zero(n_, channel_out_ + co, at, y, x);
  }

  // Computes the outputs z * y * x. The windows of the rows `fits` are inside the image along y.
  void section(Range z, Range y, Range fits, Range x) {
    if (x.size() <= 0) return;
    in_.open(x, inputs_ * planes_.slots, rows_.slots);
    const bool skip = p_.place.border == Border::skip;
    const A* ones = skip ? in_.inside_row() : nullptr;
    for (int64_t at = z.begin; at < z.end; ++at) {
      locate_planes(at);
      out_.open(n_, at, x);
      first_ = y.begin;
      if (locates_once_) locate_rows(y.begin * p_.place.stride_y - p_.place.pad_y, y.size() - 1 + p_.kh);
      for (int64_t top = y.begin; top < y.end;) {
        const bool all_inside = !skip || (in_.inside() && top >= fits.begin && top < fits.end);
        const int rows = all_inside ? int(std::min<int64_t>(tile_rows_, (skip ? fits.end : y.end) - top)) : 1;
        if (all_inside) tile(top, rows);
        else edge_row(top, ones);
        top += rows;
      }
    }
  }

  // Locates `count` input rows from `first` on, in steps of the dilation, of every plane under the window.
  void locate_rows(int64_t first, int64_t count) {
    const int64_t dilation = p_.place.dilation_y, slot_step = rows_.reused ? dilation : 1;
    pointers_.resize(std::max<size_t>(pointers_.size(), under_.size() * count));
    const A** to = pointers_.data();
    const int64_t first_slot = rows_.slot(first, 0);
    for (const auto& plane : under_)
      for (int64_t q = 0, slot = first_slot; q < count; ++q) {
        *to++ = in_.row(plane, first + q * dilation, slot);
        slot += slot_step;
        if (slot >= rows_.slots) slot -= rows_.slots;
      }
  }

  void tile(int64_t y, int rows) {
    if (!locates_once_) locate_rows(y * p_.place.stride_y - p_.place.pad_y, rows - 1 + p_.kh);
    const A* const* under = pointers_.data() + (locates_once_ ? y - first_ : 0);
    for (int64_t co = 0; co < outputs_; ++co)
      out_.fill(rows, channel_out_ + co, y,
                [&](auto* const* out) { correlate(rows, under, windows_[co], in_.offsets(), out, out_.length()); });
  }

  // Computes one output row whose windows have taps outside the image, which Border::skip leaves out.
  void edge_row(int64_t y, const A* ones) {
    const int64_t first = y * p_.place.stride_y - p_.place.pad_y, dilation = p_.place.dilation_y;
    const Range inside = positions_inside({0, p_.kh}, first, dilation, p_.in.h);
    locate_rows(first + inside.begin * dilation, inside.size());
    edge_weights_.resize(std::max<size_t>(edge_weights_.size(), out_.length() + kLanes<A>));
    for (int64_t co = 0; co < outputs_; ++co) {
      const CpuWindow<A>& w = windows_[co];
      A* out = out_.row(0, channel_out_ + co, y);
      const auto run = w.period ? correlate_inside<true, A, A> : correlate_inside<false, A, A>;
      run(pointers_.data(), ones, inside, w, in_.offsets(), out, edge_weights_.data(), out_.length());
      if (w.divisor)
        for (int64_t x = 0; x < out_.length(); ++x) out[x] /= edge_weights_[x];
      if (w.bias)
        for (int64_t x = 0; x < out_.length(); ++x) out[x] += w.bias[w.period ? x % w.period : 0];
      out_.done(out, channel_out_ + co, y);
    }
  }

  const Direct& p_;
  const int64_t pixel_, tile_w_;
  const int64_t groups_, inputs_, outputs_;  // inputs and outputs of one group
  InputRows<A> in_;
  OutputRows<A> out_;
  int tile_rows_ = 1;
  bool locates_once_ = false;
  int64_t first_ = 0;   // the strip's first output row
  Ring rows_, planes_;  // of every plane; of every channel
  int64_t n_ = 0, channel_in_ = 0, channel_out_ = 0;
  Range inside_{};  // the window's planes inside the volume, of locate_planes
  std::vector<typename InputRows<A>::Plane> under_;
  std::vector<int64_t> taps_at_;
  std::vector<const A*> pointers_;
  std::vector<CpuWindow<A>> windows_;
  std::vector<A> repeated_, weights_, edge_weights_;
};

template <typename A>
void direct_units(const Direct& p, const Plan& plan, Range units) {
  DirectRows<A> rows(p, direct::pixel_of_row(p), plan);
  if (p.kd == 1) {
    for_each_strip(units, p.out.h, plan.tile_h, [&](const RowStrip& s) {
      const int64_t z = s.plane % p.out.d;
      rows.block(s.plane / p.out.d, {z, z + 1}, s.range);
    });
  } else {
    const int64_t blocks = ceil_div(p.out.h, plan.tile_h);
    for_each_strip(units, p.out.d, plan.tile_d, [&](const RowStrip& s) {
      const int64_t y = s.plane % blocks * plan.tile_h;
      rows.block(s.plane / blocks, s.range, {y, std::min(p.out.h, y + plan.tile_h)});
    });
  }
}

// Transposes a block of planes at a time.
template <typename A>
void direct_block_units(const Direct& p, const Plan& plan, Range units) {
  const auto& blocks = *std::any_cast<direct::TransposedBlocks>(&plan.config);
  Direct one = p;
  one.groups = blocks.together;
  each_transposed_block<A>(one, blocks.together, units, [&](const Direct& q) {
    direct_units<A>(q, blocks.plan, {0, blocks.plan.blocks});
  });
}
