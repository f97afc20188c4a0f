// CHANNELS: pixels whose channels are interleaved. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
//     input row   0 | x x x x x x x | 0     A register holds as many channels of one pixel as fit. A tile sums P output
//     row taps      0 1 2                   pixels of a row at once, from the image itself. It leaves out taps on rows
//     output            p p p p p           and columns outside: with finite taps, only the sign of a zero may differ.
//
// kh kw multiply-adds a pixel and channel; (P + kw - 1) / P loads a row of taps.

// True if tiles prefetch the output lines of the next tile of their channels. The second-level caches do not hold these
// lines. us without and with prefetches, 3x3 and 5x5, two threads of Zen 4:
//
//     bfloat16 4x128x14x14  23.4, 23.5 and  36.3,  36.6    float32 4x128x14x14  24.7, 27.3 and  35.7,  37.3
//              8x384x14x14  88.5, 86.8 and 156.7, 152.8            8x384x14x14  87.6, 98.3 and 154.3, 166.8
//              8x96x56x56    413,  337 and   712,   620            8x96x56x56    640,  594 and   749,   688
//
template <typename T>
bool writes_ahead(const Depthwise& p) {
  return bytes_of(p.out) > (sizeof(T) == 2 ? 1 << 20 : 8 << 20);
}

// Outputs `x .. x + P` of a row, for one register of channels.
template <typename T>
struct ChannelTile {
  using A = acc_t<T>;
  const T* from;        // tap (0, 0) of the first output
  int64_t row, pixel;   // from one tap row, one tap column to the next, in elements
  int64_t step;         // from one output to the next
  int64_t begin, end;   // the tap rows inside the image
  int64_t left, right;  // of the columns under the tile's windows, those inside the image (dilation 1)
  const A* taps;        // tap (i, j) of a register's channels: taps[(i * kw + j) * kLanes]; after them the biases
  int64_t kh, kw;
  T* out;
  int64_t pitch;  // from one output to the next
  A* sums;        // target of the sums, kLanes apart, if an activation follows; else null
  int64_t lanes;  // channels
  bool ahead;     // prefetch the output lines of the next tile of these channels
};

template <int P, typename A, typename T>
TC_HD void store_sums(const ChannelTile<T>& t, const Vec<A> (&sum)[P]) {
  const Vec<A> bias = load(t.taps + t.kh * t.kw * kLanes<A>);
  if (t.sums) {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) store(t.sums + p * kLanes<A>, sum[p] + bias);
  } else if (t.lanes == kLanes<A>) {
    T* to = t.out;
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p, to += t.pitch) store_some<A>(to, sum[p] + bias, kLanes<A>);
  } else {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) store_some<A>(t.out + p * t.pitch, sum[p] + bias, t.lanes);
  }
}

// Windows of any height and K columns without dilation, outputs S apart. At most K - 1 columns are outside at either
// end.
template <typename T, int P, int K, int S>
void channel_tile(const ChannelTile<T>& t) {
  using A = acc_t<T>;
  constexpr int kColumns = (P - 1) * S + K;
  const int64_t lanes = t.lanes;
  // Prefetches the first pixels of the next row of outputs. 8x96x56x56 float32 3x3, one thread, Zen 4: 0.99 ms without,
  // 0.81 with. 16-bit pixels need no prefetch.
  if constexpr (sizeof(T) == 4) {
    const T* next = t.from + t.kh * t.row;
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) __builtin_prefetch(next + (p * S + K / 2) * t.pixel);
  }
  if (t.ahead) {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) __builtin_prefetch(t.out + (P + p) * t.pitch, 1);
  }
  Vec<A> sum[P] = {};
  for (int64_t i = t.begin; i < t.end; ++i) {
    const T* at = t.from + i * t.row;
    Vec<A> tap[K];
#pragma GCC unroll 16
    for (int j = 0; j < K; ++j) tap[j] = load(t.taps + (i * K + j) * kLanes<A>);
#pragma GCC unroll 64
    for (int q = 0; q < kColumns; ++q, at += t.pixel) {
      if ((q < K - 1 && q < t.left) || (q > kColumns - K && q >= t.right)) continue;
      const Vec<A> in = load_some<A>(at, lanes);
#pragma GCC unroll 16
      for (int j = 0; j < K; ++j)
        if (q >= j && (q - j) % S == 0 && (q - j) / S < P) sum[(q - j) / S] = fma(tap[j], in, sum[(q - j) / S]);
    }
  }
  store_sums<P, A>(t, sum);
}

// Any window, stride and dilation; all columns are inside.
template <typename T, int P>
void channel_tile_any(const ChannelTile<T>& t) {
  using A = acc_t<T>;
  const int64_t lanes = t.lanes;
  Vec<A> sum[P] = {};
  for (int64_t i = t.begin; i < t.end; ++i) {
    const T* from = t.from + i * t.row;
    const A* tap_at = t.taps + i * t.kw * kLanes<A>;
    for (int64_t j = 0; j < t.kw; ++j, from += t.pixel, tap_at += kLanes<A>) {
      const Vec<A> tap = load(tap_at);
      const T* at = from;
#pragma GCC unroll 16
      for (int p = 0; p < P; ++p, at += t.step) sum[p] = fma(tap, load_some<A>(at, lanes), sum[p]);
    }
  }
  store_sums<P, A>(t, sum);
}

template <typename T>
using ChannelRun = void (*)(const ChannelTile<T>&);

// Outputs of a tile: with K taps and a value, they must fit the registers. Feature maps are 7, 14, 28, 56 and 112 wide.
constexpr bool kMasks = TC_VEC_BYTES == 64;  // masked registers load as fast as full ones
constexpr int kOutputs[] = {14, 7, 4, 2, 1};
constexpr int kSizes = 5, kLargest = TC_VEC_BYTES == 64 ? 0 : 1;

template <typename T>
void channel_runs(ChannelRun<T> (&fixed)[kSizes], ChannelRun<T> (&any)[kSizes], int64_t kw, int64_t stride) {
  unrolled<kSizes>([&]<int I>() {
    constexpr int P = kOutputs[I];
    any[I] = channel_tile_any<T, P>;
    fixed[I] = nullptr;
    if constexpr (!std::is_same_v<T, double> && I >= kLargest) {
      if (stride == 1 && kw == 3) fixed[I] = channel_tile<T, P, 3, 1>;
      if (stride == 1 && kw == 4) fixed[I] = channel_tile<T, P, 4, 1>;
      if (stride == 1 && kw == 5) fixed[I] = channel_tile<T, P, 5, 1>;
      if (stride == 1 && kw == 7) fixed[I] = channel_tile<T, P, 7, 1>;
      if (stride == 2 && kw == 3) fixed[I] = channel_tile<T, P, 3, 2>;
      if (stride == 2 && kw == 5) fixed[I] = channel_tile<T, P, 5, 2>;
    }
  });
}

template <typename T>
class Channels {
 public:
  using A = acc_t<T>;

  // `ahead` is writes_ahead, but false if outputs are a thread's own scratch.
  explicit Channels(const Depthwise& p, bool ahead = false)
      : p_(p),
        ahead_(ahead),
        finish_(row_finisher<A>(p.out.dtype, p.activation)),
        registers_(ceil_div(p.out.c, kLanes<A>)),
        state_(registers_, kUnknown),
        window_((p.kh * p.kw + 1) * kLanes<A>),
        direct_(p.in.stride_c == 1 && p.in.c == p.out.c) {
    channel_runs<T>(fixed_, any_, p.kw, p.place.dilation_x == 1 ? p.place.stride_x : 0);
    channel_runs<A>(unused_, patch_, 0, 0);
    taps_ = buffer_.take(registers_ * window_ + kOutputs[0] * kLanes<A>);
    sums_ = taps_ + registers_ * window_;
  }

  // Computes outputs y * x of channels c of sample n. The channels begin with a whole register.
  void unit(int64_t n, Range c, Range y, Range x) {
    const Range blocks{c.begin / kLanes<A>, ceil_div(c.end, kLanes<A>)};
    n_ = n;
    cut_rows(y);
    cut_columns(x);
    for (int64_t block = blocks.begin; block < blocks.end; ++block)
      if (state_[block] == kUnknown) load_windows(block);
    for (const OutputRow& row : rows_)
      for (const ColumnTile& column : columns_)
        for (int64_t block = blocks.begin; block < blocks.end; ++block) tile(row, column, block);
  }

 private:
  enum State : char { kUnknown, kFinite, kOther };

  // An output row: the first row of its windows, and their rows inside the image.
  struct OutputRow {
    int64_t y, top;
    Range inside;
  };
  // The columns of a tile: the outputs, the first column of their windows, and their columns inside the image.
  struct ColumnTile {
    int size;
    int64_t x, first, count;
    Range inside;
    bool all, most;  // all are inside; all but fewer than a window's at either end
  };

  void cut_rows(Range y) {
    if (y.begin == y_.begin && y.end == y_.end) return;
    y_ = y;
    rows_.clear();
    for (int64_t at = y.begin; at < y.end; ++at) {
      const int64_t top = at * p_.place.stride_y - p_.place.pad_y;
      rows_.push_back({at, top, positions_inside({0, p_.kh}, top, p_.place.dilation_y, p_.in.h)});
    }
  }

  void cut_columns(Range x) {
    if (x.begin == x_.begin && x.end == x_.end) return;
    x_ = x;
    columns_.clear();
    const Placement& place = p_.place;
    for (int size = kLargest; x.begin < x.end;) {
      if (x.size() < kOutputs[size]) {
        ++size;
        continue;
      }
      const int64_t first = x.begin * place.stride_x - place.pad_x;
      const int64_t count = (kOutputs[size] - 1) * place.stride_x + (p_.kw - 1) * place.dilation_x + 1;
      const Range inside = positions_inside({0, count}, first, 1, p_.in.w);
      columns_.push_back({size, x.begin, first, count, inside, inside.size() == count,
                          inside.begin < p_.kw && inside.end > count - p_.kw});
      x.begin += kOutputs[size];
    }
  }

  // Loads the windows of a register's channels, tap by tap, and then their biases.
  void load_windows(int64_t block) {
    const int64_t count = p_.kh * p_.kw, first = block * kLanes<A>;
    const int64_t channels = std::min<int64_t>(kLanes<A>, p_.out.c - first);
    A* to = taps_ + block * window_;
    std::fill_n(to, window_, A(0));
    with_type(p_.weights, [&](auto t) {
      using W = decltype(t);
      const W* from = static_cast<const W*>(p_.weight) + first * count;
      for (int64_t i = 0; i < count; ++i)
        for (int64_t c = 0; c < channels; ++c) to[i * kLanes<A> + c] = to_acc<A>(from[c * count + i]);
      if (p_.bias)
        for (int64_t c = 0; c < channels; ++c)
          to[count * kLanes<A> + c] = to_acc<A>(static_cast<const W*>(p_.bias)[first + c]);
    });
    state_[block] = all_finite(to, count * kLanes<A>) ? kFinite : kOther;
  }

  void tile(const OutputRow& row, const ColumnTile& column, int64_t block) {
    c_ = block * kLanes<A>, lanes_ = std::min<int64_t>(kLanes<A>, p_.out.c - c_);
    const Placement& place = p_.place;
    const Image &in = p_.in, &out = p_.out;
    const bool finite = state_[block] == kFinite;
    const Range all_rows{0, p_.kh}, rows = finite ? row.inside : all_rows;
    const bool sums_only = p_.activation != Activation::none;
    ChannelTile<T> t{
        .from = static_cast<const T*>(in.data) + n_ * in.stride_n + c_ * in.stride_c + row.top * in.stride_h +
                column.first * in.stride_w,
        .row = place.dilation_y * in.stride_h,
        .pixel = in.stride_w,
        .step = place.stride_x * in.stride_w,
        .begin = rows.begin,
        .end = rows.end,
        .left = column.inside.begin,
        .right = column.inside.end,
        .taps = taps_ + block * window_,
        .kh = p_.kh,
        .kw = p_.kw,
        .out = static_cast<T*>(out.data) + n_ * out.stride_n + c_ + row.y * out.stride_h + column.x * out.stride_w,
        .pitch = out.stride_w,
        .sums = sums_only ? sums_ : nullptr,
        .lanes = lanes_,
        .ahead = ahead_};
    const int size = column.size;
    const bool direct = direct_ && (kMasks || lanes_ == kLanes<A>)&&(finite || row.inside.size() == p_.kh);
    if (direct && fixed_[size] && (column.all || (finite && column.most))) {
      fixed_[size](t);
    } else if (direct && column.all) {
      t.pixel *= place.dilation_x;
      any_[size](t);
    } else {
      by_patch(t, row, column);
    }
    if (sums_only)
      for (int64_t p = 0; p < kOutputs[size]; ++p) finish_(sums_ + p * kLanes<A>, lanes_, t.out + p * t.pitch);
  }

  // Computes a tile from a copy of its footprint, with zeros for pixels outside.
  void by_patch(const ChannelTile<T>& tile, const OutputRow& row, const ColumnTile& column) {
    const Image& in = p_.in;
    const Placement& place = p_.place;
    const int size = column.size;
    const int64_t pitch = column.count * kLanes<A>;
    A* const patch = patch_buffer_.take(p_.kh * pitch + kOutputs[0] * kLanes<A>);
    std::fill_n(patch, p_.kh * pitch, A(0));
    int64_t channel[kLanes<A>];
    for (int64_t c = 0; c < lanes_; ++c) channel[c] = (c_ + c) / p_.multiplier() * in.stride_c;
    for (int64_t i = tile.begin; i < tile.end; ++i) {
      const int64_t y = row.top + i * place.dilation_y;
      if (y < 0 || y >= in.h) continue;
      for (int64_t q = column.inside.begin; q < column.inside.end; ++q) {
        const T* from =
            static_cast<const T*>(in.data) + n_ * in.stride_n + y * in.stride_h + (column.first + q) * in.stride_w;
        A* const to = patch + i * pitch + q * kLanes<A>;
        if (direct_) store(to, load_some<A>(from + c_, lanes_));
        else
          for (int64_t c = 0; c < lanes_; ++c) to[c] = to_acc<A>(from[channel[c]]);
      }
    }
    A* const sums = patch + p_.kh * pitch;
    patch_[size]({.from = patch,
                  .row = pitch,
                  .pixel = place.dilation_x * kLanes<A>,
                  .step = place.stride_x * kLanes<A>,
                  .begin = tile.begin,
                  .end = tile.end,
                  .left = 0,
                  .right = column.count,
                  .taps = tile.taps,
                  .kh = tile.kh,
                  .kw = tile.kw,
                  .out = nullptr,
                  .pitch = 0,
                  .sums = tile.sums ? tile.sums : sums,
                  .lanes = kLanes<A>,
                  .ahead = false});
    if (tile.sums) return;
    for (int64_t p = 0; p < kOutputs[size]; ++p)
      store_some<A>(tile.out + p * tile.pitch, load(sums + p * kLanes<A>), lanes_);
  }

  const Depthwise& p_;
  const bool ahead_;
  const FinishRow<A> finish_;
  const int64_t registers_;
  std::vector<State> state_;  // of a register's windows: loaded, finite
  const int64_t window_;
  const bool direct_;  // registers are loaded from the image itself
  Range y_{0, 0}, x_{0, 0};
  std::vector<OutputRow> rows_;
  std::vector<ColumnTile> columns_;
  ChannelRun<T> fixed_[kSizes], any_[kSizes];
  ChannelRun<A> patch_[kSizes], unused_[kSizes];
  int64_t n_ = 0, c_ = 0, lanes_ = 0;
  A *taps_ = nullptr, *sums_ = nullptr;
  Buffer<A> buffer_, patch_buffer_;
};

// Calls f(n, c, y, x) for each unit: channels c of sample n, output rows y and columns x.
template <typename F>
void each_channel_unit(const Depthwise& p, const Plan& plan, Range units, F f) {
  const int64_t tiles_x = ceil_div(p.out.w, plan.tile_w), tiles_y = ceil_div(p.out.h, plan.tile_h);
  const int64_t groups = ceil_div(p.out.c, plan.tile_d);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const int64_t c = unit % groups * plan.tile_d, strip = unit / groups;
    const int64_t x = strip % tiles_x * plan.tile_w, y = strip / tiles_x % tiles_y * plan.tile_h;
    f(strip / tiles_x / tiles_y, Range{c, std::min(p.out.c, c + plan.tile_d)},
      Range{y, std::min(p.out.h, y + plan.tile_h)}, Range{x, std::min(p.out.w, x + plan.tile_w)});
  }
}

template <typename A>
void channel_units(const Depthwise& p, const Plan& plan, Range units) {
  with_pixels<A>(p.in.dtype, [&](auto t) {
    using T = decltype(t);
    Channels<T> channels(p, writes_ahead<T>(p));
    each_channel_unit(p, plan, units, [&](int64_t n, Range c, Range y, Range x) { channels.unit(n, c, y, x); });
  });
}
