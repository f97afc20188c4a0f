// The loops of overlap-save. Text of core/cpu_each_isa.h: compiled once per instruction set.

// The given rows of all tiles.
template <typename A>
void read_tiles(const ReadTiles& p, Range rows) {
  const Tiles& tiles = p.tiles;
  const ReadRow<A> read = row_reader<A>(p.in.dtype);
  const A outside = A(overlap_save::outside_of(p.place));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const auto tile = overlap_save::Tile::of(tiles, p.in.c, row / tiles.h);
    A* to = static_cast<A*>(tiles.data) + row * tiles.w;
    const int64_t y = tile.row * tiles.step_h - p.place.pad_y + row % tiles.h;
    const int64_t x = tile.column * tiles.step_w - p.place.pad_x;
    const int64_t from = map_index(y, p.in.h, p.place.border);
    if (from < 0) {
      std::fill_n(to, tiles.w, outside);
      continue;
    }
    const Range inside = positions_inside({0, tiles.w}, x, 1, p.in.w);
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
    extend({inside.end, tiles.w});
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
    if (s.normalized)
      for (int64_t i = 0; i < count; ++i) {
        const double sum = overlap_save::sum_inside(p, tile.n, tile.c, y, x + i);
        again |= sum < 0;
        line[i] = A(line[i] / sum);
      }
    if (s.border == Border::zero_output)
      for (int64_t i = 0; i < count; ++i)
        if (!overlap_save::fits(f, y, x + i)) line[i] = 0;
    if (again) std::atomic_ref<char>(p.again[unit]).store(1, std::memory_order_relaxed);
    write(line.data(), count, pixel_of(f.out, tile.n, tile.c, 0, y, x), f.out.stride_w);
  }
}
