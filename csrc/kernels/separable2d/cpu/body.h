// The separable kernel family's loops. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
//   image row --row pass--> row of sums, in a ring --column pass over kh of them--> output row
//
// Both passes are the register tile of core/cpu/correlate.h: the row pass has one tap row, the column pass one column.

#include "core/cpu/transpose.h"
#include "kernels/separable2d/cpu/image.h"

// E: the elements of the rows that the row pass reads: A, or bytes in place in the image.
template <typename A, typename E>
class SeparableRows {
 public:
  // `pixel`: interleaved channels that are filtered as one row, see interleaved_channels.
  SeparableRows(const Separable& p, int64_t pixel, int64_t tile_w)
      : p_(p),
        pixel_(pixel),
        tile_w_(tile_w),
        channels_(pixel > 1 ? 1 : p.in.c),
        in_(p.in, pixel, p.place, p.kw),
        out_(p.out, pixel) {
    const Placement& place = p.place;
    tile_rows_ = place.stride_y == place.dilation_y ? int(std::min<int64_t>(kMaxTileRows, p.kh)) : 1;
    slots_ = (tile_rows_ + p.kh - 2) * place.dilation_y + 1;
    // Rows outside have no sums: of a window taller than the image those inside are all.
    if (!extends(place.border)) slots_ = std::min(slots_, p.in.h);
    passed_y_.resize(slots_);
    pointers_.resize(tile_rows_ - 1 + p.kh);
  }

  void strip(const RowStrip& strip) {
    n_ = strip.plane / channels_, c_ = strip.plane % channels_;
    across_ = window_across<A>(p_, n_, c_), down_ = window_down<A>(p_, n_, c_);
    const Placement& place = p_.place;
    const Range rows = outputs_inside(strip.range, p_.kh, place.pad_y, place.stride_y, place.dilation_y, p_.in.h);
    const bool in_place = sizeof(E) > 1 && in_.plain();  // the ends apart cost more than a copy of bytes
    for (int64_t x = 0; x < p_.out.w; x += tile_w_) {
      const Range all{x, std::min(p_.out.w, x + tile_w_)};
      const Range fits = outputs_inside(all, p_.kw, place.pad_x, place.stride_x, place.dilation_x, p_.in.w);
      const Range before{all.begin, fits.begin}, after{fits.end, all.end};
      if (place.border == Border::zero_output) {
        out_.zero(n_, c_, 0, {strip.range.begin, rows.begin}, all);
        out_.zero(n_, c_, 0, {rows.end, strip.range.end}, all);
        out_.zero(n_, c_, 0, rows, before);
        out_.zero(n_, c_, 0, rows, after);
        section(rows, rows, fits);
      } else if (place.border == Border::skip || (in_place && fits.size() * pixel_ >= kWideRow)) {
        section(strip.range, rows, before);
        section(strip.range, rows, fits);
        section(strip.range, rows, after);
      } else {
        section(strip.range, rows, all);
      }
    }
  }

 private:
  static constexpr int64_t kNoRow = INT64_MIN;

  // The outputs y * x; the windows of the rows `fits` are inside the image.
  void section(Range y, Range fits, Range x) {
    if (x.size() <= 0) return;
    in_.open(x, 1, 1);
    plane_ = in_.plane(n_, c_, 0, 0);
    out_.open(n_, 0, x);
    pitch_ = round_up(out_.length(), kLanes<A>);
    passed_.resize(std::max<size_t>(passed_.size(), slots_ * pitch_ + kLanes<A>));
    ring_ = reinterpret_cast<A*>(round_up(reinterpret_cast<intptr_t>(passed_.data()), TC_VEC_BYTES));
    std::fill(passed_y_.begin(), passed_y_.end(), kNoRow);
    const bool skip = p_.place.border == Border::skip;
    ones_ = skip ? in_.inside_row() : nullptr;
    if (skip) {
      weights_.resize(std::max<size_t>(weights_.size(), pitch_));
      correlate_inside<false, A, E>(&ones_, ones_, {0, 1}, across_, in_.offsets(), ring_, weights_.data(),
                                    out_.length());
    }
    while (y.begin < y.end) {
      const bool whole = !skip || (y.begin >= fits.begin && y.begin < fits.end);
      const int rows = whole ? int(std::min<int64_t>(tile_rows_, (skip ? fits.end : y.end) - y.begin)) : 1;
      tile(y.begin, rows, whole);
      y.begin += rows;
    }
  }

  // The row pass of input row y (any distance outside), in its slot of the ring: y modulo their number.
  const A* passed(int64_t y, int64_t slot) {
    A* sums = ring_ + slot * pitch_;
    if (passed_y_[slot] == y) return sums;
    passed_y_[slot] = y;
    // Rows of bytes are copied faster than memory brings them (2048^2, neither image in the caches, one thread, Zen 4:
    // without the prefetches of core/cpu/correlate.h 3x3 1.78 -> 1.72 ms, 5x5 2.18 -> 2.04).
    if constexpr (sizeof(E) == 1) in_.fetch(plane_, y + 2);
    const E* row = in_.row(plane_, y, 0);
    if (in_.inside() || !ones_) correlate(1, &row, across_, in_.offsets(), &sums, out_.length());
    else correlate_inside<false, A, E>(&row, ones_, {0, 1}, across_, in_.offsets(), sums, nullptr, out_.length());
    return sums;
  }

  // Output rows y .. y + rows - 1; unless `whole`, the sum skips the rows of the one window outside the image.
  void tile(int64_t y, int rows, bool whole) {
    const int64_t first = y * p_.place.stride_y - p_.place.pad_y, step = p_.place.dilation_y;
    const Range inside = whole ? Range{0, p_.kh} : positions_inside({0, p_.kh}, first, step, p_.in.h);
    CpuWindow<A> down = down_;
    down.taps += inside.begin;
    down.kh = inside.size();
    const int64_t top = first + inside.begin * step, slot_step = step % slots_;  // no division for each row
    for (int64_t q = 0, slot = top - floor_div(top, slots_) * slots_; q < rows - 1 + down.kh; ++q) {
      pointers_[q] = passed(top + q * step, slot);
      slot += slot_step;
      if (slot >= slots_) slot -= slots_;
    }
    const int64_t here = 0;
    const auto sums = [&](auto* const* out) { correlate(rows, pointers_.data(), down, &here, out, out_.length()); };
    if (!p_.place.normalized) return out_.fill(rows, c_, y, sums);
    A* out[kMaxTileRows];
    for (int r = 0; r < rows; ++r) out[r] = out_.row(r, c_, y + r);
    sums(out);
    const A weight = weight_of(down);
    for (int r = 0; r < rows; ++r) {
      for (int64_t x = 0; x < out_.length(); ++x) out[r][x] /= weights_[x] * weight;
      out_.done(out[r], c_, y + r);
    }
  }

  const Separable& p_;
  const int64_t pixel_, tile_w_, channels_;
  InputRows<E> in_;
  typename InputRows<E>::Plane plane_{};
  OutputRows<A> out_;
  int tile_rows_ = 1;
  int64_t slots_ = 0, pitch_ = 0;
  int64_t n_ = 0, c_ = 0;
  CpuWindow<A> across_{}, down_{};
  const E* ones_ = nullptr;
  std::vector<const A*> pointers_;
  std::vector<int64_t> passed_y_;    // whose sums a slot of the ring holds
  std::vector<A> passed_, weights_;  // the ring's memory; the sums of |tx| inside
  A* ring_ = nullptr;                // starts on a whole register: a load across two lines of the cache is two
};

template <typename A, typename E>
void separable_units(const Separable& p, const Plan& plan, Range units) {
  SeparableRows<A, E> rows(p, separable2d::pixel_of_row(p), plan.tile_w);
  for_each_strip(units, p.out.h, plan.tile_h, [&](const RowStrip& strip) { rows.strip(strip); });
}

// Planes turned, a block of them at a time.
template <typename A>
void block_units(const Separable& p, const Plan& plan, Range units) {
  const auto& blocks = *std::any_cast<separable2d::TransposedBlocks>(&plan.config);
  const auto* rows = std::any_cast<separable2d::ImageRows>(&blocks.plan.config);
  std::vector<A> memory(rows ? rows->slots * rows->pitch + kLanes<A> : 0);
  A* const sums = reinterpret_cast<A*>(round_up(reinterpret_cast<intptr_t>(memory.data()), TC_VEC_BYTES));
  each_transposed_block<A>(p, blocks.together, units, [&](const Separable& q) {
    if (!rows) return separable_units<A, A>(q, blocks.plan, {0, blocks.plan.blocks});
    image_across<A, A>(q, *rows, 0, sums, {0, int64_t(rows->read.size())});
    image_down<A>(q, *rows, blocks.plan, 0, sums, {0, blocks.plan.blocks});
  });
}
