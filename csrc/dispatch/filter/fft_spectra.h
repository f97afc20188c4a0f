// Transforms of tiles and windows by torch, and the window tensors that they read.
#pragma once

#include "core/ranges.h"
#include "dispatch/dispatch.h"
#include "dispatch/filter/fft_tiles.h"

namespace torch_conv {

// `taps` as windows (samples, channels, 1, kh, kw); samples and channels are 1 where they share a window.
Tensor windows_of(const Tensor& taps, const Direct& p);
// The windows of some samples and channels.
Tensor slice_windows(Tensor windows, Range n, Range c);

// The real-to-complex transform of tiles, along rows alone where a tile is one row.
Tensor spectrum(const Tensor& pixels, const FftTiles& tiles);
// The spectrum of the flipped windows, with zeros between dilated taps.
Tensor spectrum_of_windows(const Tensor& windows, const Placement& placement, const FftTiles& tiles);
// The spectra of tiles times those of their windows, in place where the layout allows.
Tensor multiplied(Tensor tiles_spectra, const Tensor& window_spectra, const FftTiles& tiles, Dtype image, bool cuda);
// The inverse transform without its division by a tile's pixels. The kernel that writes the outputs divides.
Tensor sums_of(const Tensor& spectra, const FftTiles& tiles);

// The corner sums of the windows' magnitudes (WriteTiles), after a row and a column of zeros.
Tensor corner_sums_of(const Tensor& windows);

}  // namespace torch_conv
