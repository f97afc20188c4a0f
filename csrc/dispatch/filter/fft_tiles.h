// The tiles of a filter by FFT, and the expected times by FFT, directly and by separable passes. Pure functions of
// sizes, dtype and kind of device.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace torch_conv {

// A filter of `planes` images by `windows` different windows. A span reaches from a window's first tap to its last,
// both included, with dilation.
struct FilterSize {
  int64_t planes, windows, out_h, out_w;
  int64_t kh, kw, span_h, span_w, stride_h, stride_w;
  Dtype image;
  bool cuda;
  bool mma;         // tensor cores can compute the direct sums
  bool one_launch;  // one launch can compute a sum of two or three separable filters
};

// Tiles of h x w pixels. Each has the outputs of step_h x step_w pixels, which are multiples of the strides.
struct FftTiles {
  int64_t h, w, step_h, step_w;
  int64_t down, across;  // tiles of an image
  int64_t most;          // tiles of a batch, of all images
  double seconds;        // of the whole filter

  int64_t count() const { return down * across; }
};

// The largest sum of bytes of tiles, their spectra, the copies of the inverse transform and the sums. A single tile
// may be larger, because the window has to fit into it.
constexpr int64_t kFftWorkspace = int64_t(512) << 20;
constexpr int64_t kFftCopies = 4;
constexpr int64_t kFftLargestSpan = 1 << 14;
constexpr int64_t kFftLargestSpanOfRows = 1 << 20;

// Whether tiles are single rows, transformed along one dimension: on the CPU, for windows of one row or one column.
// Columns of an image are the tiles' rows where the window is one column.
bool fft_by_rows(const FilterSize& size);
int64_t largest_fft_span(const FilterSize& size);

FftTiles fft_tiles(const FilterSize& size);
double direct_seconds(const FilterSize& size);
// The expected time by `rank` separable filters and their sum.
double passes_seconds(const FilterSize& size, int rank);

// False for windows of up to 225 taps, and on CUDA for windows of one row or one column.
bool fft_is_faster(const FilterSize& size);

}  // namespace torch_conv
