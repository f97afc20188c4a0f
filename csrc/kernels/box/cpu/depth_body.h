// The box's pass along z over sums of integers. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
//     plane z - 1 - pad_z        ______________
//       leaving  - - - - -      |  ____________|_      A block of rows streams along z:
//                               |_|              |     running sums += entering - leaving
//     plane z - pad_z + kd - 1    |______________|     output = running sums * scale
//       entering + + + + +
//
// Sums are float64 and exact, unless the border's value is no whole number: a block starts afresh every tile_d planes,
// so that errors cannot gather.

// Running sums of consecutive planes of one block of rows.
template <typename F>
class DepthSums {
 public:
  DepthSums(const BoxDepth& p, int64_t pixel)
      : p_(p),
        pixel_(pixel),
        width_(p.sums.w * pixel),
        window_(box::shorten(p.kd, p.place.pad_z, p.sums.d, p.out.d, p.place.border)),
        in_place_(p.sums.stride_w == pixel),
        zeros_(width_),
        copies_(in_place_ ? 0 : 2 * width_) {}

  // From here on planes are the outputs of the rows `y` of channel c, from plane z on.
  void open(int64_t n, int64_t c, Range y, int64_t z) {
    n_ = n, c_ = c, y_ = y, z_ = z;
    fresh_ = true;
    running_.assign(y.size() * width_, 0.0);
    for (int64_t m = 0; m < int64_t(window_.extra_counts.size()); ++m)
      if (window_.extra_counts[m] > 0) add(m, double(window_.extra_counts[m]));         // 0 * Inf
    for (int64_t l = 0; l < window_.k - 1; ++l) add(mapped(z - window_.pad + l), 1.0);  // the last enters with z
  }

  // The sums of output plane z's row y; rows come in order, planes too.
  const double* row(int64_t y) {
    const int64_t top = z_ - window_.pad;
    const F* __restrict entering = this->input(mapped(top + window_.k - 1), y, 0);
    const F* __restrict leaving = fresh_ ? zeros_.data() : this->input(mapped(top - 1), y, 1);
    double* __restrict sums = running_.data() + (y - y_.begin) * width_;
    for (int64_t e = 0; e < width_; ++e) sums[e] += double(entering[e]) - double(leaving[e]);
    return sums;
  }
  void next() { ++z_, fresh_ = false; }

 private:
  int64_t mapped(int64_t z) const { return map_index(z, p_.sums.d, p_.place.border); }

  void add(int64_t m, double times) {
    if (m < 0) return;
    for (int64_t y = y_.begin; y < y_.end; ++y) {
      const F* __restrict row = input(m, y, 0);
      double* __restrict sums = running_.data() + (y - y_.begin) * width_;
      for (int64_t e = 0; e < width_; ++e) sums[e] += times * double(row[e]);
    }
  }

  const F* input(int64_t m, int64_t y, int slot) {
    if (m < 0) return zeros_.data();
    const F* src = reinterpret_cast<const F*>(pixel_of(p_.sums, n_, c_, m, y, 0));
    if (in_place_) return src;
    F* copy = copies_.data() + slot * width_;
    read_row<F, F>(src, p_.sums.stride_w, width_, copy);
    return copy;
  }

  const BoxDepth& p_;
  const int64_t pixel_, width_;
  const box::ShortWindow window_;
  const bool in_place_;
  int64_t n_ = 0, c_ = 0, z_ = 0;
  Range y_{};
  bool fresh_ = true;  // no plane has been given yet: none leaves
  std::vector<double> running_;
  std::vector<F> zeros_, copies_;
};

template <typename F>
class DepthStrips {
 public:
  DepthStrips(const BoxDepth& p, int64_t pixel) : p_(p), pixel_(pixel), sums_(p, pixel), out_(p.out, pixel) {
    counts_.resize(p.out.w * pixel);
    for (int64_t e = 0; e < int64_t(counts_.size()); ++e)
      counts_[e] = double(overlap(e / pixel - p.place.pad_x, p.kw, p.plane_w));
  }

  // The outputs z * y of one channel (or of all, interleaved).
  void strip(int64_t plane, Range z, Range y) {
    const int64_t channels = pixel_ > 1 ? 1 : p_.out.c;
    n_ = plane / channels, c_ = plane % channels;
    if (p_.place.border == Border::zero_output) {
      const Range fits = outputs_inside(z, p_.kd, p_.place.pad_z, 1, 1, p_.sums.d);
      for (int64_t at = z.begin; at < z.end; ++at)
        if (at < fits.begin || at >= fits.end) out_.zero(n_, c_, at, y, {0, p_.out.w});
      z = fits;
    }
    if (z.size() <= 0) return;
    sums_.open(n_, c_, y, z.begin);
    for (int64_t at = z.begin; at < z.end; ++at, sums_.next()) {
      out_.open(n_, at, {0, p_.out.w});
      for (int64_t row = y.begin; row < y.end; ++row) finish(sums_.row(row), at, row);
    }
  }

 private:
  void finish(const double* __restrict sums, int64_t z, int64_t y) {
    const Placement& place = p_.place;
    double* __restrict out = out_.row(0, c_, y);
    const int64_t length = out_.length(), planes = overlap(z - place.pad_z, p_.kd, p_.sums.d);
    const bool whole = whole_;
    if (place.normalized) {
      const double* __restrict counts = counts_.data();
      const double rows = double(planes * overlap(y - place.pad_y, p_.kh, p_.plane_h));
      for (int64_t e = 0; e < length; ++e) {
        const double inside = rows * counts[e];
        const double mean = box::mean_of<double>(sums[e], inside, whole);
        out[e] = inside > 0 ? mean : 0.0;
      }
    } else {
      const bool adds = place.border == Border::constant && planes < p_.kd;
      const double outside = adds ? p_.outside * double(p_.kd - planes) : 0.0, area = area_;
      if (area == 1)
        for (int64_t e = 0; e < length; ++e) out[e] = sums[e] + outside;
      else
        for (int64_t e = 0; e < length; ++e) out[e] = box::mean_of<double>(sums[e] + outside, area, whole);
    }
    out_.done(out, c_, y);
  }

  const BoxDepth& p_;
  const int64_t pixel_;
  const bool whole_ = is_integer(p_.out.dtype);
  const double area_ = p_.scale != 1 ? double(p_.kd) * double(p_.kh) * double(p_.kw) : 1;
  DepthSums<F> sums_;
  OutputRows<double> out_;
  int64_t n_ = 0, c_ = 0;
  std::vector<double> counts_;  // columns of an element's window inside the image
};

template <typename F>
void depth_units(const BoxDepth& p, const Plan& plan, Range units) {
  DepthStrips<F> strips(p, interleaved_channels(p.sums, p.out));
  const int64_t blocks = ceil_div(p.out.h, plan.tile_h);
  // One unit at a time: where running sums start afresh must not depend on the number of threads.
  for (; units.begin < units.end; ++units.begin)
    for_each_strip({units.begin, units.begin + 1}, p.out.d, plan.tile_d, [&](const RowStrip& s) {
      const int64_t y = s.plane % blocks * plan.tile_h;
      strips.strip(s.plane / blocks, s.range, {y, std::min(p.out.h, y + plan.tile_h)});
    });
}
