#include "dispatch/filter/by_fft.h"

#include <algorithm>
#include <cmath>

#include "dispatch/filter/fft_spectra.h"
#include "dispatch/filter/filter.h"
#include "dispatch/volumes.h"
#include "graph/launch_graph.h"
#include "kernels/overlap_save/params.h"

namespace torch_conv {

namespace {

using overlap_save::Mark;

// The size of the most even parts of `total` items, each of at most `most`: transforms of equal batches.
int64_t even_part(int64_t total, int64_t most) { return ceil_div(total, ceil_div(total, std::max<int64_t>(most, 1))); }

// The samples, channels and tiles of a batch.
struct Batch {
  int64_t n, c, tiles;

  static Batch of(const Direct& p, const FftTiles& tiles) {
    const int64_t t = even_part(tiles.count(), tiles.most), c = even_part(p.in.c, tiles.most / t);
    return {even_part(p.in.n, tiles.most / (t * c)), c, t};
  }
  int64_t count(const Direct& p, const FftTiles& of) const {
    return ceil_div(p.in.n, n) * ceil_div(p.in.c, c) * ceil_div(of.count(), tiles);
  }
};

Image slice_image(Image image, Range n, Range c) {
  image.data =
      static_cast<char*>(image.data) + (n.begin * image.stride_n + c.begin * image.stride_c) * size_of(image.dtype);
  image.n = n.size(), image.c = c.size();
  return image;
}

// The filter of some samples and channels.
Direct slice_problem(const Direct& p, Range n, Range c) {
  Direct part = p;
  part.in = slice_image(p.in, n, c), part.out = slice_image(p.out, n, c);
  part.groups = c.size();
  part.taps.data = static_cast<const char*>(p.taps.data) +
                   (n.begin * p.taps.stride_n + c.begin * p.taps.stride_c) * acc_bytes(p.in.dtype);
  return part;
}

// The filter with rows and columns exchanged. A window of one column is stored as one row.
Direct transposed(Direct p) {
  for (Image* image : {&p.in, &p.out}) std::swap(image->h, image->w), std::swap(image->stride_h, image->stride_w);
  std::swap(p.kh, p.kw);
  Placement& s = p.place;
  std::swap(s.pad_y, s.pad_x), std::swap(s.stride_y, s.stride_x), std::swap(s.dilation_y, s.dilation_x);
  return p;
}

Tiles tiles_at(const FftTiles& t, void* data, Range which) {
  return {data, which.begin, which.size(), t.across, t.h, t.w, t.step_h, t.step_w};
}

ReadTiles read_problem(const Direct& p, const Tiles& tiles, int32_t* notes) {
  const Placement& s = p.place;
  const auto end = [](int64_t outputs, int64_t stride, int64_t k, int64_t dilation, int64_t pad) {
    return (outputs - 1) * stride + (k - 1) * dilation + 1 - pad;
  };
  return {.in = p.in,
          .place = s,
          .tiles = tiles,
          .end_y = end(p.out.h, s.stride_y, p.kh, s.dilation_y, s.pad_y),
          .end_x = end(p.out.w, s.stride_x, p.kw, s.dilation_x, s.pad_x),
          .notes = notes};
}

void explain(Call& call, const Target& target, const Direct& p, const FftTiles& t, const Batch& batch) {
  const int64_t windows = (p.taps.stride_n ? batch.n : 1) * (p.taps.stride_c ? batch.c : 1);
  const int64_t tile = t.h * t.w * acc_bytes(p.in.dtype), batches = batch.count(p, t);
  const double outputs = double(p.out.n) * double(p.out.c) * double(p.out.h) * double(p.out.w);
  const double pixels = double(p.in.n) * double(p.in.c) * double(p.in.h) * double(p.in.w);
  std::ostringstream line;
  line << "fft/overlap_save (expected " << t.seconds * 1e6 << " us, direct "
       << direct_seconds(filter_size(p, target)) * 1e6 << " us); tile " << t.w << 'x' << t.h << ", tiles " << t.count()
       << ", images " << p.in.n * p.in.c << ", batches " << batches << "; launches "
       << (target.cuda() ? 8 : 7) * batches + 2 << " with a transform as one, scratch "
       << (kFftCopies * batch.n * batch.c * batch.tiles + windows) * tile << " B; bytes "
       << int64_t(pixels * size_of(p.in.dtype) + outputs * size_of(p.out.dtype)) << ", flops "
       << int64_t(5 * double(t.h * t.w) * std::log2(double(t.h * t.w)) * double(t.count() * p.in.n * p.in.c));
  call.explain(line.str());
  const Direct first = slice_problem(p, {0, batch.n}, {0, batch.c});
  const Tiles tiles = tiles_at(t, nullptr, {0, batch.tiles});
  run(call, target, read_problem(first, tiles, nullptr));
  run(call, target, WriteTiles{first, tiles, {}, nullptr, nullptr});
}

// Computes the outputs of a tile's marked cells directly, on the CPU.
class MarkedCells {
 public:
  // `unit` is a tile of the batch, and `marks` are those of its cells.
  MarkedCells(Call& call, const Target& target, const Direct& p, const FftTiles& tiles, Range which, int64_t unit,
              const overlap_save::Cells& cells, Mark* marks)
      : call_(call),
        target_(target),
        p_(p),
        tiles_(tiles),
        cells_(cells),
        marks_(marks),
        plane_(unit / which.size()),
        tile_(which.begin + unit % which.size()) {}

  // Computes rectangles of cells, each as wide and then as high as possible.
  void filter() {
    const Placement& s = p_.place;
    const Range rows{0, ceil_div(tiles_.step_h, int64_t(1) << cells_.log_h)};
    const Range columns{0, ceil_div(tiles_.step_w, int64_t(1) << cells_.log_w)};
    for (int64_t row = 0; row < rows.end; ++row)
      for (int64_t column = 0; column < columns.end; ++column) {
        Range x{column, column}, y{row, row + 1};
        while (x.end < columns.end && marked(row, {x.end, x.end + 1})) ++x.end;
        if (x.size() == 0) continue;
        while (y.end < rows.end && marked(y.end, x)) ++y.end;
        for (int64_t done = y.begin; done < y.end; ++done)
          std::fill_n(marks_ + done * cells_.columns + x.begin, x.size(), Mark::keep);
        filter(overlap_save::outputs_of(y, cells_.log_h, s.stride_y, tiles_.step_h / s.stride_y),
               overlap_save::outputs_of(x, cells_.log_w, s.stride_x, tiles_.step_w / s.stride_x));
      }
  }

 private:
  bool marked(int64_t row, Range columns) const {
    const Mark* const from = marks_ + row * cells_.columns;
    return std::all_of(from + columns.begin, from + columns.end, [](Mark m) { return m == Mark::directly; });
  }

  // Rows and columns of the tile's outputs.
  void filter(Range rows, Range columns) {
    const Placement& s = p_.place;
    const int64_t n = plane_ / p_.in.c, c = plane_ % p_.in.c;
    const int64_t first_y = tile_ / tiles_.across * (tiles_.step_h / s.stride_y);
    const int64_t first_x = tile_ % tiles_.across * (tiles_.step_w / s.stride_x);
    const Range y{first_y + rows.begin, std::min(p_.out.h, first_y + rows.end)};
    const Range x{first_x + columns.begin, std::min(p_.out.w, first_x + columns.end)};
    if (y.size() <= 0 || x.size() <= 0) return;
    Direct part = slice_problem(p_, {n, n + 1}, {c, c + 1});
    part.out = cut(part.out, y, x);
    part.place.pad_y -= y.begin * s.stride_y, part.place.pad_x -= x.begin * s.stride_x;
    run(call_, target_, part);
  }

  Call& call_;
  const Target& target_;
  const Direct& p_;
  const FftTiles& tiles_;
  const overlap_save::Cells& cells_;
  Mark* const marks_;
  const int64_t plane_, tile_;
};

// The transforms of one call, batch by batch.
class OverlapSave {
 public:
  OverlapSave(Call& call, const Target& target, const FftTiles& tiles, const Batch& batch)
      : call_(call), target_(target), tiles_(tiles), batch_(batch) {}

  void run(const Direct& problem, const Tensor& taps) {
    const Tensor all = windows_of(taps, problem);
    const bool window_each_sample = all.size(0) > 1, window_each_channel = all.size(1) > 1;
    std::optional<Tensor> spectra;
    for_each(problem.in.c, batch_.c, [&](Range c) {
      if (window_each_channel) spectra.reset();
      for_each(problem.in.n, batch_.n, [&](Range n) {
        if (window_each_sample) spectra.reset();
        const Tensor windows = slice_windows(all, n, c);
        const Direct p = slice_problem(problem, n, c);
        if (!spectra) spectra = spectrum_of_windows(windows, p.place, tiles_);
        WriteTiles write{.filter = p};
        std::optional<Tensor> corners;
        if (p.place.normalized) {
          corners = corner_sums_of(windows);
          const int64_t size = (p.kh + 1) * (p.kw + 1);
          write.corners = {static_cast<const double*>(corners->data_ptr()),
                           window_each_sample ? windows.size(1) * size : 0, window_each_channel ? size : 0};
        }
        for_each(tiles_.count(), batch_.tiles, [&](Range which) { filter(write, *spectra, which); });
      });
    });
  }

 private:
  template <typename F>
  static void for_each(int64_t total, int64_t most, const F& f) {
    for (int64_t at = 0; at < total; at += most) f(Range{at, std::min(total, at + most)});
  }

  Tensor scratch(const Sizes& sizes, ScalarType type) const {
    return empty_strided(device_of(target_.input()), sizes, contiguous_strides(sizes), type);
  }

  void filter(WriteTiles write, const Tensor& spectra, Range which) {
    const Direct& p = write.filter;
    const auto cells = overlap_save::Cells::of(tiles_at(tiles_, nullptr, which));
    const int64_t units = p.in.n * p.in.c * which.size();
    Tensor notes = scratch({units, cells.notes()}, ScalarType::Int);
    torch::stable::zero_(notes);
    write.notes = static_cast<const int32_t*>(notes.data_ptr());
    const Tensor sums = sums_of(products(p, spectra, which, static_cast<int32_t*>(notes.data_ptr())), tiles_);
    write.sums = tiles_at(tiles_, sums.data_ptr(), which);
    const Tensor marks = scratch({units, cells.count()}, ScalarType::Byte);
    write.marks = static_cast<char*>(marks.data_ptr());
    torch_conv::run(call_, target_, write);
    if (target_.cuda()) return;
    auto* const first = reinterpret_cast<Mark*>(write.marks);
    for (int64_t unit = 0; unit < units; ++unit)
      MarkedCells(call_, target_, p, tiles_, which, unit, cells, first + unit * cells.count()).filter();
  }

  // The pixels' memory is free before the products take more.
  Tensor products(const Direct& p, const Tensor& spectra, Range which, int32_t* notes) {
    std::optional<Tensor> pixels =
        scratch({p.in.n, p.in.c, which.size(), tiles_.h, tiles_.w}, accumulation_type(p.in.dtype));
    torch_conv::run(call_, target_, read_problem(p, tiles_at(tiles_, pixels->data_ptr(), which), notes));
    Tensor transformed = spectrum(*pixels, tiles_);
    pixels.reset();
    return multiplied(std::move(transformed), spectra, tiles_, p.in.dtype, target_.cuda());
  }

  Call& call_;
  const Target& target_;
  const FftTiles& tiles_;
  const Batch& batch_;
};

}  // namespace

void run_by_fft(Call& call, const Target& target, const Direct& problem, const Window& window) {
  if (call.graph) call.graph->invalidate();  // the graph records no launches of torch
  const bool columns = problem.kh > 1 && problem.kw == 1 && fft_by_rows(filter_size(problem, target));
  const Direct p = columns ? transposed(problem) : problem;
  const FftTiles tiles = fft_tiles(filter_size(p, target));
  const Batch batch = Batch::of(p, tiles);
  if (call.runs()) OverlapSave(call, target, tiles, batch).run(p, window.tensor);
  else explain(call, target, p, tiles, batch);
}

}  // namespace torch_conv
