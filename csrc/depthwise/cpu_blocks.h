// BLOCKS: planes of as many channels as a register has lanes, turned. Text of core/cpu_each_isa.h: compiled once per
// instruction set.
//
//   16 channels' rows   c0 x x x x x x         pixels of 16 channels       cpu_channels.h        16 channels' rows
//   that lie side by    c1 x x x x x x   -->   x0 c c c c c c c c c c  -->  over them     -->    of outputs
//   side                c2 x x x x x x         x1 c c c c c c c c c c
//
// Lanes that are channels waste nothing at the ends of rows and read no register across two lines of the cache. Turning
// takes log2(lanes) shuffles a register, in and out: about as much as one or two taps.

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

template <typename T>
class Blocks {
 public:
  using A = float;

  Blocks(const Depthwise& p, const Plan& plan) : p_(p), turned_(p), channels_((lay_out(plan), turned_)) {}

  // The outputs y * x of block `block` of sample n's channels; x is whole rows.
  void unit(int64_t n, int64_t block, Range y) {
    const Placement& place = p_.place;
    const int64_t first = block * kLanes<A>, lanes = std::min<int64_t>(kLanes<A>, p_.out.c - first);
    const int64_t top = y.begin * place.stride_y - place.pad_y;
    const int64_t bottom = (y.end - 1) * place.stride_y - place.pad_y + (p_.kh - 1) * place.dilation_y + 1;
    const Range rows{std::clamp<int64_t>(top, 0, p_.in.h), std::clamp<int64_t>(bottom, 0, p_.in.h)};
    turn_in(n, first, lanes, rows);
    // As if the block stood in a whole image.
    turned_.in.data = in_ - rows.begin * turned_.in.stride_h - first;
    turned_.out.data = out_ - y.begin * turned_.out.stride_h - first;
    channels_.unit(0, {block, block + 1}, y, {0, p_.out.w});
    turn_out(n, first, lanes, y);
  }

 private:
  void lay_out(const Plan& plan) {
    const Image &in = p_.in, &out = p_.out;
    const int64_t rows = std::min(in.h, (plan.tile_h - 1) * p_.place.stride_y + (p_.kh - 1) * p_.place.dilation_y + 1);
    const int64_t pixels = round_up(rows * in.w, 16) + 16, outputs = round_up(plan.tile_h * out.w, 16) + 16;
    in_ = room_.take((pixels + outputs) * kLanes<A>);
    out_ = in_ + pixels * kLanes<A>;
    const auto turn = [](Image& image, A* data) {
      image.data = data, image.dtype = Dtype::f32;
      image.stride_n = 0, image.stride_c = 1, image.stride_w = kLanes<A>, image.stride_h = image.w * kLanes<A>;
    };
    turn(turned_.in, in_), turn(turned_.out, out_);
  }

  void turn_in(int64_t n, int64_t first, int64_t lanes, Range rows) {
    const Image& in = p_.in;
    const bool one = in.stride_h == in.w;  // rows follow one another
    const int64_t runs = one ? 1 : rows.size(), length = one ? rows.size() * in.w : in.w;
    const T* from = static_cast<const T*>(in.data) + n * in.stride_n + first * in.stride_c + rows.begin * in.stride_h;
    for (int64_t r = 0; r < runs; ++r, from += in.stride_h)
      for (int64_t x = 0; x < length; x += kLanes<A>) {
        Vec<A> v[kLanes<A>];
        const T* at = from + x;
        if (lanes == kLanes<A>) {
#pragma GCC unroll 16
          for (int c = 0; c < kLanes<A>; ++c, at += in.stride_c) v[c] = load_some<A>(at, length - x);
        } else {
          for (int c = 0; c < kLanes<A>; ++c, at += in.stride_c)
            v[c] = c < lanes ? load_some<A>(at, length - x) : Vec<A>{};
        }
        turn(v);
        A* to = in_ + (r * length + x) * kLanes<A>;
#pragma GCC unroll 16
        for (int i = 0; i < kLanes<A>; ++i) store(to + i * kLanes<A>, v[i]);
      }
  }

  void turn_out(int64_t n, int64_t first, int64_t lanes, Range rows) {
    const Image& out = p_.out;
    const bool one = out.stride_h == out.w;
    const int64_t runs = one ? 1 : rows.size(), length = one ? rows.size() * out.w : out.w;
    T* to = static_cast<T*>(out.data) + n * out.stride_n + first * out.stride_c + rows.begin * out.stride_h;
    for (int64_t r = 0; r < runs; ++r, to += out.stride_h)
      for (int64_t x = 0; x < length; x += kLanes<A>) {
        Vec<A> v[kLanes<A>];
        const A* from = out_ + (r * length + x) * kLanes<A>;
#pragma GCC unroll 16
        for (int i = 0; i < kLanes<A>; ++i) v[i] = load(from + i * kLanes<A>);
        turn(v);
        T* at = to + x;
        if (lanes == kLanes<A>) {
#pragma GCC unroll 16
          for (int c = 0; c < kLanes<A>; ++c, at += out.stride_c) store_some<A>(at, v[c], length - x);
        } else {
          for (int c = 0; c < lanes; ++c, at += out.stride_c) store_some<A>(at, v[c], length - x);
        }
      }
  }

  const Depthwise& p_;
  Room<A> room_;
  A *in_ = nullptr, *out_ = nullptr;
  Depthwise turned_;
  Channels<A> channels_;
};

template <typename A>
void block_units(const Depthwise& p, const Plan& plan, Range units) {
  with_type(p.in.dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_same_v<A, float> && std::is_same_v<A, acc_t<T>> && !std::is_integral_v<T>) {
      Blocks<T> blocks(p, plan);
      // A unit is kChannelsOfATask channels.
      const int64_t down = ceil_div(p.out.h, plan.tile_h), registers = ceil_div(p.out.c, kLanes<A>);
      const int64_t step = plan.tile_d / kLanes<A>, groups = ceil_div(registers, step);
      for (int64_t unit = units.begin; unit < units.end; ++unit) {
        const int64_t y = unit % down * plan.tile_h, group = unit / down % groups, n = unit / down / groups;
        const int64_t end = std::min(registers, (group + 1) * step);
        for (int64_t block = group * step; block < end; ++block)
          blocks.unit(n, block, {y, std::min(p.out.h, y + plan.tile_h)});
      }
    }
  });
}
