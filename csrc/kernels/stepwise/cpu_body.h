// Sums in a given order on the CPU. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
//   image            block of float64                sums             image
//   any type   ->    extended by the border    ->    a piece    ->    any type, as C converts
//
// Loops run over neighbouring numbers; a tap is an offset in the block.

using stepwise::Axis;
using stepwise::Element;
using stepwise::Problem;
using stepwise::Tiling;
using stepwise::with_element;

constexpr int64_t kPiece = 1024, kPadding = 8 * kLanes<double>;  // numbers that loops may read and write beyond an end

template <typename T>
void to_doubles(const void* image, int64_t first, int64_t n, double* __restrict to) {
  const T* __restrict from = static_cast<const T*>(image) + first;
  for (int64_t i = 0; i < n; ++i) to[i] = double(from[i]);
}
using Read = void (*)(const void*, int64_t, int64_t, double*);

// Converts a sum to an integer I as x86-64 does: sums beyond I become its lowest value.
template <typename I>
TC_HD I to_integer(double sum) {
  constexpr double lowest = double(std::numeric_limits<I>::min());
  return I(bool(sum > lowest) & bool(sum < -lowest) ? sum : lowest);
}

TC_HD uint64_t to_unsigned(double sum) {
  constexpr double half = 9223372036854775808.0;
  return sum >= half ? uint64_t(to_integer<int64_t>(sum - half)) ^ (uint64_t(1) << 63)
                     : uint64_t(to_integer<int64_t>(sum));
}

template <typename T>
void to_elements(const double* __restrict sums, int64_t n, void* image, int64_t first, bool by_magnitude) {
  T* __restrict to = static_cast<T*>(image) + first;
  if constexpr (std::is_floating_point_v<T>) {
    for (int64_t i = 0; i < n; ++i) to[i] = T(sums[i]);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (!by_magnitude)
      for (int64_t i = 0; i < n; ++i) to[i] = to_unsigned(sums[i]);
    else
      for (int64_t i = 0; i < n; ++i)
        to[i] = sums[i] > -1 ? to_unsigned(std::fabs(sums[i])) : -to_unsigned(std::fabs(sums[i]));
  } else {
    using Wide = std::conditional_t<sizeof(T) <= 2 || std::is_same_v<T, int32_t>, int32_t, int64_t>;
    Wide whole[kPiece];  // g++ 12 vectorizes narrow integers in two steps only
    for (int64_t i = 0; i < n; ++i) whole[i] = to_integer<Wide>(sums[i]);
    for (int64_t i = 0; i < n; ++i) to[i] = T(whole[i]);
  }
}
using Write = void (*)(const double*, int64_t, void*, int64_t, bool);

// The terms with their taps as offsets in the block.
struct Terms {
  std::vector<double> weights;
  std::vector<int64_t> at, twin;
  double start;

  Terms(const Problem& p, const Tiling& t) : weights(p.weights), start(p.start) {
    const size_t axes = p.axes.size();
    const auto offset = [&](auto tap) {
      int64_t row = 0;
      for (size_t a = 0; a + 2 < axes; ++a) row = row * p.axes[a].k + tap(a);
      return (row * t.block_rows + tap(axes - 2)) * t.pitch + tap(axes - 1) * p.channels;
    };
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t* taps = &p.taps[i * axes];
      at.push_back(offset([&](size_t a) { return taps[a]; }));
      twin.push_back(offset([&](size_t a) { return p.axes[a].k - 1 - taps[a]; }));
    }
  }
};

template <int V, int twins>
TC_HD void add_up(const double* block, const Terms& terms, double* sums) {
  constexpr int64_t L = kLanes<double>;
  Vec<double> sum[V];
  const auto each = [&](auto f) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) f(sum[v], v * L);
  };
  each([&](Vec<double>& s, int64_t) { s = splat(terms.start); });
  size_t i = 0;
  if (twins && !terms.weights.empty()) {
    const Vec<double> weight = splat(terms.weights[0]);
    each([&](Vec<double>& s, int64_t lane) { s += load(block + terms.at[0] + lane) * weight; });
    i = 1;
  }
  for (const size_t n = terms.weights.size(); i < n; ++i) {
    const Vec<double> weight = splat(terms.weights[i]);
    const double *at = block + terms.at[i], *twin = block + terms.twin[i];
    each([&](Vec<double>& s, int64_t lane) {
      Vec<double> pixel = load(at + lane);
      if constexpr (twins > 0) pixel += load(twin + lane);
      if constexpr (twins < 0) pixel -= load(twin + lane);
      s += pixel * weight;
    });
  }
  each([&](Vec<double>& s, int64_t lane) { store(sums + lane, s); });
}

template <int twins>
void weighted(const double* block, const Terms& terms, int64_t n, double* sums) {
  constexpr int64_t L = kLanes<double>;
  int64_t i = 0;
  for (; i + 8 * L <= n; i += 8 * L) add_up<8, twins>(block + i, terms, sums + i);
  for (; i + 2 * L <= n; i += 2 * L) add_up<2, twins>(block + i, terms, sums + i);
  for (; i < n; i += L) add_up<1, twins>(block + i, terms, sums + i);
}

// Sums of k numbers `step` apart, from sums of 1, 2, 4 ... of them. The function overwrites `block`.
inline void doublings(double* block, int64_t k, int64_t step, int64_t n, double* __restrict sums) {
  constexpr int64_t L = kLanes<double>;
  std::fill_n(sums, n, -0.0);
  for (int64_t m = 1, before = 0;; m *= 2) {
    if (k & m) {
      const double* part = block + before * step;
      for (int64_t i = 0; i < n; ++i) sums[i] += part[i];
      before += m;
    }
    if (2 * m > k) return;
    // The loop reads a number before it writes it: sums of 2m numbers replace those of m.
    const int64_t rest = n + (k - 2 * m) * step, ahead = m * step;
    int64_t i = 0;
    for (; i + L <= rest; i += L) store(block + i, load(block + i) + load(block + i + ahead));
    for (; i < rest; ++i) block[i] += block[i + ahead];
  }
}

// Lane i of the result is the sum of the lanes up to i.
TC_HD Vec<double> sums_so_far(Vec<double> v) {
  typedef int64_t Lanes __attribute__((vector_size(TC_VEC_BYTES)));
#pragma GCC unroll 4
  for (int back = 1; back < kLanes<double>; back *= 2) {
    Lanes from;
    for (int lane = 0; lane < kLanes<double>; ++lane) from[lane] = lane < back ? 0 : kLanes<double> + lane - back;
    v += __builtin_shuffle(Vec<double>{}, v, from);
  }
  return v;
}

// Sums of k whole numbers `step` apart, whose sums no order rounds: each is the previous one, plus one number, less
// another. `step` is 1 or at least a register, and k at least a register. The loops write up to a register beyond an
// end.
inline void running(double* block, int64_t k, int64_t step, int64_t n, double* sums) {
  constexpr int64_t L = kLanes<double>;
  const double* last = block + (k - 1) * step;
  if (step == 1) {
    Vec<double> lanes{};
    int64_t j = 0;
    for (; j + L <= k; j += L) lanes += load(block + j);
    double first = sums_so_far(lanes)[L - 1];
    for (; j < k; ++j) first += block[j];
    sums[0] = first;
    Vec<double> before = splat(first);
    for (int64_t i = 1; i < n; i += L) {
      const Vec<double> changes = sums_so_far(load(last + i) - load(block + i - 1));
      store(sums + i, before + changes);
      before += splat(changes[L - 1]);
    }
  } else {
    std::copy_n(block, step, sums);
    for (int64_t j = 1; j < k; ++j)
      for (int64_t i = 0; i < step; i += L) store(sums + i, load(sums + i) + load(block + j * step + i));
    for (int64_t i = step; i < n; i += L)
      store(sums + i, load(sums + i - step) + (load(last + i) - load(block + i - step)));
  }
}

// Quotients of sums by k. Whole numbers take multiplications, which are faster and give the same quotients. The first
// correction brings a quotient within a unit in the last place, the second rounds it correctly (Markstein, IBM J. Res.
// Dev. 34, 1990).
inline void divide(const double* sums, int64_t k, int64_t n, bool whole_numbers, double* quotients) {
  int64_t i = 0;
#if TC_X86_FMA
  const Vec<double> divisor = splat(double(k)), reciprocal = splat(1.0 / double(k));
  for (; whole_numbers && i + kLanes<double> <= n; i += kLanes<double>) {
    const Vec<double> sum = load(sums + i);
    Vec<double> quotient = sum * reciprocal;
    for (int correction = 0; correction < 2; ++correction)
      quotient = fma(fma(-quotient, divisor, sum), reciprocal, quotient);
    store(quotients + i, quotient);
  }
#endif
  for (; i < n; ++i) quotients[i] = sums[i] / double(k);
}

// Fills one row of the block by `pixels` of a row of the image, from `first` on, which may be negative. Row -1 is
// outside.
inline void fill_row(const Problem& p, Read read, int64_t row, int64_t first, int64_t pixels, double* to) {
  const int64_t n = p.axes.back().n, c = p.channels;
  if (row < 0) return void(std::fill_n(to, pixels * c, p.value));
  const int64_t begin = std::clamp<int64_t>(-first, 0, pixels), end = std::clamp<int64_t>(n - first, begin, pixels);
  read(p.in, (row * n + first + begin) * c, (end - begin) * c, to + begin * c);
  const auto beyond = [&](int64_t i) {
    const int64_t from = map_index(first + i, n, p.border), inside = from - first;
    if (from >= 0 && (inside < begin || inside >= end)) return read(p.in, (row * n + from) * c, c, to + i * c);
    for (int64_t j = 0; j < c; ++j) to[i * c + j] = from < 0 ? p.value : to[inside * c + j];
  };
  for (int64_t i = 0; i < begin; ++i) beyond(i);
  for (int64_t i = end; i < pixels; ++i) beyond(i);
}

// Fills the block by the rows under the windows of a tile: outputs y * x of plane `plane`.
inline void fill_block(const Problem& p, const Tiling& t, Read read, int64_t plane, Range y, Range x, double* block) {
  const size_t before = p.axes.size() - 2;
  const Axis &down = p.axes[before], &across = p.axes.back();
  for (int64_t b = 0; b < t.blocks; ++b) {
    int64_t source = 0, stride = 1, taps = b, position = plane;
    for (size_t a = before; a-- > 0;) {
      const Axis& axis = p.axes[a];
      const int64_t at = map_index(position % axis.n + taps % axis.k - axis.anchor, axis.n, p.border);
      source = at < 0 || source < 0 ? -1 : source + at * stride;
      stride *= axis.n, taps /= axis.k, position /= axis.n;
    }
    for (int64_t j = 0; j < y.size() + down.k - 1; ++j) {
      const int64_t at = map_index(y.begin + j - down.anchor, down.n, p.border);
      fill_row(p, read, source < 0 || at < 0 ? -1 : source * down.n + at, x.begin - across.anchor,
               x.size() + across.k - 1, block + (b * t.block_rows + j) * t.pitch);
    }
  }
}

inline void run_tiles(const Problem& p, const Tiling& t, Range tiles) {
  const Axis &down = p.axes[p.axes.size() - 2], &across = p.axes.back();
  const Read read = with_element(p.in_type, [](auto e) -> Read { return to_doubles<decltype(e)>; });
  const Write write = with_element(p.out_type, [](auto e) -> Write { return to_elements<decltype(e)>; });
  const auto add = p.twins > 0 ? weighted<1> : p.twins < 0 ? weighted<-1> : weighted<0>;
  const Terms terms(p, t);
  std::vector<double> block(t.scratch() + kPadding), sums(kPiece + kPadding);
  std::vector<double> means(terms.weights.empty() && p.mean_of ? t.rows * t.pitch + kPadding : 0);
  const int64_t step = down.k > 1 ? t.pitch : p.channels;
  const bool far = step == 1 || step >= kLanes<double>;
  const bool runs = p.whole_numbers && far && p.mean_of >= kLanes<double>;
  const auto add_means = runs ? running : doublings;
  for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
    const int64_t x0 = tile % t.across * t.columns, y0 = tile / t.across % t.down * t.rows;
    const int64_t plane = tile / t.across / t.down;
    const Range x{x0, std::min(across.n, x0 + t.columns)}, y{y0, std::min(down.n, y0 + t.rows)};
    fill_block(p, t, read, plane, y, x, block.data());
    // A run is contiguous in the block and in the image: a row of the tile, or all rows.
    const bool joined = x.size() * p.channels == t.pitch && x.size() == across.n;
    const int64_t rows = joined ? 1 : y.size(), run = (joined ? y.size() : 1) * x.size() * p.channels;
    for (int64_t r = 0; r < rows; ++r) {
      double* const in = block.data() + r * t.pitch;
      const int64_t out = ((plane * down.n + y0 + r) * across.n + x0) * p.channels;
      if (!means.empty() && (r == 0 || down.k == 1))
        add_means(in, p.mean_of, step, down.k > 1 ? y.size() * t.pitch : run, means.data() + r * t.pitch);
      for (int64_t i = 0; i < run; i += kPiece) {
        const int64_t n = std::min(kPiece, run - i);
        const double* piece = sums.data();
        if (means.empty()) add(in + i, terms, n, sums.data());
        else piece = means.data() + r * t.pitch + i;
        if (p.mean_of) divide(piece, p.mean_of, n, p.whole_numbers, sums.data());
        write(sums.data(), n, p.out, out + i, p.by_magnitude);
      }
    }
  }
}
