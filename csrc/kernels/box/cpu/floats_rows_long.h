// Sums along rows of windows much longer than the image, with one value outside on either side. Text of
// core/cpu/each_isa.h: compiled once per instruction set.
//
// The additions are those of RowSums; sums that are the same for a whole side are made once. Positions count from the
// first output's window on. From m >= outputs on, s_m is read only in blocks that start at multiples of m. A block has
// as many positions as there are outputs; at most kBlocks of them meet the image:
//
//    block    q0 - 1    q0        q0 + 1    ...  q1 - 1    q1
//           |--|      |--|      |--|           |--|      |--|
//    all `before`        sums that meet the image           all `behind`

template <typename A>
class LongRowSums {
  static constexpr int64_t kBlocks = 4;  // (w + m + outputs) / m and one

 public:
  LongRowSums(int64_t kw, int64_t pixel) : kw_(kw), pixel_(pixel) {}

  // Prepares for `outputs` windows, the first of which starts `left` pixels before an image of w.
  void open(int64_t outputs, int64_t w, int64_t left) {
    outputs_ = outputs, w_ = w, left_ = left, dense_ = 1;
    while (dense_ < std::max(outputs, w)) dense_ *= 2;
    const int64_t slack = 2 * kLanes<A>;
    length_ = outputs * pixel_, pitch_ = round_up(length_ + slack, kLanes<A>);
    row_.ensure((2 * dense_ + w) * pixel_ + slack);
    for (Aligned<A>* memory : {&total_, &part_}) memory->ensure(pitch_);
    sides_.ensure(2 * pitch_);
    for (Aligned<A>& level : levels_) level.ensure(kBlocks * pitch_);
  }

  // V of the image, and of one pixel on either side of it.
  void sum(const A* image, const A* before, const A* behind, const BoxScale<A>& scale, A* out) {
    before_.assign(before, before + pixel_), behind_.assign(behind, behind + pixel_);
    std::copy_n(image, w_ * pixel_, at(0));
    bool any = false;
    for (int64_t m = 1;; m *= 2) {
      if (m == dense_) first_blocks();
      if (kw_ & m) {
        const int64_t position = kw_ - kw_ % (2 * m);
        const A* part = m < dense_ ? part_.data() : block(position / m);
        if (m < dense_) copy_sums(m, position, part_.data());
        if (any) add(part, total_.data(), total_.data());
        else std::copy_n(part, length_, total_.data());
        any = true;
      }
      if (2 * m > kw_) break;
      if (m < dense_) double_row(m);
      else double_blocks(m);
    }
    finish_sums<A, false>(total_.data(), nullptr, 0, {0, length_}, scale, out);
  }

 private:
  // The position of pixel x of the image: sums of m from x = 1 - m to w - 1.
  A* at(int64_t x) const { return row_.data() + (dense_ + x) * pixel_; }

  // Whole pixels; the existing elements are copied behind themselves.
  void fill(const std::vector<A>& side, A* to, A* end) const {
    const int64_t size = end - to;
    std::copy_n(side.data(), std::min(pixel_, size), to);
    for (int64_t done = pixel_; done < size; done *= 2) std::copy_n(to, std::min(done, size - done), to + done);
  }

  void add(const A* a, const A* b, A* to) const {
    for (int64_t e = 0; e < length_; e += kLanes<A>) store(to + e, load(a + e) + load(b + e));
  }

  void double_sides() {
    for (std::vector<A>* side : {&before_, &behind_})
      for (A& number : *side) number = number + number;
  }

  // In place: reads are ahead of writes.
  void double_row(int64_t m) {
    fill(before_, at(1 - 2 * m), at(1 - m));
    fill(behind_, at(w_), at(w_ + m));
    const int64_t ahead = m * pixel_;
    for (A *to = at(1 - 2 * m), *const end = at(w_); to < end; to += kLanes<A>) store(to, load(to) + load(to + ahead));
    double_sides();
  }

  // s_m of the positions from `first` on.
  void copy_sums(int64_t m, int64_t first, A* to) const {
    const int64_t begin = std::clamp<int64_t>(left_ - m + 1 - first, 0, outputs_);
    const int64_t end = std::clamp<int64_t>(left_ + w_ - first, begin, outputs_);
    fill(before_, to, to + begin * pixel_);
    std::copy_n(at(first + begin - left_), (end - begin) * pixel_, to + begin * pixel_);
    fill(behind_, to + end * pixel_, to + length_);
  }

  // The blocks of s_m that meet the image.
  Range meeting(int64_t m) const {
    const int64_t begin = ceil_div(std::max<int64_t>(0, left_ - m - outputs_ + 2), m);
    return {begin, std::max(begin, ceil_div(std::max<int64_t>(0, left_ + w_), m))};
  }

  const A* block(int64_t q) const {
    if (q < blocks_.begin) return sides_.data();
    return q >= blocks_.end ? sides_.data() + pitch_ : levels_[0].data() + (q - blocks_.begin) * pitch_;
  }

  void first_blocks() {
    blocks_ = meeting(dense_);
    for (int64_t q = blocks_.begin; q < blocks_.end; ++q)
      copy_sums(dense_, q * dense_, levels_[0].data() + (q - blocks_.begin) * pitch_);
    fill(before_, sides_.data(), sides_.data() + length_);
    fill(behind_, sides_.data() + pitch_, sides_.data() + pitch_ + length_);
  }

  void double_blocks(int64_t m) {
    const Range next = meeting(2 * m);
    for (int64_t q = next.begin; q < next.end; ++q)
      add(block(2 * q), block(2 * q + 1), levels_[1].data() + (q - next.begin) * pitch_);
    for (A* side : {sides_.data(), sides_.data() + pitch_}) add(side, side, side);
    std::swap(levels_[0], levels_[1]);
    blocks_ = next;
  }

  const int64_t kw_, pixel_;
  int64_t outputs_ = 0, w_ = 0, left_ = 0;
  int64_t dense_ = 0;                                  // m up to which a row holds all sums
  int64_t length_ = 0, pitch_ = 0;                     // elements of a block, and from block to block
  Range blocks_{};                                     // those in levels_[0]
  std::vector<A> before_, behind_;                     // s_m of either side
  Aligned<A> row_, sides_, levels_[2], total_, part_;  // sides_: blocks of either
};
