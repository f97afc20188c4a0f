#include "dispatch/filter/by_fft.h"

#include <algorithm>
#include <cmath>

#include "dispatch/filter/filter.h"
#include "dispatch/volumes.h"
#include "graph/launch_graph.h"
#include "kernels/overlap_save/multiply.h"
#include "kernels/overlap_save/params.h"

namespace torch_conv {

namespace {

using Norm = std::optional<std::string>;

// `total` things in parts of at most `most`, as even as can be: transforms of equal batches.
int64_t even(int64_t total, int64_t most) { return ceil_div(total, ceil_div(total, std::max<int64_t>(most, 1))); }

// How many samples, channels and tiles a batch holds.
struct Batch {
  int64_t n, c, tiles;

  static Batch of(const Direct& p, const FftTiles& tiles) {
    const int64_t t = even(tiles.count(), tiles.most), c = even(p.in.c, tiles.most / t);
    return {even(p.in.n, tiles.most / (t * c)), c, t};
  }
  int64_t count(const Direct& p, const FftTiles& of) const {
    return ceil_div(p.in.n, n) * ceil_div(p.in.c, c) * ceil_div(of.count(), tiles);
  }
};

Image some_of(const Image& image, Range n, Range c) {
  Image part = image;
  part.data =
      static_cast<char*>(image.data) + (n.begin * image.stride_n + c.begin * image.stride_c) * size_of(image.dtype);
  part.n = n.size(), part.c = c.size();
  return part;
}

// The same filter on some samples and channels.
Direct some_of(const Direct& p, Range n, Range c) {
  Direct part = p;
  part.in = some_of(p.in, n, c), part.out = some_of(p.out, n, c);
  part.groups = c.size();
  part.taps.data = static_cast<const char*>(p.taps.data) +
                   (n.begin * p.taps.stride_n + c.begin * p.taps.stride_c) * acc_bytes(p.in.dtype);
  return part;
}

// Windows (samples, channels, 1, kh, kw), of those dimensions that they have one each.
Tensor windows_of(const Tensor& taps, const Direct& p) {
  Sizes sizes = sizes_of(taps);
  sizes.resize(sizes.size() - 2);
  sizes.resize(2, 1);
  sizes.insert(sizes.end(), {1, p.kh, p.kw});
  return torch::stable::view(taps, sizes);
}

Tensor some_of(Tensor windows, Range n, Range c) {
  if (windows.size(0) > 1) windows = narrow(windows, 0, n.begin, n.size());
  return windows.size(1) > 1 ? narrow(windows, 1, c.begin, c.size()) : windows;
}

// The taps as far apart as the window's dilation has them, zeros between.
Tensor spread(const Tensor& windows, const Placement& s) {
  if (s.dilation_y == 1 && s.dilation_x == 1) return windows;
  Sizes sizes = sizes_of(windows);
  sizes[3] = (sizes[3] - 1) * s.dilation_y + 1, sizes[4] = (sizes[4] - 1) * s.dilation_x + 1;
  Tensor apart = empty_strided(device_of(windows), sizes, contiguous_strides(sizes), windows.scalar_type());
  torch::stable::zero_(apart);
  const std::optional<int64_t> all;
  Tensor rows = call_aten("aten::slice", "Tensor", apart, int64_t(3), all, all, s.dilation_y);
  Tensor taps = call_aten("aten::slice", "Tensor", rows, int64_t(4), all, all, s.dilation_x);
  torch::stable::copy_(taps, windows);
  return apart;
}

// Rows and columns exchanged: of a window of one column they lie in memory as those of one row.
Direct turned(Direct p) {
  for (Image* image : {&p.in, &p.out}) std::swap(image->h, image->w), std::swap(image->stride_h, image->stride_w);
  std::swap(p.kh, p.kw);
  Placement& s = p.place;
  std::swap(s.pad_y, s.pad_x), std::swap(s.stride_y, s.stride_x), std::swap(s.dilation_y, s.dilation_x);
  return p;
}

// A tile of one row is transformed along it alone.
Tensor spectrum(const Tensor& t, const FftTiles& tiles) {
  if (tiles.h == 1) return call_aten("aten::fft_rfft", "", t, std::optional<int64_t>(tiles.w), int64_t(-1), Norm());
  return call_aten("aten::fft_rfft2", "", t, std::optional<Sizes>({tiles.h, tiles.w}), Sizes{-2, -1}, Norm());
}

Tensor spectrum_of_windows(const Tensor& windows, const Placement& s, const FftTiles& tiles) {
  return spectrum(call_aten("aten::flip", "", spread(windows, s), Sizes{-2, -1}), tiles);
}

// Sums times the pixels of a tile: who writes them divides, which spares a pass over them.
Tensor sums_of(const Tensor& spectra, const FftTiles& tiles) {
  constexpr int64_t kAsTheyAre = 0;  // torch's number for sums that are not divided; its word would be lost memory
  const Tensor sums =
      call_aten("aten::_fft_c2r", "", spectra, tiles.h == 1 ? Sizes{4} : Sizes{3, 4}, kAsTheyAre, tiles.w);
  return sums.is_contiguous() ? sums : torch::stable::contiguous(sums);
}

// See WriteTiles; a row and a column of zeros come first.
Tensor corner_sums_of(const Tensor& windows) {
  const Tensor magnitudes = torch::stable::to(call_aten("aten::abs", "", windows), ScalarType::Double);
  const Tensor padded = torch::stable::pad(magnitudes, {1, 0, 1, 0}, "constant", 0.0);
  const std::optional<ScalarType> same;
  return call_aten("aten::cumsum", "", call_aten("aten::cumsum", "", padded, int64_t(-1), same), int64_t(-2), same);
}

// One call's transforms, batch by batch.
class ByFft {
 public:
  ByFft(Call& call, const Target& target, const Direct& p, const Window& window)
      : call_(call),
        target_(target),
        p_(p),
        tiles_(fft_tiles(filter_size(p, target))),
        batch_(Batch::of(p, tiles_)),
        taps_(window.tensor) {}

  void explain() {
    const int64_t each = p_.taps.stride_n || p_.taps.stride_c;
    const int64_t spectra = each ? (p_.taps.stride_n ? batch_.n : 1) * (p_.taps.stride_c ? batch_.c : 1) : 1;
    const int64_t tile = tiles_.h * tiles_.w * acc_bytes(p_.in.dtype), batches = batch_.count(p_, tiles_);
    const double outputs = double(p_.out.n) * double(p_.out.c) * double(p_.out.h) * double(p_.out.w);
    const double pixels = double(p_.in.n) * double(p_.in.c) * double(p_.in.h) * double(p_.in.w);
    std::ostringstream line;
    line << "fft/overlap_save (expected " << tiles_.seconds * 1e6 << " us, direct "
         << direct_seconds(filter_size(p_, target_)) * 1e6 << " us); tile " << tiles_.w << 'x' << tiles_.h << ", tiles "
         << tiles_.count() << ", images " << p_.in.n * p_.in.c << ", batches " << batches << "; launches "
         << (target_.cuda() ? 8 : 7) * batches + 2 << " with a transform as one, scratch "
         << (kFftCopies * batch_.n * batch_.c * batch_.tiles + spectra) * tile << " B; bytes "
         << int64_t(pixels * size_of(p_.in.dtype) + outputs * size_of(p_.out.dtype)) << ", flops "
         << int64_t(5 * double(tiles_.h * tiles_.w) * std::log2(double(tiles_.h * tiles_.w)) *
                    double(tiles_.count() * p_.in.n * p_.in.c));
    call_.explain(line.str());
    Direct first = some_of(p_, {0, batch_.n}, {0, batch_.c});
    run(call_, target_, read(first, tiles(nullptr, {0, batch_.tiles}), nullptr));
    run(call_, target_, WriteTiles{first, tiles(nullptr, {0, batch_.tiles}), {}, nullptr, nullptr});
  }

  void compute() {
    const Tensor windows = windows_of(taps_, p_);
    const bool own_samples = windows.size(0) > 1, own_channels = windows.size(1) > 1;
    std::optional<Tensor> spectra;
    for_each(p_.in.c, batch_.c, [&](Range c) {
      if (own_channels) spectra.reset();
      for_each(p_.in.n, batch_.n, [&](Range n) {
        if (own_samples) spectra.reset();
        const Tensor own = some_of(windows, n, c);
        if (!spectra) spectra = spectrum_of_windows(own, p_.place, tiles_);
        const Direct p = some_of(p_, n, c);
        WriteTiles write{.filter = p};
        std::optional<Tensor> corners;
        if (p.place.normalized) {
          corners = corner_sums_of(own);
          const int64_t size = (p.kh + 1) * (p.kw + 1);
          write.corners = {static_cast<const double*>(corners->data_ptr()), own_samples ? own.size(1) * size : 0,
                           own_channels ? size : 0};
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

  Tiles tiles(void* data, Range which) const {
    return {data, which.begin, which.size(), tiles_.across, tiles_.h, tiles_.w, tiles_.step_h, tiles_.step_w};
  }

  static ReadTiles read(const Direct& p, const Tiles& tiles, int32_t* notes) {
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

  Tensor scratch(const Sizes& sizes, ScalarType type) const {
    return empty_strided(device_of(target_.input()), sizes, contiguous_strides(sizes), type);
  }

  // On the CPU, where transforms may lie turned.
  void multiply(Tensor& products, const Tensor& spectra) const {
    if (!products.is_contiguous()) products = torch::stable::contiguous(products);
    const Tensor windows = spectra.is_contiguous() ? spectra : torch::stable::contiguous(spectra);
    const int64_t row = tiles_.w / 2 + 1, size = tiles_.h * row, n = windows.size(0), c = windows.size(1);
    overlap_save::multiply({.tiles = products.data_ptr(),
                            .windows = windows.data_ptr(),
                            .dtype = p_.in.dtype,
                            .n = products.size(0),
                            .c = products.size(1),
                            .count = products.size(2),
                            .rows = tiles_.h,
                            .size = row,
                            .stride_n = n > 1 ? c * size : 0,
                            .stride_c = c > 1 ? size : 0});
  }

  void filter(WriteTiles write, const Tensor& spectra, Range which) {
    const Direct& p = write.filter;
    const auto cells = overlap_save::Cells::of(tiles(nullptr, which));
    const int64_t units = p.in.n * p.in.c * which.size();
    Tensor notes = scratch({units, cells.notes()}, ScalarType::Int);
    torch::stable::zero_(notes);
    write.notes = static_cast<const int32_t*>(notes.data_ptr());
    const Tensor sums = [&] {
      std::optional<Tensor> pixels =
          scratch({p.in.n, p.in.c, which.size(), tiles_.h, tiles_.w}, accumulation_type(p.in.dtype));
      run(call_, target_, read(p, tiles(pixels->data_ptr(), which), static_cast<int32_t*>(notes.data_ptr())));
      Tensor products = spectrum(*pixels, tiles_);
      pixels.reset();
      if (target_.cuda()) call_aten("aten::mul_", "Tensor", products, spectra);
      else multiply(products, spectra);
      return sums_of(products, tiles_);
    }();
    write.sums = tiles(sums.data_ptr(), which);
    const Tensor marks = scratch({units, cells.count()}, ScalarType::Byte);
    write.marks = static_cast<char*>(marks.data_ptr());
    run(call_, target_, write);
    if (target_.cuda()) return;
    for (int64_t unit = 0; unit < units; ++unit)
      filter_directly(p, which, unit, cells, reinterpret_cast<overlap_save::Mark*>(write.marks) + unit * cells.count());
  }

  // On the CPU: the outputs of a tile's cells that are marked, by rectangles of cells, each as wide and then as high as
  // can be.
  void filter_directly(const Direct& p, Range which, int64_t unit, const overlap_save::Cells& cells,
                       overlap_save::Mark* marks) {
    using overlap_save::Mark;
    const auto marked = [&](int64_t row, Range columns) {
      const Mark* const from = marks + row * cells.columns;
      return std::all_of(from + columns.begin, from + columns.end, [](Mark m) { return m == Mark::directly; });
    };
    const Range rows{0, ceil_div(tiles_.step_h, int64_t(1) << cells.log_h)};
    const Range columns{0, ceil_div(tiles_.step_w, int64_t(1) << cells.log_w)};
    for (int64_t row = 0; row < rows.end; ++row)
      for (int64_t column = 0; column < columns.end; ++column) {
        Range x{column, column}, y{row, row + 1};
        while (x.end < columns.end && marked(row, {x.end, x.end + 1})) ++x.end;
        if (x.size() == 0) continue;
        while (y.end < rows.end && marked(y.end, x)) ++y.end;
        for (int64_t done = y.begin; done < y.end; ++done)
          std::fill_n(marks + done * cells.columns + x.begin, x.size(), Mark::keep);
        const Placement& s = p.place;
        filter_directly(p, which, unit,
                        overlap_save::outputs_of(y, cells.log_h, s.stride_y, tiles_.step_h / s.stride_y),
                        overlap_save::outputs_of(x, cells.log_w, s.stride_x, tiles_.step_w / s.stride_x));
      }
  }

  void filter_directly(const Direct& p, Range which, int64_t unit, Range rows, Range columns) {
    const int64_t plane = unit / which.size(), tile = which.begin + unit % which.size();
    const int64_t n = plane / p.in.c, c = plane % p.in.c;
    Direct one = some_of(p, {n, n + 1}, {c, c + 1});
    const Placement& s = p.place;
    const int64_t first_y = tile / tiles_.across * (tiles_.step_h / s.stride_y);
    const int64_t first_x = tile % tiles_.across * (tiles_.step_w / s.stride_x);
    const Range y{first_y + rows.begin, std::min(p.out.h, first_y + rows.end)};
    const Range x{first_x + columns.begin, std::min(p.out.w, first_x + columns.end)};
    if (y.size() <= 0 || x.size() <= 0) return;
    one.out = cut(one.out, y, x);
    one.place.pad_y -= y.begin * s.stride_y, one.place.pad_x -= x.begin * s.stride_x;
    run(call_, target_, one);
  }

  Call& call_;
  const Target& target_;
  const Direct& p_;
  const FftTiles tiles_;
  const Batch batch_;
  const Tensor taps_;
};

}  // namespace

void run_by_fft(Call& call, const Target& target, const Direct& p, const Window& window) {
  if (call.graph) call.graph->invalidate();  // the launches of torch are not recorded
  const bool columns = p.kh > 1 && p.kw == 1 && fft_by_rows(filter_size(p, target));
  const Direct q = columns ? turned(p) : p;
  ByFft filter(call, target, q, window);
  if (call.runs()) filter.compute();
  else filter.explain();
}

}  // namespace torch_conv
