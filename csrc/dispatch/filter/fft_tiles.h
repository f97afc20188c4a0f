// Filters of images in numbers: which tiles one by FFT takes, and what it, the direct sum and separable passes are
// expected to cost. Pure functions of sizes, dtype and kind of device.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace torch_conv {

// A filter of `planes` images by so many different windows. span: from a window's first tap to its last, both included,
// dilation and all.
struct FilterSize {
  int64_t planes, windows, out_h, out_w;
  int64_t kh, kw, span_h, span_w, stride_h, stride_w;
  Dtype image;
  bool cuda;
  bool products;    // tensor cores can take the direct sums
  bool one_launch;  // can make a sum of two or three separable filters
};

// Tiles of h x w pixels, each of which makes the outputs of step_h x step_w (multiples of the strides).
struct FftTiles {
  int64_t h, w, step_h, step_w;
  int64_t down, across;  // how many
  int64_t most;          // tiles that are transformed at once, of all images
  double seconds;        // of the whole filter

  int64_t count() const { return down * across; }
};

// Tiles, their spectra, what the inverse transform copies, and the sums: together at most this, unless a single tile
// that the window fits into is larger.
constexpr int64_t kFftWorkspace = int64_t(512) << 20;
constexpr int64_t kFftCopies = 4;
constexpr int64_t kFftLargestSpan = 1 << 14;
constexpr int64_t kFftLargestSpanOfRows = 1 << 20;

// Are tiles single rows, transformed along one dimension? So windows of one row or one column are on the CPU. Images
// of a window of one column are turned: their columns are the tiles' rows.
bool fft_by_rows(const FilterSize& size);
int64_t largest_fft_span(const FilterSize& size);

FftTiles fft_tiles(const FilterSize& size);
double direct_seconds(const FilterSize& size);
// As `rank` separable filters and their sum.
double passes_seconds(const FilterSize& size, int rank);

// Is 'auto' to take it? Windows of up to 225 taps never; those of one row or one column on the CPU only.
bool fft_is_faster(const FilterSize& size);

}  // namespace torch_conv
