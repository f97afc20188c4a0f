// The loops of overlap-save. Text of core/cpu/each_isa.h: compiled once per instruction set.

// Notes the size of the tiles' pixels. The rows of one row of cells are combined column by column first, which the
// compiler vectorizes. Another thread may have other rows of the same cells.
template <typename A>
class Notes {
  using Bits = std::conditional_t<sizeof(A) == 8, uint64_t, uint32_t>;
  static constexpr Bits kSign = Bits(1) << (8 * sizeof(A) - 1);

 public:
  explicit Notes(const ReadTiles& p)
      : p_(p), cells_(overlap_save::Cells::of(p.tiles)), largest_(p.tiles.w, 0), lowest_(p.tiles.w, 0) {}
  ~Notes() { flush(); }

  // Row `row` of all tiles' rows.
  void add(int64_t row, const A* pixels) {
    const int64_t unit = row / p_.tiles.h, y = row % p_.tiles.h;
    int32_t* const notes = p_.notes + unit * cells_.notes();
    int32_t* const cells = notes + cells_.at(y, 0);
    if (cells != to_) flush();
    to_ = cells, negative_ = notes + cells_.count();
    Bits* __restrict largest = largest_.data(), * __restrict lowest = lowest_.data();
    for (int64_t x = 0; x < p_.tiles.w; ++x) {
      const Bits bits = __builtin_bit_cast(Bits, pixels[x]), magnitude = bits & ~kSign;
      largest[x] = magnitude > largest[x] ? magnitude : largest[x];
      lowest[x] = bits > lowest[x] ? bits : lowest[x];  // a set sign makes it larger than all without
    }
  }

 private:
  void flush() {
    if (!to_) return;
    const int64_t w = p_.tiles.w, side = int64_t(1) << cells_.log_w;
    for (int64_t x = 0; x < w; x += side) {
      const Bits most = largest_of(largest_, {x, std::min(w, x + side)});
      const std::atomic_ref<int32_t> cell(to_[x >> cells_.log_w]);
      const int exponent = overlap_save::exponent_of(most);
      for (int32_t noted = cell.load(std::memory_order_relaxed);
           noted < exponent && !cell.compare_exchange_weak(noted, exponent, std::memory_order_relaxed);) {
      }
    }
    if (largest_of(lowest_, {0, w}) > kSign) std::atomic_ref<int32_t>(*negative_).store(1, std::memory_order_relaxed);
    std::fill(largest_.begin(), largest_.end(), Bits(0));
    std::fill(lowest_.begin(), lowest_.end(), Bits(0));
  }

  // In vectors, which std::max_element is not compiled to.
  static Bits largest_of(const std::vector<Bits>& of, Range range) {
    Bits most = 0;
    for (int64_t x = range.begin; x < range.end; ++x) most = of[x] > most ? of[x] : most;
    return most;
  }

  const ReadTiles& p_;
  const overlap_save::Cells cells_;
  std::vector<Bits> largest_, lowest_;  // of each column: magnitudes; numbers, of which negative ones are the largest
  int32_t *to_ = nullptr, *negative_ = nullptr;
};

// The given rows of all tiles.
template <typename A>
void read_tiles(const ReadTiles& p, Range rows) {
  const Tiles& tiles = p.tiles;
  Notes<A> notes(p);
  const ReadRow<A> read = row_reader<A>(p.in.dtype);
  const A outside = A(overlap_save::outside_of(p.place));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const auto tile = overlap_save::Tile::of(tiles, p.in.c, row / tiles.h);
    A* to = static_cast<A*>(tiles.data) + row * tiles.w;
    const int64_t y = tile.row * tiles.step_h - p.place.pad_y + row % tiles.h;
    const int64_t x = tile.column * tiles.step_w - p.place.pad_x;
    const int64_t width = y < p.end_y ? std::clamp<int64_t>(p.end_x - x, 0, tiles.w) : 0;
    std::fill(to + width, to + tiles.w, A(0));
    const int64_t from = width ? map_index(y, p.in.h, p.place.border) : -1;
    if (from < 0) {
      std::fill_n(to, width, outside);
      notes.add(row, to);
      continue;
    }
    const Range inside = positions_inside({0, width}, x, 1, p.in.w);
    if (inside.size() > 0)
      read(pixel_of(p.in, tile.n, tile.c, 0, from, x + inside.begin), p.in.stride_w, inside.size(), to + inside.begin);
    const auto extend = [&](Range columns) {
      for (int64_t i = columns.begin; i < columns.end; ++i) {
        const int64_t column = map_index(x + i, p.in.w, p.place.border);
        if (column < 0) to[i] = outside;
        else read(pixel_of(p.in, tile.n, tile.c, 0, from, column), 1, 1, to + i);
      }
    };
    extend({0, inside.begin});
    extend({inside.end, width});
    notes.add(row, to);
  }
}

// The given rows of all tiles' outputs.
template <typename A>
void write_tiles(const WriteTiles& p, Range rows) {
  const Direct& f = p.filter;
  const Placement& s = f.place;
  const auto outputs = overlap_save::Outputs::of(p);
  const WriteRow<A> write = row_writer<A>(f.out.dtype);
  std::vector<A> line(outputs.w);
  const A scale = A(1) / A(p.sums.h * p.sums.w);
  const auto cells = overlap_save::Cells::of(p.sums);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t unit = row / outputs.h, within = row % outputs.h;
    const auto tile = overlap_save::Tile::of(p.sums, f.in.c, unit);
    const int64_t y = tile.row * outputs.h + within, x = tile.column * outputs.w;
    const int64_t count = std::min(outputs.w, f.out.w - x);
    if (y >= f.out.h || count <= 0) continue;
    const A* from = static_cast<const A*>(p.sums.data) +
                    (unit * p.sums.h + outputs.from_h + within * s.stride_y) * p.sums.w + outputs.from_w;
    int unbounded = 0;
    for (int64_t i = 0; i < count; ++i) {
      line[i] = from[i * s.stride_x] * scale;
      unbounded |= !(line[i] - line[i] == 0);
    }
    bool again = unbounded != 0;
    overlap_save::Mark* const marks = reinterpret_cast<overlap_save::Mark*>(p.marks) + unit * cells.count();
    overlap_save::Mark* const row_marks = marks + cells.at(within * s.stride_y, 0);
    for (int64_t i = 0, end; i < count; i = end) {
      const int64_t cell = i * s.stride_x >> cells.log_w, next = (cell + 1) << cells.log_w;
      end = std::min(count, s.stride_x == 1 ? next : ceil_div(next, s.stride_x));
      const auto mark = std::atomic_ref(row_marks[cell]).load(std::memory_order_relaxed);
      if (mark == overlap_save::Mark::nothing) std::fill(line.data() + i, line.data() + end, A(0));
      if (mark == overlap_save::Mark::clamp)
        for (int64_t j = i; j < end; ++j) line[j] = line[j] > 0 ? line[j] : A(0);
    }
    if (s.normalized)
      for (int64_t i = 0; i < count; ++i) {
        const double sum = overlap_save::sum_inside(p, tile.n, tile.c, y, x + i);
        again |= sum < 0;
        line[i] = A(line[i] / sum);
      }
    if (s.border == Border::zero_output)
      for (int64_t i = 0; i < count; ++i)
        if (!overlap_save::fits(f, y, x + i)) line[i] = 0;
    if (again)
      for (int i = 0; i < cells.count(); ++i)
        std::atomic_ref(marks[i]).store(overlap_save::Mark::directly, std::memory_order_relaxed);
    write(line.data(), count, pixel_of(f.out, tile.n, tile.c, 0, y, x), f.out.stride_w);
  }
}

// The given rows of all tiles' spectra. Whole rows, so that a number's position, in a vector or behind the last one,
// does not depend on the thread.
template <typename A>
void multiply_spectra(const overlap_save::Spectra& p, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t plane = row / (p.count * p.rows);
    const int64_t from = plane / p.c * p.stride_n + plane % p.c * p.stride_c + row % p.rows * p.size;
    const A* __restrict window = static_cast<const A*>(p.windows) + 2 * from;
    A* __restrict of = static_cast<A*>(p.tiles) + 2 * row * p.size;
    for (int64_t i = 0; i < 2 * p.size; i += 2) {
      const A re = of[i] * window[i] - of[i + 1] * window[i + 1], im = of[i] * window[i + 1] + of[i + 1] * window[i];
      of[i] = re, of[i + 1] = im;
    }
  }
}
