// A filter of images by FFT: overlap-save on torch's transforms.
#pragma once

#include "dispatch/dispatch.h"
#include "dispatch/windows.h"

namespace torch_conv {

// `problem` as the direct kernel families take it, its taps in `window` and on the images' device.
//
//   image --read--> tiles --rfft2--> spectra --times that of the window--> --irfft2--> sums --write--> result
//
// On the CPU tiles of windows of one row or one column are single rows, transformed along one dimension.
//
// Where a NaN, an infinity or an overflow reached a tile's sums they are made again directly. Nothing waits for the
// GPU, and memory is bounded by kFftWorkspace.
void run_by_fft(Call& call, const Target& target, const Direct& problem, const Window& window);

}  // namespace torch_conv
