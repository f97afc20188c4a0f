// The register tiles of PLANES (drawn in planes.h): sums of R output rows and V registers of columns, and perhaps half
// a register more. Text of core/cpu/each_isa.h: compiled once per instruction set.

// The input and the output of a tile.
template <typename A>
struct PlaneTile {
  const A* const* rows;   // input rows, from the first output row's window on
  int64_t x;              // the first column
  const int64_t* offset;  // of tap j in an input row
  const A* taps;
  int64_t kh, kw;
  int64_t stride, dilation;  // from one output row, one tap row to the next, in input rows
  int begin, end;            // the input rows inside the image (stride and dilation 1)
  A bias;
  A* out;
  int64_t pitch;
  int count;      // rows of the tile that are stored
  int64_t lanes;  // columns of the tile that are stored
};

// Sums of R rows and V registers, the last of which may be half a register.
template <typename A, int R, int V, bool half>
struct PlaneSums {
  Vec<A> full[R][V > 0 ? V : 1];
  Half end[half ? R : 1];

  TC_HD void clear() {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) full[r][v] = Vec<A>{};
      if constexpr (half) end[r] = Half{};
    }
  }

  TC_HD void store_rows(const PlaneTile<A>& t) const {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      if (r >= t.count) break;
      A* to = t.out + r * t.pitch + t.x;
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const Vec<A> sum = full[r][v] + splat(t.bias);
        if (v + 1 < V || half) store(to + v * kLanes<A>, sum);
        else store_some<A>(to + v * kLanes<A>, sum, t.lanes - v * kLanes<A>);
      }
      if constexpr (half) {
        const Half sum = end[r] + t.bias;
        const int64_t left = t.lanes - V * kLanes<A>;
        if (left >= kHalfLanes) __builtin_memcpy(to + V * kLanes<A>, &sum, sizeof sum);
        else store_half(to + V * kLanes<A>, sum, left);
      }
    }
  }

  static TC_HD void store_half(float* to, Half sum, int64_t n) {
#if TC_X86_FMA && TC_VEC_BYTES == 64
    _mm256_mask_storeu_ps(to, (1 << n) - 1, (__m256)sum);
#else
    for (int64_t i = 0; i < n; ++i) to[i] = sum[i];
#endif
  }
};

template <typename A>
TC_HD Half half_of(Vec<A> tap) {
#if TC_X86_FMA && TC_VEC_BYTES == 64
  return (Half)_mm512_castps512_ps256((__m512)tap);
#elif TC_X86_FMA
  return (Half)_mm256_castps256_ps128((__m256)tap);
#else
  return float(tap[0]) - Half{};
#endif
}

// Windows of K x K at stride and dilation 1. A tile reads an input row once for all output rows over it.
template <int R, int V, bool half, int K>
void plane_tile(const PlaneTile<float>& t) {
  PlaneSums<float, R, V, half> sums;
  sums.clear();
  // Few taps stay in registers, where there are 32.
  constexpr bool kKeep = K == 3 && TC_VEC_BYTES == 64;
  Vec<float> window[kKeep ? K * K : 1];
  if constexpr (kKeep) {
#pragma GCC unroll 16
    for (int i = 0; i < K * K; ++i) {
      window[i] = splat(t.taps[i]);
      asm("" : "+v"(window[i]));  // without it g++ loads the tap for every use
    }
  }
  auto row = [&]<int Q>() __attribute__((always_inline)) {
    if (Q < t.begin || Q >= t.end) return;
    const float* from = t.rows[Q] + t.x;
    asm("" : "+r"(from));
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j) {
      Vec<float> in[V > 0 ? V : 1];
      Half in_end{};
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) in[v] = load(from + j + v * kLanes<float>);
      if constexpr (half) in_end = load_half(from + j + V * kLanes<float>);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        if (Q < r || Q >= r + K) continue;
        const Vec<float> tap = kKeep ? window[(Q - r) * K + j] : splat(t.taps[(Q - r) * K + j]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sums.full[r][v] = fma(tap, in[v], sums.full[r][v]);
        if constexpr (half) sums.end[r] = fma_half(half_of<float>(tap), in_end, sums.end[r]);
      }
    }
  };
  [&]<int... Q>(std::integer_sequence<int, Q...>) __attribute__((always_inline)) {
    (row.template operator()<Q>(), ...);
  }
  (std::make_integer_sequence<int, R - 1 + K>{});
  sums.store_rows(t);
}

// Any window, stride and dilation.
template <typename A, int R, int V, bool half>
void plane_tile_any(const PlaneTile<A>& t) {
  PlaneSums<A, R, V, half> sums;
  sums.clear();
  const A* tap_at = t.taps;
  for (int64_t i = 0; i < t.kh; ++i) {
    const A* from[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) from[r] = t.rows[r * t.stride + i * t.dilation] + t.x;
    for (int64_t j = 0; j < t.kw; ++j, ++tap_at) {
      const Vec<A> tap = splat(*tap_at);
      const int64_t offset = t.offset[j];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const A* at = from[r] + offset;
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sums.full[r][v] = fma(tap, load(at + v * kLanes<A>), sums.full[r][v]);
        if constexpr (half) sums.end[r] = fma_half(half_of<A>(tap), load_half(at + V * kLanes<A>), sums.end[r]);
      }
    }
  }
  sums.store_rows(t);
}

// Columns are counted in steps of half a register, if the instruction set has half registers.
template <typename A>
constexpr bool kHalves = TC_VEC_BYTES > 16 && std::is_same_v<A, float>;
template <typename A>
constexpr int kStep = kHalves<A> ? kHalfLanes : kLanes<A>;

// The widest tile in steps: registers hold R rows of sums, the values of a row and a tap.
constexpr int kMostSteps = TC_VEC_BYTES == 64 ? 8 : TC_VEC_BYTES == 32 ? 4 : 2;
constexpr int kTallRows = 7, kLowRows = 4;
static_assert(kLowRows == kMaxTileRows);
constexpr int tile_registers(int steps) { return TC_VEC_BYTES > 16 ? (steps + 1) / 2 : steps; }
constexpr bool tall_fits(int steps) { return tile_registers(steps) * kTallRows <= (TC_VEC_BYTES == 64 ? 14 : 8); }

template <typename A>
using PlaneRun = void (*)(const PlaneTile<A>&);

template <typename A, int steps>
PlaneRun<A> plane_run_of(int rows, int64_t k) {
  constexpr int V = kHalves<A> ? steps / 2 : steps;
  constexpr bool half = kHalves<A> && steps % 2;
  if constexpr (std::is_same_v<A, float>) {
    auto fixed = [&]<int K>() -> PlaneRun<A> {
      if constexpr (tall_fits(steps))
        if (rows == kTallRows) return plane_tile<kTallRows, V, half, K>;
      return plane_tile<kLowRows, V, half, K>;
    };
    if (k == 3) return fixed.template operator()<3>();
    if (k == 5) return fixed.template operator()<5>();
    if (k == 7) return fixed.template operator()<7>();
  }
  return rows == 1 ? plane_tile_any<A, 1, V, half> : plane_tile_any<A, kLowRows, V, half>;
}

// The tile of `rows` rows and `steps` steps for windows of K x K (0: any). Null without steps.
template <typename A>
PlaneRun<A> plane_run(int rows, int steps, int64_t k) {
  PlaneRun<A> run = nullptr;
  unrolled<kMostSteps>([&]<int i>() {
    if (steps == i + 1) run = plane_run_of<A, i + 1>(rows, k);
  });
  return run;
}
