// The loops of `combine`. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
//   rows y of the windows' sums --point--> rows y of the outputs        thin: rows y - 1 .. y + 1 of the magnitudes
//
// Rows are read in place, or converted if the elements have another type or are not contiguous.

// clang-format off
#include "core/cpu/activation.h"
#include "kernels/fused/cpu/point.h"
// clang-format on

template <typename A>
class CombineRows {
 public:
  CombineRows(const Combine& p, int64_t pixel)
      : p_(p),
        pixel_(pixel),
        channels_(pixel > 1 ? 1 : p.out.c),
        length_(p.out.w * pixel),
        copy_(length_ + kLanes<A>),
        outputs_(count_outputs(p.point, p.windows)),
        point_(row_of_point<A>(p.point, p.windows)) {
    images_.assign(outputs_, p.out);
    out_.reserve(outputs_);
    for (int o = 0; o < outputs_; ++o) {
      images_[o].data = static_cast<char*>(p.out.data) + o * p.stride_output * size_of(p.out.dtype);
      out_.emplace_back(images_[o], pixel);
    }
    if (p.point == Point::thin) {
      line_ = (p.out.w + 2) * pixel + kLanes<A>;
      magnitudes_.assign(4 * line_, A(0));
    }
    copies_.resize(4 * copy_);
  }

  void strip(const RowStrip& strip) {
    const int64_t plane = strip.plane / p_.out.d;
    n_ = plane / channels_, c_ = plane % channels_, z_ = strip.plane % p_.out.d;
    taken_ = INT64_MIN;
    for (OutputRows<A>& out : out_) out.open(n_, z_, {0, p_.out.w});
    for (int64_t y = strip.range.begin; y < strip.range.end; ++y) {
      A* out[Stage::kMost];
      for (int o = 0; o < outputs_; ++o) out[o] = out_[o].row(0, c_, y);
      if (p_.point == Point::thin) thin(y, out[0]);
      else combine(y, out);
      for (int o = 0; o < outputs_; ++o) out_[o].done(out[o], c_, y);
    }
  }

 private:
  // Row y, copied to `copy` if it cannot be read in place.
  const A* row(const Image& image, int64_t y, A* copy, bool must_copy = false) const {
    const char* src = pixel_of(image, n_, c_, z_, y, 0);
    const bool in_place = image.dtype == kDtypeOf<A> && image.stride_w == pixel_ && length_ >= kLanes<A>;
    if (in_place && !must_copy) return reinterpret_cast<const A*>(src);
    row_reader<A>(image.dtype)(src, pixel_ > 1 ? 1 : image.stride_w, length_, copy);
    return copy;
  }

  void combine(int64_t y, A* const* out) {
    const A *sums[Stage::kMost], *pixels = nullptr;
    const bool sharpen = p_.point == Point::sharpen;
    for (int i = 0; i < p_.windows; ++i) sums[i] = row(p_.sums[i], y, copies_.data() + i * copy_);
    if (sharpen) pixels = row(p_.centre, y, copies_.data() + 3 * copy_);
    point_(sums, pixels, A(p_.number), out, length_);
    activate_row(p_.activation, out[0], length_);
    if (!sharpen) return;
    const bool fits = y >= p_.margin_y && y < p_.out.h - p_.margin_y;
    const int64_t edge = fits ? std::min(p_.margin_x * pixel_, length_) : length_;
    std::fill(out[0], out[0] + edge, A(0));
    std::fill(out[0] + length_ - edge, out[0] + length_, A(0));
  }

  // Row y of the magnitudes with a zero on either side; three rows stay in place while the window moves down.
  const A* magnitude(int64_t y) {
    if (y < 0 || y >= p_.out.h) return magnitudes_.data() + 3 * line_;
    A* line = magnitudes_.data() + y % 3 * line_;
    if (y > taken_) {
      row(p_.sums[0], y, line + pixel_, true);
      taken_ = y;
    }
    return line;
  }

  void thin(int64_t y, A* out) {
    const A* magnitudes[] = {magnitude(y - 1), magnitude(y), magnitude(y + 1)};
    const A* gx = row(p_.sums[1], y, copies_.data());
    const A* gy = row(p_.sums[2], y, copies_.data() + copy_);
    thin_row(magnitudes, {0, pixel_, 2 * pixel_}, gx, gy, out, length_);
  }

  const Combine& p_;
  const int64_t pixel_, channels_, length_, copy_;  // elements of a row of outputs; of a converted row
  const int outputs_;
  const PointRow<A> point_;
  int64_t n_ = 0, c_ = 0, z_ = 0;
  int64_t line_ = 0, taken_ = 0;  // of `thin`: elements of a row of magnitudes, the last that was read
  std::vector<Image> images_;     // of each output
  std::vector<OutputRows<A>> out_;
  std::vector<A> copies_, magnitudes_;
};

template <typename A>
void combine_units(const Combine& p, const Plan& plan, Range units) {
  CombineRows<A> rows(p, fused::pixel_of_row(p));
  for_each_strip(units, p.out.h, plan.tile_h, [&](const RowStrip& strip) { rows.strip(strip); });
}
