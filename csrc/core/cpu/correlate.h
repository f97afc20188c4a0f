// The one inner loop of the direct and the separable kernels: a register tile of R output rows x V registers.
// Text of each_isa.h: compiled once per instruction set.
//
//            rows[0]  . . . . . .      Output row r is the chain over rows[r .. r + kh - 1]. A loaded register serves
//   out[0]   rows[1]  . . . . . .      up to R rows, a tap V registers. Every chain starts at 0 and runs in the order
//   out[1]   rows[2]  . . . . . .      (plane, i, j), so the bits do not depend on the tile's shape.
//
// A plane belongs to an input channel ci and to one of the kd planes l under the window, in the order (ci, l).

constexpr int kMaxTileRows = 4;
// Registers per row: accumulators, one row's values and a tap must fit the 16 registers of SSE and AVX2, 32 of AVX-512.
template <int R>
constexpr int kTileVectors = (TC_VEC_BYTES == 64 ? 2 : 1) * (R == 1 ? 4 : 2);
constexpr int kMaxTileVectors = kTileVectors<1>;

constexpr int64_t kOnePlane[] = {0};

// A window, the divisor of its sum and the bias. Taps serve a whole row, or differ by channel of an interleaved row.
// Then each tap is repeated over `pitch` elements with the period of the channels.
template <typename A>
struct CpuWindow {
  const A* taps;      // tap (i, j) of plane p: taps[at[p] + (i * kw + j) * pitch]
  const int64_t* at;  // where each plane's taps begin
  int64_t planes;
  int64_t kh, kw;
  int64_t period = 0, pitch = 1;  // period 0: one tap for the whole row
  const A* divisor = nullptr;     // sums are divided by it: one number for the row, or a period of numbers
  const A* bias = nullptr;        // added after the division: as many numbers
};

template <bool PerChannel, typename A>
TC_HD Vec<A> spread(const A* p, int64_t lane) {
  if constexpr (PerChannel) return load(p + lane);
  else return splat(*p);
}

struct TapRows {
  int first, last;
};

// One input row times the tap rows of some output rows.
template <TapRows rows, bool PerChannel, int R, int V, typename A, typename E>
TC_HD void add_row(Vec<A> (&acc)[R][V], const E* row, const A* const (&taps)[R], const CpuWindow<A>& w,
                   const int64_t* offset, int64_t phase) {
  for (int64_t j = 0; j < w.kw; ++j) {
    const E* at = row + offset[j];
    asm("" : "+r"(at));  // one address for the V loads; g++ would keep a register for each (8 % on 7x7, Zen 4)
    Vec<A> in[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) in[v] = load_as<A>(at + v * kLanes<A>);
#pragma GCC unroll 8
    for (int r = rows.first; r <= rows.last; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)
        acc[r][v] = fma(spread<PerChannel>(taps[r] + j * w.pitch, phase + v * kLanes<A>), in[v], acc[r][v]);
    }
  }
}

template <int R, int V, bool PerChannel, typename A, typename E, typename T>
TC_HD void correlate_tile(const E* const* rows, const CpuWindow<A>& w, const int64_t* offset, int64_t x,
                          T* const* out) {
  Vec<A> acc[R][V] = {};
  const int64_t phase = PerChannel ? x % w.period : 0;
  const int64_t tap_row = w.kw * w.pitch;
  for (int64_t p = 0; p < w.planes; ++p, rows += R - 1 + w.kh) {
    const A* taps[R];
    const A* first = w.taps + w.at[p];
    auto row = [&]<int LO, int HI>(int64_t q) {
#pragma GCC unroll 8
      for (int r = LO; r <= HI; ++r) taps[r] = first + (q - r) * tap_row;
      add_row<TapRows{LO, HI}, PerChannel>(acc, rows[q] + x, taps, w, offset, phase);
    };
    if constexpr (R > 1) row.template operator()<0, 0>(0);
    if constexpr (R > 2) row.template operator()<0, 1>(1);
    if constexpr (R > 3) row.template operator()<0, 2>(2);
    for (int64_t q = R - 1; q < w.kh; ++q) row.template operator()<0, R - 1>(q);
    if constexpr (R > 1) row.template operator()<1, R - 1>(w.kh);
    if constexpr (R > 2) row.template operator()<2, R - 1>(w.kh + 1);
    if constexpr (R > 3) row.template operator()<3, R - 1>(w.kh + 2);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const int64_t lane = phase + v * kLanes<A>;
      if (w.divisor) acc[r][v] = acc[r][v] / spread<PerChannel>(w.divisor, lane);
      if (w.bias) acc[r][v] = acc[r][v] + spread<PerChannel>(w.bias, lane);
    }
    // Prefetches the rows of bytes that are written next, so that their stores do not wait for memory. Separable
    // filters of 2048^2 uint8, one thread, Zen 4, images outside of the caches, with the prefetches of
    // kernels/separable2d/cpu/body.h: 3x3 1.74 -> 1.56 ms, 5x5 2.14 -> 1.94, 7x7 2.61 -> 2.44; 2048 x 2048 x 3 the
    // same.
    if constexpr (R > 1 && sizeof(T) == 1) __builtin_prefetch(out[r] + x + R * (out[1] - out[0]), 1);
    store_sums<V, A>(out[r] + x, acc[r]);
  }
}

// Covers `width` elements by tiles of V registers, then of V / 2 (if V is large), then of 1. Calls f at each tile's
// first element. The last tile overlaps the one before; in a row shorter than a register it exceeds the row.
template <typename A, int V, typename F>
TC_HD void cover(int64_t width, F f) {
  int64_t x = 0;
  for (; x + V * kLanes<A> <= width; x += V * kLanes<A>) f.template operator()<V>(x);
  if constexpr (V >= 8)
    for (; x + V / 2 * kLanes<A> <= width; x += V / 2 * kLanes<A>) f.template operator()<V / 2>(x);
  if constexpr (V > 1)
    for (; x + kLanes<A> <= width; x += kLanes<A>) f.template operator()<1>(x);
  if (x < width) f.template operator()<1>(std::max<int64_t>(0, width - kLanes<A>));
}

// `height` (1 .. kMaxTileRows, at most kh) output rows of `width` elements, sums or integers. `rows` has height - 1 +
// kh rows per plane.
template <typename A, typename E, typename T>
void correlate(int height, const E* const* rows, const CpuWindow<A>& w, const int64_t* offset, T* const* out,
               int64_t width) {
  auto tiles = [&]<int R, bool PerChannel>() {
    cover<A, kTileVectors<R>>(width,
                              [&]<int V>(int64_t x) { correlate_tile<R, V, PerChannel>(rows, w, offset, x, out); });
  };
  auto either = [&]<int R>() {
    w.period ? tiles.template operator()<R, true>() : tiles.template operator()<R, false>();
  };
  switch (height) {
    case 1: return either.template operator()<1>();
    case 2: return either.template operator()<2>();
    case 3: return either.template operator()<3>();
    case 4: return either.template operator()<4>();
  }
  __builtin_unreachable();
}

// One output row with Border::skip: taps outside the image are omitted. `rows` are the rows under the tap rows
// `inside`; `ones` is not 0 for elements inside. Writes the sum, and with `weights` also the sum of the |taps| inside.
template <bool PerChannel, typename A, typename E>
void correlate_inside(const E* const* rows, const E* ones, Range inside, const CpuWindow<A>& w, const int64_t* offset,
                      A* out, A* weights, int64_t width) {
  cover<A, 1>(width, [&]<int V>(int64_t x) {
    Vec<A> acc = {}, sum = {};
    const int64_t phase = PerChannel ? x % w.period : 0;
    for (int64_t p = 0; p < w.planes; ++p)
      for (int64_t i = inside.begin; i < inside.end; ++i) {
        const E* row = rows[p * inside.size() + i - inside.begin] + x;
        for (int64_t j = 0; j < w.kw; ++j) {
          const Vec<A> tap = spread<PerChannel>(w.taps + w.at[p] + (i * w.kw + j) * w.pitch, phase);
          const auto in = load_as<A>(ones + x + offset[j]) != Vec<A>{};
          acc = in ? fma(tap, load_as<A>(row + offset[j]), acc) : acc;
          sum = in ? sum + (tap < Vec<A>{} ? -tap : tap) : sum;
        }
      }
    store(out + x, acc);
    if (weights) store(weights + x, sum);
  });
}
