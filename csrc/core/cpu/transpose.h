// Small planes, transposed: a row of memory holds one pixel of many planes. Text of core/cpu/each_isa.h:
// compiled once per instruction set.
//
//     plane 0   x x x x x x         pixel 0 of all planes   0 1 2 3 4 5 ...
//     plane 1   x x x x x x   -->   pixel 1                 0 1 2 3 4 5 ...
//
// Loops over interleaved channels then fill whole registers at any row length. A square of lanes x lanes elements is
// transposed by log2(lanes) shuffles a register.

// The lanes of registers i and i + step whose number has the bit `step` (or not): the lanes of one register alternate
// with the lanes of the other.
template <typename A, int step, bool with>
struct PairedLanes {
  using Index = decltype(Vec<A>{} < Vec<A>{});
  alignas(64) std::conditional_t<sizeof(A) == 8, int64_t, int32_t> at[kLanes<A>];
  constexpr PairedLanes() : at{} {
    for (int lane = 0; lane < kLanes<A>; ++lane) {
      const bool second = lane & step;
      at[lane] = with ? (second ? kLanes<A> + lane : lane + step) : (second ? kLanes<A> + lane - step : lane);
    }
  }
  Index index() const {
    Index i;
    __builtin_memcpy(&i, at, sizeof i);
    return i;
  }
};
template <typename A, int step, bool with>
constexpr PairedLanes<A, step, with> kPairedLanes{};

template <int step, typename A>
TC_HD void transpose_pairs(Vec<A> (&v)[kLanes<A>]) {
  if constexpr (step < kLanes<A>) {
    const auto low = kPairedLanes<A, step, false>.index(), high = kPairedLanes<A, step, true>.index();
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<A>; ++i) {
      if (i & step) continue;
      const Vec<A> a = v[i], b = v[i + step];
      v[i] = __builtin_shuffle(a, b, low);
      v[i + step] = __builtin_shuffle(a, b, high);
    }
    transpose_pairs<2 * step, A>(v);
  }
}

// Lane j of register i, `from_step` elements apart, becomes lane i of register j, `to_step` apart.
template <typename A>
void transpose_square(const A* from, int64_t from_step, A* to, int64_t to_step) {
  Vec<A> v[kLanes<A>];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<A>; ++i) v[i] = load(from + i * from_step);
  transpose_pairs<1, A>(v);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<A>; ++i) store(to + i * to_step, v[i]);
}

// `together` planes of an image (a multiple of a register's lanes) in the accumulation type, as the interleaved
// channels of one.
template <typename A>
class TransposedPlanes {
 public:
  TransposedPlanes(const Image& image, int64_t together)
      : image_(image),
        together_(together),
        pitch_(round_up(image.h * image.w, kLanes<A>) + kLanes<A>),
        one_run_(image.stride_w == 1 && image.stride_h == image.w),
        plain_(kLanes<A> * pitch_),
        memory_(pitch_ * together + kLanes<A>),
        transposed_(reinterpret_cast<A*>(round_up(reinterpret_cast<intptr_t>(memory_.data()), TC_VEC_BYTES))) {}

  Image transposed() const { return torch_conv::transposed(image_, together_, kDtypeOf<A>, transposed_); }

  // The planes (samples times channels) of a range, which may be fewer than `together`.
  void read(Range planes) {
    const ReadRow<A> read_row = row_reader<A>(image_.dtype);
    each_square(planes, [&](int64_t first, int64_t count, A* transposed) {
      each_run(first, count, [&](char* at, int64_t length, A* plain) { read_row(at, image_.stride_w, length, plain); });
      for (int64_t x = 0; x < pixels(); x += kLanes<A>)
        transpose_square(plain_.data() + x, pitch_, transposed + x * together_, together_);
    });
  }
  void write(Range planes) {
    const WriteRow<A> write_row = row_writer<A>(image_.dtype);
    each_square(planes, [&](int64_t first, int64_t count, A* transposed) {
      for (int64_t x = 0; x < pixels(); x += kLanes<A>)
        transpose_square(transposed + x * together_, together_, plain_.data() + x, pitch_);
      each_run(first, count,
               [&](char* at, int64_t length, A* plain) { write_row(plain, length, at, image_.stride_w); });
    });
  }

 private:
  int64_t pixels() const { return image_.h * image_.w; }

  template <typename F>
  void each_square(Range planes, const F& f) {
    for (int64_t at = 0; at < planes.size(); at += kLanes<A>)
      f(planes.begin + at, std::min<int64_t>(kLanes<A>, planes.size() - at), transposed_ + at);
  }
  template <typename F>
  void each_run(int64_t first, int64_t count, const F& f) {
    for (int64_t i = 0; i < count; ++i) {
      char* const plane = pixel_of(image_, (first + i) / image_.c, (first + i) % image_.c, 0, 0, 0);
      A* const plain = plain_.data() + i * pitch_;
      if (one_run_) f(plane, pixels(), plain);
      else
        for (int64_t y = 0; y < image_.h; ++y)
          f(plane + y * image_.stride_h * size_of(image_.dtype), image_.w, plain + y * image_.w);
    }
  }

  const Image& image_;
  const int64_t together_, pitch_;  // pitch_: elements of a plane, before it is transposed
  const bool one_run_;              // all rows of a plane are contiguous
  std::vector<A> plain_, memory_;
  A* transposed_;
};

// Filters the planes of p in blocks of `together`, those of `units`. run(q) filters the transposed planes of one block.
template <typename A, typename Problem, typename F>
void each_transposed_block(const Problem& p, int64_t together, Range units, const F& run) {
  const int64_t planes = p.in.n * p.in.c;
  TransposedPlanes<A> in(p.in, together), out(p.out, together);
  Problem q = p;
  q.in = in.transposed(), q.out = out.transposed();
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const Range some{unit * together, std::min(planes, (unit + 1) * together)};
    in.read(some);
    run(q);
    out.write(some);
  }
}
