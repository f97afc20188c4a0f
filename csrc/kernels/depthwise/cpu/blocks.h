// BLOCKS: planes of as many channels as a register has lanes, turned. Text of core/cpu/each_isa.h: compiled once per
// instruction set.
//
//   16 channels' rows   c0 x x x x x x         pixels of 16 channels       channels.h        16 channels' rows
//   that lie side by    c1 x x x x x x   -->   x0 c c c c c c c c c c  -->  over them     -->    of outputs
//   side                c2 x x x x x x         x1 c c c c c c c c c c
//
// Squares of as many pixels as channels are turned at once. Lanes that are channels waste nothing at the ends of rows
// and read no register across two lines of the cache. Turning takes log2(lanes) shuffles a register, in and out: about
// as much as one or two taps.

// Of registers i and i + step: the lanes without and with the bit `step`, each pair beside the other.
template <int step>
constexpr Lanes kLow = Lanes::of([](int lane) { return lane & step ? kLanes<float> + lane - step : lane; });
template <int step>
constexpr Lanes kHigh = Lanes::of([](int lane) { return lane & step ? kLanes<float> + lane : lane + step; });

template <int step>
TC_HD void turn_step(Vec<float> (&v)[kLanes<float>]) {
  const Words low = kLow<step>.words(), high = kHigh<step>.words();
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<float>; ++i) {
    if (i & step) continue;
    const Vec<float> a = v[i], b = v[i + step];
    v[i] = __builtin_shuffle(a, b, low);
    v[i + step] = __builtin_shuffle(a, b, high);
  }
}

// Turns the square of registers: lane j of register i becomes lane i of register j.
TC_HD void turn(Vec<float> (&v)[kLanes<float>]) {
  turn_step<1>(v);
  turn_step<2>(v);
  if constexpr (kLanes < float >> 4) turn_step<4>(v);
  if constexpr (kLanes < float >> 8) turn_step<8>(v);
}

// Squares of planes of T as registers of float.
template <typename T>
struct Squares {
  using Pixel = float;  // turned
  static constexpr Dtype kDtype = Dtype::f32;
  static constexpr int kSide = kLanes<float>;

  // The first n of a row's pixels of the first `channels` channels; zeros beyond.
  static TC_HD void in(const T* from, int64_t stride_c, int64_t channels, int64_t n, float* to) {
    Vec<float> v[kSide];
    if (channels == kSide) {
#pragma GCC unroll 16
      for (int c = 0; c < kSide; ++c, from += stride_c) v[c] = load_some<float>(from, n);
    } else {
      for (int c = 0; c < kSide; ++c, from += stride_c) v[c] = c < channels ? load_some<float>(from, n) : Vec<float>{};
    }
    turn(v);
#pragma GCC unroll 16
    for (int x = 0; x < kSide; ++x) store(to + x * kSide, v[x]);
  }

  static TC_HD void out(const float* from, T* to, int64_t stride_c, int64_t channels, int64_t n) {
    Vec<float> v[kSide];
#pragma GCC unroll 16
    for (int x = 0; x < kSide; ++x) v[x] = load(from + x * kSide);
    turn(v);
    if (channels == kSide) {
#pragma GCC unroll 16
      for (int c = 0; c < kSide; ++c, to += stride_c) store_some<float>(to, v[c], n);
    } else {
      for (int c = 0; c < channels; ++c, to += stride_c) store_some<float>(to, v[c], n);
    }
  }
};

// Planes of T turned by Turner, under loops over channels.
template <typename T, typename Turner, typename Loops>
class Blocks {
 public:
  static constexpr int kSide = Turner::kSide;

  Blocks(const Depthwise& p, const Plan& plan) : p_(p), turned_(p), channels_((lay_out(plan), turned_)) {}

  // The outputs y, whole rows, of the channels c (at most kSide) of sample n.
  void unit(int64_t n, Range c, Range y) {
    const Placement& place = p_.place;
    const Range rows = inputs_under(y, place.stride_y, place.pad_y, (p_.kh - 1) * place.dilation_y + 1, p_.in.h);
    turn_in(n, c, rows);
    // As if the block stood in a whole image.
    turned_.in.data = in_ - rows.begin * turned_.in.stride_h - c.begin;
    turned_.out.data = out_ - y.begin * turned_.out.stride_h - c.begin;
    channels_.unit(0, c, y, {0, p_.out.w});
    turn_out(n, c, y);
  }

 private:
  using Pixel = typename Turner::Pixel;

  void lay_out(const Plan& plan) {
    const Image &in = p_.in, &out = p_.out;
    const int64_t rows = std::min(in.h, (plan.tile_h - 1) * p_.place.stride_y + (p_.kh - 1) * p_.place.dilation_y + 1);
    const int64_t pixels = round_up(rows * in.w, kSide) + kSide, outputs = round_up(plan.tile_h * out.w, kSide) + kSide;
    in_ = buffer_.take((pixels + outputs) * kSide);
    out_ = in_ + pixels * kSide;
    const auto lay_turned = [](Image& image, Pixel* data) {
      image.data = data, image.dtype = Turner::kDtype;
      image.stride_n = 0, image.stride_c = 1, image.stride_w = kSide, image.stride_h = image.w * kSide;
    };
    lay_turned(turned_.in, in_), lay_turned(turned_.out, out_);
  }

  // Rows as they are turned: those that follow one another are one.
  struct Runs {
    int64_t count, length;
    Runs(const Image& image, Range rows)
        : count(image.stride_h == image.w ? 1 : rows.size()),
          length(image.stride_h == image.w ? rows.size() * image.w : image.w) {}
  };

  void turn_in(int64_t n, Range c, Range rows) {
    const Runs runs(p_.in, rows);
    const T* from = reinterpret_cast<const T*>(pixel_of(p_.in, n, c.begin, 0, rows.begin, 0));
    for (int64_t r = 0; r < runs.count; ++r, from += p_.in.stride_h)
      for (int64_t x = 0; x < runs.length; x += kSide)
        Turner::in(from + x, p_.in.stride_c, c.size(), runs.length - x, in_ + (r * runs.length + x) * kSide);
  }

  void turn_out(int64_t n, Range c, Range rows) {
    const Runs runs(p_.out, rows);
    T* to = reinterpret_cast<T*>(pixel_of(p_.out, n, c.begin, 0, rows.begin, 0));
    for (int64_t r = 0; r < runs.count; ++r, to += p_.out.stride_h)
      for (int64_t x = 0; x < runs.length; x += kSide)
        Turner::out(out_ + (r * runs.length + x) * kSide, to + x, p_.out.stride_c, c.size(), runs.length - x);
  }

  const Depthwise& p_;
  Buffer<Pixel> buffer_;
  Pixel *in_ = nullptr, *out_ = nullptr;
  Depthwise turned_;
  Loops channels_;
};

template <typename SomeBlocks>
void each_block_unit(const Depthwise& p, const Plan& plan, Range units) {
  SomeBlocks blocks(p, plan);
  const int64_t down = ceil_div(p.out.h, plan.tile_h), groups = ceil_div(p.out.c, plan.tile_d);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const int64_t y = unit % down * plan.tile_h, c = unit / down % groups * plan.tile_d, n = unit / down / groups;
    const int64_t end = std::min(p.out.c, c + plan.tile_d);
    for (int64_t first = c; first < end; first += SomeBlocks::kSide)
      blocks.unit(n, {first, std::min(end, first + SomeBlocks::kSide)}, {y, std::min(p.out.h, y + plan.tile_h)});
  }
}

template <typename A>
void block_units(const Depthwise& p, const Plan& plan, Range units) {
  with_type(p.in.dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_same_v<A, float> && std::is_same_v<A, acc_t<T>> && !std::is_integral_v<T>)
      each_block_unit<Blocks<T, Squares<T>, Channels<A>>>(p, plan, units);
  });
}
