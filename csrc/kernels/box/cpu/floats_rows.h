// Sums along rows by doubling. Text of core/cpu/each_isa.h: compiled once per instruction set.

// The step from a sum to an output: sum * hi + sum * lo, or the sum itself.
template <typename A>
struct BoxScale {
  bool mean;
  box::Reciprocal<A> r;
  TC_HD Vec<A> of(Vec<A> sum) const { return mean ? fma(sum, splat(r.hi), sum * splat(r.lo)) : sum; }
};

// One doubling of the elements `range`: s'[i] = s[i] + s[i + m], and t'[i] = s'[i] + t[i + 2m], or s'[i] where there is
// no t yet. In place: reads are ahead of writes.
template <typename A, bool HasT, bool GivesT>
void double_sums(const A* s, const A* t, int64_t m, Range range, A* s_out, A* t_out) {
  for (int64_t i = range.begin; i < range.end; i += kLanes<A>) {
    const Vec<A> sum = load(s + i) + load(s + i + m);
    if constexpr (GivesT) {
      const Vec<A> total = HasT ? sum + load(t + i + 2 * m) : sum;
      store(t_out + i, total);
    }
    store(s_out + i, sum);
  }
}

// The last one, to outputs.
template <typename A, bool HasT>
void finish_sums(const A* s, const A* t, int64_t m, Range range, const BoxScale<A>& scale, A* out) {
  const auto total = [&](int64_t i) {
    const Vec<A> sum = m > 0 ? load(s + i) + load(s + i + m) : load(s + i);
    return scale.of(HasT ? sum + load(t + i + 2 * m) : sum);
  };
  int64_t i = range.begin;
  for (; i + kLanes<A> <= range.end; i += kLanes<A>) store(out + i, total(i));
  if (i < range.end) {
    const Vec<A> rest = total(i);
    __builtin_memcpy(out + i, &rest, (range.end - i) * sizeof(A));
  }
}

// One doubling of rows that repeat themselves after `period` elements; s and t hold one period. An element that is
// m or 2m behind element i is in the period, or one period before. Not in place.
template <typename A, bool HasT, bool GivesT>
void double_periodic(const A* s, const A* t, int64_t m, int64_t period, A* s_out, A* t_out) {
  const int64_t near = m % period, far = 2 * m % period;
  const auto run = [&](Range range) {
    const A* const s_ahead = s + (range.begin < period - near ? near : near - period);
    const A* const t_ahead = t + (range.begin < period - far ? far : far - period);
    for (int64_t i = range.begin; i < range.end; i += kLanes<A>) {
      const Vec<A> sum = load(s + i) + load(s_ahead + i);
      if constexpr (GivesT) store(t_out + i, HasT ? sum + load(t_ahead + i) : sum);
      store(s_out + i, sum);
    }
  };
  // A range's last register runs into the next range, which writes it again.
  const int64_t first = period - std::max(near, far), second = period - std::min(near, far);
  if (first > 0) run({0, first});
  if (second > first) run({first, second});
  if (period > second) run({second, period});
}

// Memory that starts on a register's bytes: loads and stores that straddle two lines of the cache take twice as long.
template <typename A>
class Aligned {
 public:
  void ensure(int64_t size) {
    if (size <= size_) return;
    size_ = size;
    memory_.assign(size + kLanes<A>, A(0));
    const uintptr_t start = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (TC_VEC_BYTES - start % TC_VEC_BYTES) % TC_VEC_BYTES / sizeof(A);
  }
  A* data() const { return data_; }

 private:
  int64_t size_ = 0;
  A* data_ = nullptr;
  std::vector<A> memory_;
};

// Sums of kw neighbours, `pixel` elements apart, along rows. All doublings advance along the row together. Each follows
// the one before by the distance that it reads ahead, so that intermediate sums stay in the first-level cache.
template <typename A>
class RowSums {
  static constexpr int64_t kBlock = 4096 / sizeof(A);

 public:
  RowSums(int64_t kw, int64_t pixel) : pixel_(pixel), odd_(kw & 1) {
    bool has = odd_;
    int64_t m = 1;
    for (; 4 * m <= kw; m *= 2) {
      const bool gives = kw & (2 * m);
      const auto run =
          gives ? (has ? double_sums<A, true, true> : double_sums<A, false, true>) : double_sums<A, false, false>;
      const auto periodic = gives ? (has ? double_periodic<A, true, true> : double_periodic<A, false, true>)
                                  : double_periodic<A, false, false>;
      steps_.push_back({run, periodic, gives, m * pixel, 0});
      has |= gives;
    }
    last_ = kw > 1 ? m * pixel : 0;
    finish_ = kw > 1 && has ? finish_sums<A, true> : finish_sums<A, false>;
    finish_periodic_ = has ? double_periodic<A, true, true> : double_periodic<A, false, true>;
  }

  // Elements of a period of the rows that sum_periodic() takes.
  void open_periodic(int64_t period, int64_t slack) {
    length_ = period;
    for (Aligned<A>* memory : {&s_, &t_, &s_other_, &t_other_}) memory->ensure(period + slack);
  }

  // Sums of more than one number, from one period of a row that repeats itself; at most one period of outputs.
  void sum_periodic(const A* row, int64_t outputs, const BoxScale<A>& scale, A* out) {
    const A *s = row, *t = odd_ ? row : nullptr;
    for (const Step& step : steps_) {
      A* const s_out = s == s_.data() ? s_other_.data() : s_.data();
      A* const t_out = t == t_.data() ? t_other_.data() : t_.data();
      step.periodic(s, t, step.m, length_, s_out, t_out);
      s = s_out;
      if (step.gives) t = t_out;
    }
    A* const total = t == t_.data() ? t_other_.data() : t_.data();
    finish_periodic_(s, t, last_, length_, s == s_.data() ? s_other_.data() : s_.data(), total);
    finish_sums<A, false>(total, nullptr, 0, {0, outputs}, scale, out);
  }

  // Rows of `length` elements; `slack` more may be read.
  void open(int64_t length, int64_t slack) {
    length_ = length;
    s_.ensure(length + slack), t_.ensure(length + slack);
  }

  void sum(const A* row, int64_t outputs, const BoxScale<A>& scale, A* out) {
    for (Step& step : steps_) step.done = 0;
    const auto behind = [](int64_t end, int64_t m) { return std::max<int64_t>(0, end - round_up(2 * m, kLanes<A>)); };
    for (int64_t front = kBlock, done = 0; done < outputs; front += kBlock) {
      const A *s = row, *t = odd_ ? row : nullptr;
      int64_t end = front;
      bool whole = false;  // the doubling before has finished its row
      for (Step& step : steps_) {
        const int64_t length = round_up(length_ - 2 * step.m + pixel_, kLanes<A>);
        if (s != row) end = whole ? length : behind(end, step.m);
        whole = end >= length;
        end = std::min(end, length);
        if (end > step.done) step.run(s, t, step.m, {step.done, end}, s_.data(), t_.data());
        step.done = std::max(step.done, end);
        s = s_.data();
        if (step.gives) t = t_.data();
      }
      if (steps_.empty() || whole) end = outputs;
      else end = std::min(outputs, behind(end, last_));
      if (end > done) finish_(s, t, last_, {done, end}, scale, out);
      done = std::max(done, end);
    }
  }

 private:
  struct Step {
    void (*run)(const A*, const A*, int64_t, Range, A*, A*);
    void (*periodic)(const A*, const A*, int64_t, int64_t, A*, A*);
    bool gives;
    int64_t m, done;
  };
  const int64_t pixel_;
  const bool odd_;
  std::vector<Step> steps_;
  int64_t last_ = 0, length_ = 0;
  void (*finish_)(const A*, const A*, int64_t, Range, const BoxScale<A>&, A*);
  void (*finish_periodic_)(const A*, const A*, int64_t, int64_t, A*, A*);
  Aligned<A> s_, t_, s_other_, t_other_;
};
