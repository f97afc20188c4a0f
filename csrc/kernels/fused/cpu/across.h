// Rows of sums along x, and their scratch. Text of core/cpu/each_isa.h: compiled once per instruction
// set.
//
//   sums[i][x] = chain over j of taps_i[j] * row[x + offset[j]]

// Scratch that starts on a register's boundary: a load across two lines of the cache costs as much as two loads.
template <typename A>
class Scratch {
 public:
  void grow(int64_t size) {
    if (size + kLanes<A> <= int64_t(buffer_.size())) return;
    buffer_.resize(size + kLanes<A>);
    const uintptr_t over = reinterpret_cast<uintptr_t>(buffer_.data()) % TC_VEC_BYTES;
    data_ = buffer_.data() + (over ? (TC_VEC_BYTES - over) / sizeof(A) : 0);
  }
  A* data() const { return data_; }

 private:
  std::vector<A> buffer_;
  A* data_ = nullptr;
};

// Elements from one row to the next of scratch: a register more than a row, since loops run over its end.
template <typename A>
int64_t scratch_pitch(int64_t length) {
  return round_up(length, kLanes<A>) + kLanes<A>;
}

// One row's sums along x of W windows at once: a loaded register serves them all.
template <int W, typename A>
void sums_across(const A* row, const CpuWindow<A>* windows, const int64_t* offset, A* const* out, int64_t width) {
  const int64_t kw = windows[0].kw;
  cover<A, kTileVectors<W>>(width, [&]<int V>(int64_t x) {
    Vec<A> acc[W][V] = {};
    for (int64_t j = 0; j < kw; ++j) {
      const A* at = row + x + offset[j];
      Vec<A> in[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) in[v] = load(at + v * kLanes<A>);
#pragma GCC unroll 8
      for (int i = 0; i < W; ++i) {
        const Vec<A> tap = splat(windows[i].taps[j]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) acc[i][v] = fma(tap, in[v], acc[i][v]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < W; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) store(out[i] + x + v * kLanes<A>, acc[i][v]);
    }
  });
}
