// Causal convolutions on the CPU. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
// A block of outputs is computed along the innermost axis, in the accumulation type: a piece of one row, or
// some channels over some steps. Each output is one chain of multiply-adds, oldest tap first, as on CUDA.

// Returns v / (1 + exp(-v)) of a register of float32, within 4 units in the last place. Here exp(x) is 2^n * exp(r),
// with n the whole number nearest to x / ln 2 and |r| <= ln 2 / 2. The kernel takes exp(r) as its Taylor polynomial of
// degree 7, with an error of 4e-9.
TC_HD Vec<float> silu_of(Vec<float> v) {
  typedef int32_t Words __attribute__((vector_size(TC_VEC_BYTES)));
  const Vec<float> most = splat(88.f), x = -v;
  const Vec<float> inside = x > most ? most : x < -most ? -most : x;           // NaN stays
  const Vec<float> shifted = inside * splat(1.44269504f) + splat(12582912.f);  // 1.5 * 2^23: the sum's low bits are n
  const Vec<float> whole = shifted - splat(12582912.f);
  const Vec<float> r = fma(whole, splat(2.12194440e-4f), fma(whole, splat(-0.693359375f), inside));
  Vec<float> sum = splat(1.f / 5040);
  for (const float c : {1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, 0.5f, 1.f, 1.f}) sum = fma(sum, r, splat(c));
  Words bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits = (bits - 0x4b400000 + 127) << 23;
  Vec<float> power;
  __builtin_memcpy(&power, &bits, sizeof power);
  const Vec<float> e = x > most ? splat(__builtin_inff()) : sum * power;
  return v / (splat(1.f) + e);
}

// Turns sums into outputs in place. The buffer of sums is padded to whole registers.
template <typename A>
void finish_row(A* __restrict sums, const A* bias, int64_t bias_step, int64_t n, bool silu) {
  for (int64_t i = 0; i < n; ++i) sums[i] += bias[i * bias_step];
  if (!silu) return;
  if constexpr (std::is_same_v<A, float>)
    for (int64_t i = 0; i < n; i += kLanes<A>) store(sums + i, silu_of(load(sums + i)));
  else
    for (int64_t i = 0; i < n; ++i) sums[i] = activated<Activation::silu>(sums[i]);
}

inline char* element_of(const Signal& s, Dtype dtype, int64_t n, int64_t c, int64_t t) {
  return static_cast<char*>(s.data) + (n * s.stride_n + c * s.stride_c + t * s.stride_l) * size_of(dtype);
}

// The steps [begin, begin + m) of one channel's row: `in` has k - 1 elements more before them.
template <typename A>
void length_sums(const A* in, const A* taps, int64_t k, int64_t m, A* sums) {
  for (int64_t i = 0; i < m; i += kLanes<A>) {
    Vec<A> sum{};
    for (int64_t j = 0; j < k; ++j) sum = fma(splat(taps[j]), load(in + i + j), sum);
    store(sums + i, sum);
  }
}

// Sums over elements of the output's own sequence only; `numbers` is parallel to the outputs, and `from` is
// the first step that has one.
template <typename A>
void packed_sums(const A* in, const A* taps, int64_t k, int64_t m, const int32_t* numbers, int64_t from, A* masked,
                 A* sums) {
  std::fill_n(sums, m, A(0));
  for (int64_t j = 0; j < k; ++j) {
    const int64_t back = k - 1 - j, first = std::clamp<int64_t>(from + back, 0, m);
    std::fill_n(masked, first, A(0));
    for (int64_t i = first; i < m; ++i) masked[i] = numbers[i] == numbers[i - back] ? in[i + j] : A(0);
    for (int64_t i = 0; i < m; i += kLanes<A>) store(sums + i, fma(splat(taps[j]), load(masked + i), load(sums + i)));
  }
  for (int64_t i = 0; i < m; ++i) sums[i] = numbers[i] < 0 ? A(0) : sums[i];
}

// One step of `width` channels: rows[j] holds the elements under tap j.
template <typename A>
void channel_sums(const A* const* rows, const A* taps, int64_t pitch, int64_t k, int64_t width, A* sums) {
  for (int64_t i = 0; i < width; i += kLanes<A>) {
    Vec<A> sum{};
    for (int64_t j = 0; j < k; ++j) sum = fma(load(taps + j * pitch + i), load(rows[j] + i), sum);
    store(sums + i, sum);
  }
}

// Blocks along the length: `units` are those of tile_w outputs of every row.
template <typename A>
void along_length(const CausalConv& p, const Plan& plan, Range units) {
  const ReadRow<A> read = row_reader<A>(p.dtype), read_taps = row_reader<A>(p.weights);
  const WriteRow<A> write = row_writer<A>(p.dtype);
  const int64_t tile = plan.tile_w, tiles = ceil_div(p.l, tile);
  const int64_t pitch = round_up(tile, kLanes<A>) + kLanes<A>;
  std::vector<A> in(pitch + p.k), masked(pitch), sums(pitch), taps(p.k);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const int64_t row = unit / tiles, n = row / p.c, c = row % p.c;
    const int64_t begin = unit % tiles * tile, m = std::min(tile, p.l - begin);
    // `lack` of the k - 1 elements before the block precede the start.
    const int64_t lack = std::max<int64_t>(0, p.k - 1 - begin), have = p.k - 1 - lack;
    if (p.before.data) read(element_of(p.before, p.dtype, n, c, begin), p.before.stride_l, lack, in.data());
    else std::fill_n(in.data(), lack, A(0));
    read(element_of(p.x, p.dtype, n, c, begin - have), p.x.stride_l, have + m, in.data() + lack);
    read_taps(static_cast<const char*>(p.weight) + c * p.k * size_of(p.weights), 1, p.k, taps.data());
    A bias = 0;
    if (p.bias) read_taps(static_cast<const char*>(p.bias) + c * size_of(p.weights), 1, 1, &bias);
    const int32_t* numbers = p.sequences ? p.sequences + n * p.l + begin : nullptr;
    if (numbers) packed_sums(in.data(), taps.data(), p.k, m, numbers, -begin, masked.data(), sums.data());
    else length_sums(in.data(), taps.data(), p.k, m, sums.data());
    finish_row(sums.data(), &bias, 0, m, p.silu);
    if (numbers)
      for (int64_t i = 0; i < m; ++i) sums[i] = numbers[i] < 0 ? A(0) : sums[i];
    write(sums.data(), m, element_of(p.out, p.dtype, n, c, begin), p.out.stride_l);
  }
}

// Some channels with their taps, one row a tap, and their bias.
template <typename A>
struct ChannelTaps {
  int64_t pitch;
  std::vector<A> taps, bias;
  ChannelTaps(Dtype dtype, const void* weight, const void* from_bias, int64_t k, int64_t c, int64_t width)
      : pitch(width + kLanes<A>), taps(k * pitch), bias(width) {
    const ReadRow<A> read = row_reader<A>(dtype);
    for (int64_t j = 0; j < k; ++j)
      read(static_cast<const char*>(weight) + (c * k + j) * size_of(dtype), k, width, taps.data() + j * pitch);
    if (from_bias) read(static_cast<const char*>(from_bias) + c * size_of(dtype), 1, width, bias.data());
  }
};

// Blocks of tile_w channels over tile_h steps.
template <typename A>
void along_channels(const CausalConv& p, const Plan& plan, Range units) {
  const ReadRow<A> read = row_reader<A>(p.dtype);
  const WriteRow<A> write = row_writer<A>(p.dtype);
  const int64_t across = ceil_div(p.c, plan.tile_w), along = ceil_div(p.l, plan.tile_h);
  const int64_t pitch = plan.tile_w + kLanes<A>;
  std::vector<A> in((plan.tile_h + p.k - 1) * pitch), zeros(pitch), sums(pitch);
  std::vector<const A*> rows(p.k);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const int64_t n = unit / along / across, c = unit / along % across * plan.tile_w;
    const int64_t width = std::min<int64_t>(plan.tile_w, p.c - c);
    const int64_t begin = unit % along * plan.tile_h, end = std::min<int64_t>(begin + plan.tile_h, p.l);
    const ChannelTaps<A> taps(p.weights, p.weight, p.bias, p.k, c, width);
    for (int64_t t = begin - (p.k - 1); t < end; ++t) {
      A* to = in.data() + (t - begin + p.k - 1) * pitch;
      if (t >= 0) read(element_of(p.x, p.dtype, n, c, t), p.x.stride_c, width, to);
      else if (p.before.data) read(element_of(p.before, p.dtype, n, c, t + p.k - 1), p.before.stride_c, width, to);
      else std::fill_n(to, width, A(0));
    }
    const int32_t* numbers = p.sequences ? p.sequences + n * p.l : nullptr;
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t j = 0; j < p.k; ++j) {
        const int64_t from = t - (p.k - 1) + j;
        const bool counts = !numbers || (from >= 0 && numbers[from] == numbers[t]);
        rows[j] = counts ? in.data() + (t - begin + j) * pitch : zeros.data();
      }
      channel_sums(rows.data(), taps.taps.data(), taps.pitch, p.k, width, sums.data());
      finish_row(sums.data(), taps.bias.data(), 1, width, p.silu);
      if (numbers && numbers[t] < 0) std::fill_n(sums.data(), width, A(0));
      write(sums.data(), width, element_of(p.out, p.dtype, n, c, t), p.out.stride_c);
    }
  }
}

template <typename E>
void copy_elements(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    reinterpret_cast<E*>(to)[i * to_step] = reinterpret_cast<const E*>(from)[i * from_step];
}

// The position of element t of state and x, concatenated: x starts at 0.
inline const char* state_or_x(const CausalUpdate& p, int64_t n, int64_t row, int64_t c, int64_t next, int64_t t) {
  if (t >= 0) return element_of(p.x, p.dtype, n, c, t);
  const int64_t slot = next + t;  // next = state_l where the state is no ring
  return element_of(p.state, p.dtype, row, c, slot < 0 ? slot + p.state_l : slot);
}

// Blocks of tile_w channels of every sample: the outputs, then the state.
template <typename A>
void update_channels(const CausalUpdate& p, const Plan& plan, Range units) {
  const ReadRow<A> read = row_reader<A>(p.dtype);
  const WriteRow<A> write = row_writer<A>(p.dtype);
  const int64_t across = ceil_div(p.c, plan.tile_w), pitch = plan.tile_w + kLanes<A>;
  std::vector<A> in(p.k * pitch), sums(pitch);
  std::vector<const A*> rows(p.k);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const int64_t n = unit / across, c = unit % across * plan.tile_w;
    const int64_t width = std::min<int64_t>(plan.tile_w, p.c - c), row = p.rows ? p.rows[n] : n;
    if (row < 0 || row >= p.states) {
      std::fill_n(sums.data(), width, A(0));
      for (int64_t t = 0; t < p.l; ++t) write(sums.data(), width, element_of(p.out, p.dtype, n, c, t), p.out.stride_c);
      continue;
    }
    const bool ring = p.used && p.state_l > 0;
    const int64_t next = ring ? (p.used[n] % p.state_l + p.state_l) % p.state_l : p.state_l;
    const ChannelTaps<A> taps(p.weights, p.weight, p.bias, p.k, c, width);
    for (int64_t t = -(p.k - 1); t < p.l; ++t) {
      const int64_t step = t >= 0 ? p.x.stride_c : p.state.stride_c;
      // k rows of elements in turn: t is in row t mod k.
      read(state_or_x(p, n, row, c, next, t), step, width, in.data() + (t + p.k) % p.k * pitch);
      if (t < 0) continue;
      for (int64_t j = 0; j < p.k; ++j) rows[j] = in.data() + (t + 1 + j) % p.k * pitch;
      channel_sums(rows.data(), taps.taps.data(), taps.pitch, p.k, width, sums.data());
      finish_row(sums.data(), taps.bias.data(), 1, width, p.silu);
      write(sums.data(), width, element_of(p.out, p.dtype, n, c, t), p.out.stride_c);
    }
    const auto move = [&](const char* from, int64_t from_step, int64_t slot) {
      char* to = element_of(p.state, p.dtype, row, c, slot);
      const int64_t size = size_of(p.dtype);
      if (size == 2) copy_elements<uint16_t>(from, from_step, to, p.state.stride_c, width);
      else if (size == 4) copy_elements<uint32_t>(from, from_step, to, p.state.stride_c, width);
      else copy_elements<uint64_t>(from, from_step, to, p.state.stride_c, width);
    };
    for (int64_t t = 0; ring && t < p.l; ++t)
      move(element_of(p.x, p.dtype, n, c, t), p.x.stride_c, (next + t) % p.state_l);
    for (int64_t i = 0; !p.used && i < p.state_l; ++i) {
      const int64_t t = i + p.l - p.state_l;
      move(state_or_x(p, n, row, c, next, t), t >= 0 ? p.x.stride_c : p.state.stride_c, i);
    }
  }
}
