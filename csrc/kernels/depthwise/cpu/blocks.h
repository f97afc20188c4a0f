// BLOCKS: planes of as many channels as a register has lanes, transposed. Text of core/cpu/each_isa.h: compiled once
// per instruction set.
//
//     16 channels' rows   c0 x x x x x x         pixels of 16 channels       channels.h        16 channels' rows
//     of the input        c1 x x x x x x   -->   x0 c c c c c c c c c c  -->  over them   -->  of outputs
//                         c2 x x x x x x         x1 c c c c c c c c c c
//
// A square of as many pixels as channels is transposed at once. Lanes that are channels are full at the ends of rows,
// and no register crosses a line of the cache. A transpose takes log2(lanes) shuffles a register, in and out: about as
// much as one or two taps.

// Interleave the lanes of registers i and i + step without (kLow) and with (kHigh) the bit `step`.
template <int step>
constexpr Lanes kLow = Lanes::of([](int lane) { return lane & step ? kLanes<float> + lane - step : lane; });
template <int step>
constexpr Lanes kHigh = Lanes::of([](int lane) { return lane & step ? kLanes<float> + lane : lane + step; });

template <int step>
TC_HD void transpose_step(Vec<float> (&v)[kLanes<float>]) {
  const Words low = kLow<step>.words(), high = kHigh<step>.words();
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<float>; ++i) {
    if (i & step) continue;
    const Vec<float> a = v[i], b = v[i + step];
    v[i] = __builtin_shuffle(a, b, low);
    v[i + step] = __builtin_shuffle(a, b, high);
  }
}

// Transposes a square of registers: lane j of register i becomes lane i of register j.
TC_HD void transpose(Vec<float> (&v)[kLanes<float>]) {
  transpose_step<1>(v);
  transpose_step<2>(v);
  if constexpr (kLanes < float >> 4) transpose_step<4>(v);
  if constexpr (kLanes < float >> 8) transpose_step<8>(v);
}

// Squares of planes of T as registers of float.
template <typename T>
struct Squares {
  using Pixel = float;  // of the transposed image
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
    transpose(v);
#pragma GCC unroll 16
    for (int x = 0; x < kSide; ++x) store(to + x * kSide, v[x]);
  }

  static TC_HD void out(const float* from, T* to, int64_t stride_c, int64_t channels, int64_t n) {
    Vec<float> v[kSide];
#pragma GCC unroll 16
    for (int x = 0; x < kSide; ++x) v[x] = load(from + x * kSide);
    transpose(v);
    if (channels == kSide) {
#pragma GCC unroll 16
      for (int c = 0; c < kSide; ++c, to += stride_c) store_some<float>(to, v[c], n);
    } else {
      for (int c = 0; c < channels; ++c, to += stride_c) store_some<float>(to, v[c], n);
    }
  }
};

// Planes of T, which Transposer transposes for loops over channels.
template <typename T, typename Transposer, typename Loops>
class Blocks {
 public:
  static constexpr int kSide = Transposer::kSide;

  Blocks(const Depthwise& p, const Plan& plan) : p_(p), transposed_(p), channels_((lay_out(plan), transposed_)) {}

  // The outputs y, whole rows, of the channels c (at most kSide) of sample n.
  void unit(int64_t n, Range c, Range y) {
    const Placement& place = p_.place;
    const Range rows = inputs_under(y, place.stride_y, place.pad_y, (p_.kh - 1) * place.dilation_y + 1, p_.in.h);
    transpose_in(n, c, rows);
    // The loops address the block as a part of a whole image.
    transposed_.in.data = in_ - rows.begin * transposed_.in.stride_h - c.begin;
    transposed_.out.data = out_ - y.begin * transposed_.out.stride_h - c.begin;
    channels_.unit(0, c, y, {0, p_.out.w});
    transpose_out(n, c, y);
  }

 private:
  using Pixel = typename Transposer::Pixel;

  void lay_out(const Plan& plan) {
    const Image &in = p_.in, &out = p_.out;
    const int64_t rows = std::min(in.h, (plan.tile_h - 1) * p_.place.stride_y + (p_.kh - 1) * p_.place.dilation_y + 1);
    const int64_t pixels = round_up(rows * in.w, kSide) + kSide, outputs = round_up(plan.tile_h * out.w, kSide) + kSide;
    in_ = buffer_.take((pixels + outputs) * kSide);
    out_ = in_ + pixels * kSide;
    const auto lay_transposed = [](Image& image, Pixel* data) {
      image.data = data, image.dtype = Transposer::kDtype;
      image.stride_n = 0, image.stride_c = 1, image.stride_w = kSide, image.stride_h = image.w * kSide;
    };
    lay_transposed(transposed_.in, in_), lay_transposed(transposed_.out, out_);
  }

  // Contiguous rows are transposed as one long row.
  struct Runs {
    int64_t count, length;
    Runs(const Image& image, Range rows)
        : count(image.stride_h == image.w ? 1 : rows.size()),
          length(image.stride_h == image.w ? rows.size() * image.w : image.w) {}
  };

  void transpose_in(int64_t n, Range c, Range rows) {
    const Runs runs(p_.in, rows);
    const T* from = reinterpret_cast<const T*>(pixel_of(p_.in, n, c.begin, 0, rows.begin, 0));
    for (int64_t r = 0; r < runs.count; ++r, from += p_.in.stride_h)
      for (int64_t x = 0; x < runs.length; x += kSide)
        Transposer::in(from + x, p_.in.stride_c, c.size(), runs.length - x, in_ + (r * runs.length + x) * kSide);
  }

  void transpose_out(int64_t n, Range c, Range rows) {
    const Runs runs(p_.out, rows);
    T* to = reinterpret_cast<T*>(pixel_of(p_.out, n, c.begin, 0, rows.begin, 0));
    for (int64_t r = 0; r < runs.count; ++r, to += p_.out.stride_h)
      for (int64_t x = 0; x < runs.length; x += kSide)
        Transposer::out(out_ + (r * runs.length + x) * kSide, to + x, p_.out.stride_c, c.size(), runs.length - x);
  }

  const Depthwise& p_;
  Buffer<Pixel> buffer_;
  Pixel *in_ = nullptr, *out_ = nullptr;
  Depthwise transposed_;
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
  if constexpr (std::is_same_v<A, float>)
    with_pixels<A>(p.in.dtype, [&](auto t) {
      using T = decltype(t);
      each_block_unit<Blocks<T, Squares<T>, Channels<A>>>(p, plan, units);
    });
}
