#include "dispatch/filter/fft_spectra.h"

#include "kernels/overlap_save/multiply.h"

namespace torch_conv {

namespace {

using Norm = std::optional<std::string>;

// The taps at the distance of the window's dilation, with zeros between.
Tensor dilated(const Tensor& windows, const Placement& s) {
  if (s.dilation_y == 1 && s.dilation_x == 1) return windows;
  Sizes sizes = sizes_of(windows);
  sizes[3] = (sizes[3] - 1) * s.dilation_y + 1, sizes[4] = (sizes[4] - 1) * s.dilation_x + 1;
  Tensor spaced = empty_strided(device_of(windows), sizes, contiguous_strides(sizes), windows.scalar_type());
  torch::stable::zero_(spaced);
  const std::optional<int64_t> all;
  Tensor rows = call_aten("aten::slice", "Tensor", spaced, int64_t(3), all, all, s.dilation_y);
  Tensor taps = call_aten("aten::slice", "Tensor", rows, int64_t(4), all, all, s.dilation_x);
  torch::stable::copy_(taps, windows);
  return spaced;
}

Tensor as_contiguous(const Tensor& t) { return t.is_contiguous() ? t : torch::stable::contiguous(t); }

}  // namespace

Tensor windows_of(const Tensor& taps, const Direct& p) {
  Sizes sizes = sizes_of(taps);
  sizes.resize(sizes.size() - 2);
  sizes.resize(2, 1);
  sizes.insert(sizes.end(), {1, p.kh, p.kw});
  return torch::stable::view(taps, sizes);
}

Tensor slice_windows(Tensor windows, Range n, Range c) {
  if (windows.size(0) > 1) windows = narrow(windows, 0, n.begin, n.size());
  return windows.size(1) > 1 ? narrow(windows, 1, c.begin, c.size()) : windows;
}

Tensor spectrum(const Tensor& t, const FftTiles& tiles) {
  if (tiles.h == 1) return call_aten("aten::fft_rfft", "", t, std::optional<int64_t>(tiles.w), int64_t(-1), Norm());
  return call_aten("aten::fft_rfft2", "", t, std::optional<Sizes>({tiles.h, tiles.w}), Sizes{-2, -1}, Norm());
}

Tensor spectrum_of_windows(const Tensor& windows, const Placement& placement, const FftTiles& tiles) {
  return spectrum(call_aten("aten::flip", "", dilated(windows, placement), Sizes{-2, -1}), tiles);
}

Tensor multiplied(Tensor tiles_spectra, const Tensor& window_spectra, const FftTiles& tiles, Dtype image, bool cuda) {
  if (cuda) {
    call_aten("aten::mul_", "Tensor", tiles_spectra, window_spectra);
    return tiles_spectra;
  }
  // Transforms on the CPU may have exchanged rows and columns.
  tiles_spectra = as_contiguous(tiles_spectra);
  const Tensor windows = as_contiguous(window_spectra);
  const int64_t row = tiles.w / 2 + 1, size = tiles.h * row, n = windows.size(0), c = windows.size(1);
  overlap_save::multiply({.tiles = tiles_spectra.data_ptr(),
                          .windows = windows.data_ptr(),
                          .dtype = image,
                          .n = tiles_spectra.size(0),
                          .c = tiles_spectra.size(1),
                          .count = tiles_spectra.size(2),
                          .rows = tiles.h,
                          .size = row,
                          .stride_n = n > 1 ? c * size : 0,
                          .stride_c = c > 1 ? size : 0});
  return tiles_spectra;
}

Tensor sums_of(const Tensor& spectra, const FftTiles& tiles) {
  constexpr int64_t kNoScaling = 0;  // as a number: torch 2.11 loses the memory of a string
  return as_contiguous(
      call_aten("aten::_fft_c2r", "", spectra, tiles.h == 1 ? Sizes{4} : Sizes{3, 4}, kNoScaling, tiles.w));
}

Tensor corner_sums_of(const Tensor& windows) {
  const Tensor magnitudes = torch::stable::to(call_aten("aten::abs", "", windows), ScalarType::Double);
  const Tensor padded = torch::stable::pad(magnitudes, {1, 0, 1, 0}, "constant", 0.0);
  const std::optional<ScalarType> same;
  return call_aten("aten::cumsum", "", call_aten("aten::cumsum", "", padded, int64_t(-1), same), int64_t(-2), same);
}

}  // namespace torch_conv
