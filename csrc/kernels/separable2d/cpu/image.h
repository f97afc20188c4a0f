// Row sums of a whole image, then columns of them. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
//   rows of the image      --row pass-->      as many rows of sums      --column pass over kh of them--> output rows
//
// A window that is tall for the image reads the same rows again and again, by way of the border. Here every row has its
// sums made once, whatever the window: the column pass finds rows through the border's map.

template <typename A>
CpuWindow<A> window_across(const Separable& p, int64_t n, int64_t c) {
  const A* taps = static_cast<const A*>(p.taps_x.data) + n * p.taps_x.stride_n + c * p.taps_x.stride_c;
  return {.taps = taps, .at = kOnePlane, .planes = 1, .kh = 1, .kw = p.kw};
}

template <typename A>
CpuWindow<A> window_down(const Separable& p, int64_t n, int64_t c) {
  const A* taps = static_cast<const A*>(p.taps_y.data) + n * p.taps_y.stride_n + c * p.taps_y.stride_c;
  return {.taps = taps, .at = kOnePlane, .planes = 1, .kh = p.kh, .kw = 1};
}

// The row pass of `units`: each is one of the rows that the columns read, of planes from `first` on.
template <typename A, typename E>
void image_across(const Separable& p, const separable2d::ImageRows& rows, int64_t first, A* sums, Range units) {
  const int64_t pixel = separable2d::pixel_of_row(p), channels = pixel > 1 ? 1 : p.in.c;
  const int64_t count = int64_t(rows.read.size());
  InputRows<E> in(p.in, pixel, p.place, p.kw);
  in.open({0, p.out.w}, 1, 1);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const int64_t plane = unit / count, y = rows.read[unit % count];
    const int64_t n = (first + plane) / channels, c = (first + plane) % channels;
    const E* row = in.row(in.plane(n, c, 0, 0), y, 0);
    A* to = sums + (plane * rows.slots + (y < 0 ? p.in.h : y)) * rows.pitch;
    in.forget();
    correlate(1, &row, window_across<A>(p, n, c), in.offsets(), &to, p.out.w * pixel);
  }
}

// The column pass of the output rows `units` of planes from `first` on.
template <typename A>
void image_down(const Separable& p, const separable2d::ImageRows& rows, const Plan& plan, int64_t first, const A* sums,
                Range units) {
  const int64_t pixel = separable2d::pixel_of_row(p), channels = pixel > 1 ? 1 : p.in.c;
  const int64_t here = 0;
  const Placement& place = p.place;
  // Output rows share rows of sums when one step of the output is one step of the window.
  const bool shared = place.stride_y == place.dilation_y;
  const int64_t most = shared ? std::min<int64_t>(kMaxTileRows, p.kh) : 1;
  OutputRows<A> out(p.out, pixel);
  std::vector<const A*> pointers;
  for_each_strip(units, p.out.h, plan.tile_h, [&](const RowStrip& strip) {
    const int64_t n = (first + strip.plane) / channels, c = (first + strip.plane) % channels;
    const CpuWindow<A> window = window_down<A>(p, n, c);
    for (int64_t x = 0; x < p.out.w; x += plan.tile_w) {
      out.open(n, 0, {x, std::min(p.out.w, x + plan.tile_w)});
      const A* base = sums + strip.plane * rows.slots * rows.pitch + x * pixel;
      const auto point = [&](int64_t y, int64_t count) {
        pointers.resize(count);
        for (int64_t q = 0; q < count; ++q) {
          const int64_t m = map_index(y * place.stride_y + q * place.dilation_y - place.pad_y, p.in.h, place.border);
          pointers[q] = base + (m < 0 ? p.in.h : m) * rows.pitch;
        }
      };
      if (shared) point(strip.range.begin, strip.range.size() - 1 + p.kh);
      for (int64_t y = strip.range.begin; y < strip.range.end;) {
        const int tile = int(std::min(most, strip.range.end - y));
        if (!shared) point(y, p.kh);
        const A* const* under = pointers.data() + (shared ? y - strip.range.begin : 0);
        out.fill(tile, c, y, [&](auto* const* to) { correlate(tile, under, window, &here, to, out.length()); });
        y += tile;
      }
    }
  });
}
