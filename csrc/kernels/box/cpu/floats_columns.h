// Sums of columns, a group of rows at a time. Text of core/cpu/each_isa.h: compiled once per instruction set.

// The rows that one group is summed from. Elements are in chunks of a register. The last chunk of a row of the image
// begins `last` elements from the row's start, so that it ends where the row ends.
template <typename A>
struct BoxGroup {
  static constexpr int kRows = box::kGroup;
  const A* rows[2 * kRows - 1];  // one chain: rows t0 ..; else the lead's
  const A* rest[kRows - 1];
  const A* trail[kRows];
  A* out[kRows];
  A* blocks = nullptr;            // chunk by chunk, `count` registers each: the ring
  int64_t count = 0, oldest = 0;  // of the ring; the oldest is replaced by the trail's block
  int64_t width = 0, last = 0;

  template <typename F>
  void each_chunk(const F& f) const {
    for (int64_t e = 0; e < width; e += kLanes<A>) f(std::min(e, last), e * count);
  }
};

// At most 8 rows of a window: chains of their own.
template <typename A, int KH>
void add_chains(const BoxGroup<A>& g) {
  g.each_chunk([&](int64_t e, int64_t) {
    Vec<A> rows[box::kGroup + KH - 1];
#pragma GCC unroll 16
    for (int i = 0; i < box::kGroup + KH - 1; ++i) rows[i] = load(g.rows[i] + e);
#pragma GCC unroll 8
    for (int j = 0; j < box::kGroup; ++j) {
      Vec<A> sum = rows[j];
#pragma GCC unroll 8
      for (int i = 1; i < KH; ++i) sum = sum + rows[j + i];
      store(g.out[j] + e, sum);
    }
  });
}

template <typename A>
Vec<A> trail_block(const BoxGroup<A>& g, int64_t e) {
  const auto row = [&](int i) { return load(g.trail[i] + e); };
  return box::block_sum<Vec<A>>(row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7));
}

// More than 8 rows; Rest: rows between the lead and the blocks. Middle: there is something between lead and trail.
template <typename A, int Rest, bool Middle>
void add_groups(const BoxGroup<A>& g) {
  constexpr int kRows = box::kGroup;
  g.each_chunk([&](int64_t e, int64_t at) {
    Vec<A> middle = {};
    if constexpr (Rest > 0) {
      middle = load(g.rest[0] + e);
#pragma GCC unroll 8
      for (int i = 1; i < Rest; ++i) middle = middle + load(g.rest[i] + e);
    }
    if (g.count > 0) {
      A* const ring = g.blocks + at;
      const auto block = [&](int64_t i) { return load(ring + i * kLanes<A>); };
      int64_t i = g.oldest;
      middle = Rest > 0 ? middle + block(i) : block(i);
      for (++i; i < g.count; ++i) middle = middle + block(i);
      for (i = 0; i < g.oldest; ++i) middle = middle + block(i);
      store(ring + g.oldest * kLanes<A>, trail_block(g, e));
    }
    Vec<A> lead[kRows];
    lead[kRows - 1] = load(g.rows[kRows - 1] + e);
#pragma GCC unroll 8
    for (int j = kRows - 2; j >= 0; --j) lead[j] = load(g.rows[j] + e) + lead[j + 1];
    Vec<A> trail = load(g.trail[0] + e);
#pragma GCC unroll 8
    for (int j = 0; j < kRows; ++j) {
      if (j > 0) trail = trail + load(g.trail[j] + e);
      store(g.out[j] + e, (Middle ? lead[j] + middle : lead[j]) + trail);
    }
  });
}

template <typename A>
using AddGroup = void (*)(const BoxGroup<A>&);

template <typename A>
AddGroup<A> group_adder(int64_t kh) {
  static constexpr AddGroup<A> chains[] = {add_chains<A, 1>, add_chains<A, 2>, add_chains<A, 3>, add_chains<A, 4>,
                                           add_chains<A, 5>, add_chains<A, 6>, add_chains<A, 7>, add_chains<A, 8>};
  static constexpr AddGroup<A> groups[] = {add_groups<A, 0, true>, add_groups<A, 1, true>, add_groups<A, 2, true>,
                                           add_groups<A, 3, true>, add_groups<A, 4, true>, add_groups<A, 5, true>,
                                           add_groups<A, 6, true>, add_groups<A, 7, true>};
  if (box::one_chain(kh)) return chains[kh - 1];
  return kh == box::kGroup + 1 ? add_groups<A, 0, false> : groups[box::rest_of(kh)];
}
